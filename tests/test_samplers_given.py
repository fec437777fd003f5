"""Negatives that come with the log (Known) or the batch (InBatch)."""

from __future__ import annotations

import numpy as np
import pytest

import vitalrank as vr
from reference.given import in_batch, known
from sampler_calls import assert_follows, assert_same, call, rows_of
from sampler_cases import make_world
from vitalrank.errors import SettingError

SEEN = [[0, 1], [2], [0, 3], [], [0, 1, 2, 3, 4]]
LOG = make_world(rows=5, seen=SEEN, n_items=6).log
DISLIKED = vr.Interactions.from_arrays([0, 0, 0, 1, 2, 9], [1, 4, 5, 0, 5, 2])  # (0, 1) is a positive; no user 9
PATHS = ["numpy", "torch", "gpu"]


def world(users, positives):
    made = make_world(rows=len(users), seen=SEEN, n_items=6)
    return type(made)(made.log, made.table, made.queries, np.array(users), np.array(positives))


@pytest.mark.parametrize("log", [LOG, LOG.with_negatives(DISLIKED)])
def test_known_negatives_are_drawn_alike(log):
    sampler = vr.Known(DISLIKED) if log is LOG else vr.Known()
    draw = sampler.bind(log, seed=3)(users=np.zeros(20_000, int), positives=np.zeros(20_000, int), k=2)
    assert_follows(draw.ids, {4: 0.5, 5: 0.5})
    np.testing.assert_allclose(draw.log_q, np.log(0.5))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("pool", [list(range(6)), [0, 4]])
def test_known_negatives_are_those_of_the_plain_definition(path, pool):
    batch = world([0, 1, 2, 3, 4, 0, 2], [0, 2, 3, 0, 1, 1, 0])
    draw = call("known", path, batch, vr.Known(DISLIKED).bind(batch.log, seed=9, allowed=pool), step=4, k=3)
    negatives = {0: [1, 4, 5], 1: [0], 2: [5]}
    rows = rows_of(batch, seed=9, step=4, pool=pool)
    assert_same(draw, [known(row, 3, negatives.get(int(u), [])) for row, u in zip(rows, batch.users, strict=True)])


def test_a_user_without_known_negatives_gets_none():
    draw = vr.Known(DISLIKED).bind(LOG)(users=[3, 1], positives=[0, 2])
    assert draw.ids.tolist() == [[-1], [0]]
    assert draw.weights.tolist() == [[0.0], [1.0]]
    assert draw.tries.tolist() == [0, 1]


def test_known_negatives_keep_to_the_pool_and_the_seed():
    bound = vr.Known(DISLIKED).bind(LOG, seed=1, allowed=[0, 4])
    assert set(bound(users=np.zeros(50, int), positives=np.zeros(50, int)).ids.ravel().tolist()) == {4}
    with pytest.raises(SettingError, match="no known negative"):
        vr.Known().bind(LOG)
    assert repr(vr.Known(DISLIKED)) != repr(vr.Known(LOG))  # by which runs know them


def test_a_mixture_fills_up_who_has_no_known_negatives():
    bound = vr.Mixed(vr.Known(DISLIKED), "uni", share=0.5).bind(LOG, seed=1)
    users = np.repeat([0, 3], 20_000)
    draw = bound(users=users, positives=users * 0)
    assert_follows(draw.ids[users == 0], {2: 1 / 8, 3: 1 / 8, 4: 3 / 8, 5: 3 / 8})
    assert_follows(draw.ids[users == 3], dict.fromkeys(range(6), 1 / 6))
    law = {2: 1 / 8, 3: 1 / 8, 4: 3 / 8, 5: 3 / 8}
    found = np.exp(draw.log_q[users == 0, 0])
    np.testing.assert_allclose(found, [law[j] for j in draw.ids[users == 0, 0]], rtol=1e-5)
    np.testing.assert_allclose(np.exp(draw.log_q[users == 3]), 1 / 6, rtol=1e-5)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("candidates", [None, 2, 99])
def test_in_batch_negatives_are_the_other_positives_that_are_unseen(path, candidates):
    batch = world([0, 1, 2, 3, 4, 1], [0, 2, 3, 0, 4, 5])
    draw = call("in-batch", path, batch, vr.InBatch(candidates).bind(batch.log, seed=1))
    rows = rows_of(batch, seed=1, step=0, pool=list(range(6)))
    assert_same(draw, [in_batch(rows, b, candidates, len(batch.log)) for b in range(len(rows))])


def test_a_batch_of_one_has_no_others_and_the_pool_is_kept():
    one = vr.InBatch().bind(LOG)(users=[3], positives=[0])
    assert (one.ids.tolist(), one.weights.tolist(), one.tries.tolist()) == ([[-1]], [[0.0]], [0])
    some = vr.InBatch().bind(LOG, allowed=[5])(users=[3, 3, 3], positives=[0, 5, 2])
    assert some.ids.tolist() == [[5, -1], [-1, -1], [-1, 5]]


@pytest.mark.parametrize("sampler", [vr.Known(DISLIKED), vr.Mixed(vr.Known(DISLIKED), "uni")], ids=str)
def test_known_negatives_are_the_same_on_the_gpu(sampler):
    batch = world([0, 1, 2, 3, 0, 2], [0, 2, 3, 0, 1, 0])
    draws = [call("known", path, batch, sampler.bind(batch.log, seed=4), step=2, k=3) for path in ("numpy", "gpu")]
    np.testing.assert_array_equal(draws[0].ids, draws[1].ids)
    np.testing.assert_allclose(draws[0].log_q, draws[1].log_q, rtol=1e-6)


@pytest.mark.parametrize("sampler", [vr.InBatch(), vr.InBatch(4), vr.Mixed(vr.Known(DISLIKED), "uni")], ids=str)
def test_models_train_with_them(sampler):
    options = {"epochs": 2, "seed": 0, "progress": False, "batch": 8}
    assert len(vr.MF(dim=4).fit(LOG, sampler, **options).history) == 2
    assert len(vr.MF(dim=4).fit(LOG, sampler, loss="softmax", **options).history) == 2
