"""Scorers of the caller's own, and what samplers remember between calls."""

from __future__ import annotations

import numpy as np
import pytest

import vitalrank as vr
from sampler_calls import assert_equal, call, world_of
from sampler_cases import VARIANTS, WORLD, World, make_log
from vitalrank.samplers import AOBPR, PRIS
from vitalrank.samplers.backends import backend_of


@pytest.mark.parametrize("name", ["aobpr", "pris"])
def test_a_scorer_alone_serves_those_that_propose_by_vectors(name):
    """Without vectors AOBPR ranks the full scores and PRIS keeps its static proposal."""
    plain = {"aobpr": AOBPR(exact=True), "pris": PRIS(candidates=16, clusters=0)}[name]
    asked = {"users": WORLD.users, "positives": WORLD.positives, "score": WORLD.dot}
    assert_equal(VARIANTS[name].bind(WORLD.log)(**asked), plain.bind(WORLD.log)(**asked))


def test_a_torch_scorer_may_answer_a_numpy_caller():
    torch = pytest.importorskip("torch")
    queries = torch.from_numpy(WORLD.queries.copy()).requires_grad_()
    table = torch.from_numpy(WORLD.table)
    draw = vr.VINS().bind(WORLD.log)(
        users=WORLD.users,
        positives=WORLD.positives,
        score=lambda rows, ids: (queries[rows, None] * table[ids]).sum(2),
    )
    assert_equal(draw, vr.VINS().bind(WORLD.log)(*WORLD.batch))


def test_a_scorer_is_asked_in_blocks():
    """With kappa=1024 and a violator at hand, nobody scores a thousand candidates."""
    sizes = []

    def score(rows, ids):
        sizes.append(ids.size)
        return np.zeros(ids.shape)

    vr.LFMW(kappa=1024).bind(WORLD.log)(users=WORLD.users, positives=WORLD.positives, score=score)
    assert max(sizes) <= 16 * len(WORLD.users)
    assert len(sizes) == 2  # the positives, then one block


FLIPPED = World(WORLD.log, -WORLD.table, WORLD.queries, WORLD.users, WORLD.positives)


@pytest.mark.parametrize("name", ["aobpr", "pris-few"])
def test_reset_forgets_what_was_built_from_earlier_tables(name):
    used, fresh = (VARIANTS[name].bind(WORLD.log) for _ in range(2))
    call(name, "numpy", WORLD, used, step=0)
    used.reset()
    assert_equal(call(name, "numpy", FLIPPED, used, step=1), call(name, "numpy", FLIPPED, fresh, step=1))


@pytest.mark.parametrize(
    ("name", "sampler"), [("aobpr", AOBPR(rho=0.01, refresh=3)), ("pris-few", PRIS(clusters=3, refresh=3))]
)
def test_refresh_says_how_long_a_sorting_or_a_grouping_lasts(name, sampler):
    bound = sampler.bind(WORLD.log)
    draws = [call(name, "numpy", WORLD if step == 0 else FLIPPED, bound, step=step) for step in range(4)]
    fresh = [call(name, "numpy", FLIPPED, sampler.bind(WORLD.log), step=step) for step in range(4)]
    assert (draws[2].ids != fresh[2].ids).any()
    assert_equal(draws[3], fresh[3])


def test_the_log_may_hold_users_without_rows():
    log = make_log([[], [], [0]], 3)
    assert vr.Uniform().bind(log)(users=[0, 1], positives=[0, 0]).ids.shape == (2, 1)


@pytest.mark.parametrize(("name", "built"), [("aobpr", "_order"), ("pris-few", "_groups")])
def test_what_is_renewed_stays_where_it_is(name, built):
    """A step that was captured on a GPU goes on reading the same place."""
    bound = VARIANTS[name].bind(WORLD.log)
    call(name, "numpy", WORLD, bound, step=0)
    first = np.atleast_1d(getattr(bound, built)[0])
    before = first.copy()
    bound.reset()
    bound.refresh(backend_of(WORLD.table), FLIPPED.table, 1, len(WORLD.users))
    assert np.shares_memory(first, getattr(bound, built)[0])
    assert (first != before).any()
    fresh = call(name, "numpy", FLIPPED, VARIANTS[name].bind(WORLD.log), step=1)
    assert_equal(call(name, "numpy", FLIPPED, bound, step=1), fresh)


@pytest.mark.parametrize("name", ["aobpr", "pris-few"])
def test_what_was_built_for_one_device_does_not_serve_another(name):
    world = world_of("gpu")
    bound = VARIANTS[name].bind(world.log, seed=1)
    here, there, back = (call(name, path, world, bound, step=0) for path in ("numpy", "gpu", "numpy"))
    np.testing.assert_array_equal(there.ids, here.ids)
    assert_equal(back, here)


def test_whole_numbers_and_tensors_of_any_torch_kind_are_taken():
    torch = pytest.importorskip("torch")

    class Named(torch.Tensor):
        """What other libraries give."""

    given = [torch.from_numpy(np.array(part)).as_subclass(Named) for part in WORLD.batch]
    given[0].requires_grad_()
    draw = vr.VINS().bind(WORLD.log, seed=torch.tensor(3))(*given, step=torch.tensor(2))
    assert_equal(draw, vr.VINS().bind(WORLD.log, seed=3)(*WORLD.batch, step=2))
