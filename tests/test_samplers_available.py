"""``available=True``: only items first seen before the positive, as if the user had seen what came later."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
import pytest

import vitalrank as vr
from reference import REFERENCES, Row
from sampler_calls import BY_VECTORS, GPU, assert_follows, assert_same, device_request, rows_of
from sampler_cases import KEEPS_ALL, VARIANTS, make_world
from vitalrank.errors import SettingError
from vitalrank.samplers import SAMPLERS

NAMES = {type(sampler): name for name, sampler in ((name, entry()) for name, entry in SAMPLERS.items())}


def timed_world(seed: int = 0, rows: int = 36):
    """The world of the other tests with times, many of them equal; most pairs of the batch are rows of the log."""
    world = make_world(seed, rows)
    times = np.random.default_rng(seed).integers(0, 20, len(world.log))
    log = replace(world.log, times=times)
    known = np.random.default_rng(seed + 1).integers(0, len(log), rows)
    users, positives = log.users[known].astype(np.int64), log.items[known].astype(np.int64)
    positives[::5] = world.positives[::5]  # some are not
    return replace(world, log=log, users=users, positives=positives)


def later(world, user: int, positive: int) -> set[int]:
    """Items that were not there before the pair's time, worked out the long way."""
    log = world.log
    pair = (log.users == user) & (log.items == positive)
    if not pair.any():
        return set()
    born = {j: log.times[log.items == j].min() for j in set(log.items.tolist())}
    return {j for j in range(log.n_items) if not born.get(j, np.inf) < log.times[pair][0]}


def told(world, seed: int, step: int) -> list[Row]:
    """The rows of the plain definitions: what came later is seen."""
    rows = rows_of(world, seed, step, list(range(len(world.table))))
    pairs = zip(rows, world.users.tolist(), world.positives.tolist(), strict=True)
    return [replace(row, seen=row.seen | later(world, user, positive)) for row, user, positive in pairs]


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_sampler_treats_later_items_as_seen(variant):
    step = 3
    world, sampler = timed_world(step), VARIANTS[variant]
    k = 1 if variant in KEEPS_ALL else 2
    draw = sampler.bind(world.log, 5, available=True)(*world.batch, step=step, k=k)
    reference = REFERENCES[NAMES[type(sampler)]]
    assert_same(draw, [reference(row, k, **asdict(sampler)) for row in told(world, 5, step)])
    assert (draw.ids < 0).any()
    assert (draw.ids >= 0).any()


@pytest.mark.parametrize("variant", ["uni", "dns", "vins", "mixed"])
def test_a_scorer_draws_the_same(variant):
    world = timed_world(2)
    assert variant not in BY_VECTORS
    bound = VARIANTS[variant].bind(world.log, 5, available=True)
    one, other = bound(*world.batch, step=1), bound(*(None, None), *world.batch[2:], step=1, score=world.dot)
    np.testing.assert_array_equal(one.ids, other.ids)
    np.testing.assert_array_equal(one.tries, other.tries)


# Items 0 to 4 appear at times 1 to 5; the one pair of user 1 is at time 4, so items 0, 1 and 2 existed before.
LAW = vr.Interactions.from_arrays(
    [0, 2, 2, 3, 4, 0, 5, 6, 1, 5, 7, 8],
    [0, 1, 0, 2, 2, 3, 4, 1, 3, 0, 3, 3],
    times=[1, 2, 3, 3, 4, 4, 5, 6, 4, 7, 8, 9],
)  # of degrees 3, 2, 2, 4, 1


def drawn(sampler, **options):
    bound = sampler.bind(LAW, seed=2, available=True, **options)
    return bound(np.zeros((30_000, 1)), np.zeros((5, 1)), np.full(30_000, 1), np.full(30_000, 3), step=0)


def test_the_laws_over_the_items_that_existed():
    assert_follows(drawn(vr.Uniform()).ids, dict.fromkeys(range(3), 1 / 3))
    popular = drawn(vr.Popularity(1.0))
    law = {0: 3 / 7, 1: 2 / 7, 2: 2 / 7}
    assert_follows(popular.ids, law)
    np.testing.assert_allclose(np.exp(popular.log_q), np.vectorize(law.get)(popular.ids), rtol=1e-5)
    assert_follows(drawn(vr.VINS(beta=1.0, kappa=1, shots=None)).ids, law)  # all lighter than the positive
    assert_follows(drawn(vr.Uniform(), allowed=[1, 2, 4]).ids, {1: 0.5, 2: 0.5})


def test_known_negatives_that_came_later_are_not_drawn():
    disliked = vr.Interactions.from_arrays([1, 1, 1, 2], [0, 2, 4, 3])
    draw = drawn(vr.Known(disliked))
    assert_follows(draw.ids, {0: 0.5, 2: 0.5})
    np.testing.assert_allclose(np.exp(draw.log_q), 0.5)
    mixed = drawn(vr.Mixed(vr.Known(disliked), "uni", share=0.5))
    assert_follows(mixed.ids, {0: 1 / 4 + 1 / 6, 1: 1 / 6, 2: 1 / 4 + 1 / 6})
    late = vr.Interactions.from_arrays([1], [4])
    assert (drawn(vr.Known(late)).ids == -1).all()


def test_in_batch_positives_that_came_later_are_left_out():
    bound = vr.InBatch().bind(LAW, available=True)
    draw = bound(users=[1, 6, 5], positives=[3, 1, 4])  # at 4, 6 and 5
    assert draw.ids.tolist() == [[1, -1], [4, 3], [3, 1]]


def test_a_pair_without_a_row_may_have_any_item():
    assert vr.Uniform().bind(LAW, available=True)(users=[6] * 200, positives=[0] * 200).ids.max() == 4


def test_times_are_needed_and_a_graphics_card_is_refused():
    with pytest.raises(SettingError, match="needs times"):
        vr.Uniform().bind(make_world().log, available=True)
    with pytest.raises(SettingError, match="must be True or False"):
        vr.Uniform().bind(LAW, available="yes")
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    world = timed_world()
    bound = vr.Uniform().bind(world.log, available=True)
    with pytest.raises(SettingError, match="draws on the CPU"):
        bound.draw(device_request(bound, GPU, world.batch))
