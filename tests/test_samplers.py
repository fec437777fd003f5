"""The contract of every sampler on every way to call it."""

from __future__ import annotations

import numpy as np
import pytest

import vitalrank as vr
from sampler_calls import BY_VECTORS, GPU, PARTS, PATHS, assert_equal, call, world_of
from sampler_cases import ALL, ALL_BUT_ONE, KEEPS_ALL, NEWCOMER, VARIANTS, WORLD, make_world
from vitalrank.samplers import SAMPLERS

every_sampler = pytest.mark.parametrize("name", VARIANTS)
every_path = pytest.mark.parametrize("path", PATHS)
# Interpreted kernels are slow: a variant of a sampler is drawn by them once, in the test that compares all paths.
CALLS = [(name, path) for name in VARIANTS for path in PATHS if path != "gpu" or name in SAMPLERS or GPU != "cpu"]
every_call = pytest.mark.parametrize(("name", "path"), CALLS)


@every_sampler
@every_path
def test_every_path_gives_the_same_and_leaves_its_inputs_alone(name, path):
    world = world_of(path)
    copies = [array.copy() for array in (*world.batch, world.log.items, world.log.indptr)]
    draw, plain = call(name, path, world, step=2), call(name, "numpy", world, step=2)
    for before, after in zip(copies, (*world.batch, world.log.items, world.log.indptr), strict=True):
        np.testing.assert_array_equal(before, after)
    for part in PARTS:
        if getattr(plain, part) is not None:
            np.testing.assert_allclose(getattr(draw, part), getattr(plain, part), rtol=2e-6, atol=1e-7, err_msg=part)
    assert_well_formed(draw, name, world)


def assert_well_formed(draw, name, world):
    """Shapes, types, ranges, and no seen item."""
    rows, k = len(world.users), draw.ids.shape[1]
    assert k == getattr(VARIANTS[name], "candidates", 1) if name in KEEPS_ALL else k == 1
    assert (draw.ids.dtype, draw.weights.dtype, draw.tries.dtype) == (np.int64, np.float32, np.int32)
    assert draw.weights.shape == (rows, k)
    assert draw.tries.shape == (rows,)
    for user, ids, weights, tries in zip(world.users, draw.ids, draw.weights, draw.tries, strict=True):
        if user == ALL:
            assert set(ids) == {-1}
            assert not weights.any()
            assert tries == 0
        else:
            assert set(ids.tolist()) <= set(range(12)) - world.seen(user)
            assert np.isfinite(weights).all()
            assert (weights >= 0).all()
            assert tries >= 1
    if draw.log_q is not None:
        assert draw.log_q.shape == (rows, k)
        assert draw.log_q.dtype == np.float32
        assert (draw.log_q <= 1e-6).all()
    if draw.violated is not None:
        assert draw.violated.shape == (rows,)
        assert draw.violated.dtype == bool


@every_sampler
@pytest.mark.parametrize("path", [path for path in PATHS if path != "gpu"])
def test_the_same_with_1_2_and_4_threads(name, path):
    world = world_of(path)
    draws = [call(name, path, world, VARIANTS[name].bind(world.log, 1, threads=t), step=3) for t in (1, 2, 4)]
    assert_equal(draws[0], draws[1])
    assert_equal(draws[0], draws[2])


@every_call
def test_rows_permute_with_their_inputs(name, path):
    world = world_of(path)
    order = np.random.default_rng(0).permutation(len(world.users))
    half = order[: len(order) // 2]
    whole = call(name, path, world, step=4)
    assert_equal(whole, call(name, path, world, order=half, rows=half, step=4), half)


@every_sampler
def test_each_row_is_scored_for_its_own_user(name):
    """A scorer that knows the rows: each row likes one item alone, the others hate it."""
    liked = WORLD.positives
    asked = []

    def score(rows, ids):
        asked.append(rows)
        return np.where(ids == liked[rows][:, None], 9.0, -9.0)

    vectors = (WORLD.queries, WORLD.table) if name in BY_VECTORS else (None, None)
    draw = VARIANTS[name].bind(WORLD.log)(*vectors, WORLD.users, liked, score=score)
    assert all(rows.max() < len(liked) for rows in asked)
    if name.startswith("irgan"):  # the only unseen item of its row with a score has all the mass
        hit = [j not in WORLD.seen(u) for u, j in zip(WORLD.users, liked, strict=True)]
        np.testing.assert_array_equal(draw.ids[hit, 0], liked[hit])


@pytest.mark.parametrize(("name", "path"), [call for call in CALLS if call[0] not in KEEPS_ALL])
def test_k_negatives_extend_the_first(name, path):
    world = world_of(path)
    one, three = call(name, path, world, step=1), call(name, path, world, step=1, k=3)
    assert three.ids.shape == three.weights.shape == (len(world.users), 3)
    np.testing.assert_array_equal(three.ids[:, :1], one.ids)
    np.testing.assert_allclose(three.weights[:, :1], one.weights, rtol=1e-6)
    newcomers = world.users == NEWCOMER
    if name not in ("vins-one-shot",) and newcomers.sum() > 1:
        assert (three.ids[newcomers] != three.ids[newcomers][:, :1]).any(), "the k draws are not copies"


@every_sampler
def test_steps_and_seeds_draw_other_numbers(name):
    draws = [call(name, "numpy", WORLD, VARIANTS[name].bind(WORLD.log, seed), step=step).ids
             for seed, step in ((1, 0), (1, 1), (2**63, 0))]  # fmt: skip
    assert (draws[0] != draws[1]).any()
    assert (draws[0] != draws[2]).any()


@every_call
def test_allowed_as_a_mask_or_as_ids(name, path):
    world = world_of(path)
    pool = [1, 3, 9, 10]
    mask = np.isin(np.arange(12), pool)
    by_ids = call(name, path, world, VARIANTS[name].bind(world.log, 1, allowed=pool[::-1]))
    by_mask = call(name, path, world, VARIANTS[name].bind(world.log, 1, allowed=mask))
    assert_equal(by_ids, by_mask)
    assert set(by_ids.ids.ravel().tolist()) <= {-1, *pool}
    closed = [set(pool) <= world.seen(user) for user in world.users]
    np.testing.assert_array_equal((by_ids.ids == -1).all(axis=1), closed)


@every_call
def test_nothing_allowed(name, path):
    world = world_of(path)
    draw = call(name, path, world, VARIANTS[name].bind(world.log, allowed=[]))
    assert (draw.ids == -1).all()
    assert not draw.weights.any()
    assert not draw.tries.any()


@every_call
def test_an_empty_batch(name, path):
    world = world_of(path)
    draw = call(name, path, world, order=np.zeros(0, int))
    assert draw.ids.shape[0] == draw.weights.shape[0] == draw.tries.shape[0] == 0


@every_call
def test_a_user_with_one_open_item_gets_it(name, path):
    world = world_of(path)
    draw = call(name, path, world, step=8)
    assert (draw.ids[world.users == ALL_BUT_ONE] == 9).all()


@every_call
@pytest.mark.parametrize("seen", [[[], [0]], [[0], [0]]])
def test_a_catalogue_of_one_item(name, path, seen):
    draw = call(name, path, make_world(rows=4, seen=seen, n_items=1))
    expected = np.array([0 if not seen[u] else -1 for u in (0, 1, 0, 1)])
    np.testing.assert_array_equal(draw.ids, np.tile(expected[:, None], (1, draw.ids.shape[1])))


@every_call
def test_items_without_users_can_be_drawn(name, path):
    rows = 400 if world_of(path) is WORLD else 24 if name in KEEPS_ALL else 60
    sparse = make_world(rows=rows, seen=[[0, 1], [1], [2], []], n_items=6)
    ids = call(name, path, sparse, step=1).ids
    assert {3, 4, 5} <= set(ids.ravel().tolist())


@every_sampler
def test_repeated_positives_are_drawn_apart(name):
    users = np.full(200, NEWCOMER)
    rng = np.random.default_rng(1)
    table = rng.normal(size=(12, 4)).astype(np.float32) / 8
    draw = VARIANTS[name].bind(WORLD.log)(np.ones((200, 4)), table, users, np.full(200, 3))
    assert len({tuple(row) for row in draw.ids.tolist()}) > 1


@pytest.mark.parametrize("settings", [{"kappa": 1}, {"beta": 0.0}, {"beta": 1.0}, {"shots": 1}, {"margin": -100.0}])
def test_vins_at_its_edges(settings):
    draw = vr.VINS(**settings).bind(WORLD.log)(*WORLD.batch)
    open_rows = WORLD.users != ALL
    kappa = settings.get("kappa", 64)
    assert (draw.tries[open_rows] <= kappa).all()
    if settings == {"margin": -100.0}:  # nothing violates: the best of kappa candidates
        assert (draw.tries[open_rows] == kappa).all()
        assert not draw.violated.any()
        scores = WORLD.queries @ WORLD.table.T
        for b in np.flatnonzero(WORLD.users == NEWCOMER):  # 64 draws of 12 items all but surely meet the best
            assert scores[b, draw.ids[b, 0]] >= np.sort(scores[b])[-2]
