"""Users who have seen nearly everything: never an endless search, and the law is kept."""

from __future__ import annotations

import numpy as np
import pytest

import vitalrank as vr
from reference import proposing as plain
from sampler_calls import assert_follows, draw_many
from sampler_cases import make_log
from vitalrank.kernels.cpu.sampling.bloom import new_bloom_filter
from vitalrank.kernels.proposals import BLOOM_HASH, BLOOM_ITEMS_PER_WORD, BLOOM_WORDS

# The first user has three of 400 items open, of degrees 3, 2 and 0 (which counts as 1).
OPEN = (7, 250, 399)
CROWD = make_log([[j for j in range(400) if j not in OPEN], [7, 250], [7, 250], [7, 8]], 400)


@pytest.mark.parametrize(
    "sampler",
    [
        vr.Uniform(),
        vr.Popularity(1.0),
        vr.VINS(beta=1.0, kappa=1, shots=3),
        vr.VINS(beta=1.0, kappa=1, shots=None),
        vr.DNS(candidates=1),
    ],
    ids=repr,
)
@pytest.mark.parametrize("positive", [7, 8, 399])
def test_rescued_draws_keep_the_law(sampler, positive):
    """With 3 of 400 items open six draws in ten are rescued."""
    weights = np.maximum(CROWD.item_degree, 1).astype(float).tolist()
    law = {
        "Uniform": lambda: dict.fromkeys(range(400), 1.0),
        "DNS": lambda: dict.fromkeys(range(400), 1.0),
        "Popularity": lambda: dict(enumerate(weights)),
        "VINS": lambda: (
            plain.limit_law(positive, weights, list(range(400)))
            if sampler.shots is None
            else plain.reject_law(positive, sampler.shots, weights, list(range(400)))
        ),
    }[type(sampler).__name__]()
    draw = draw_many(sampler, CROWD, 0, positive)
    assert_follows(draw.ids, plain.normalised({j: law[j] for j in OPEN}))


@pytest.mark.parametrize("sampler", [vr.AOBPR(rho=0.3), vr.PRIS(candidates=1, clusters=4)], ids=repr)
def test_rescued_draws_by_vectors_keep_the_law(sampler):
    rng = np.random.default_rng(6)
    table, query = rng.normal(size=(400, 3)) / 2, [0.75, -0.5, 0.25]
    draw = draw_many(sampler, CROWD, 0, query=query, table=table)
    if isinstance(sampler, vr.AOBPR):
        law = dict(enumerate(sampler.bind(CROWD).probabilities(np.array(query), table.astype(np.float32))))
    else:
        law = {j: float(np.exp(draw.log_q[draw.ids == j][0])) for j in OPEN}
        assert sum(law.values()) == pytest.approx(1, abs=1e-5)
    assert_follows(draw.ids, plain.normalised({j: law[j] for j in OPEN}))


def _bits(item: int, seen: int = 2) -> tuple[int, int, int]:
    """The word of the Bloom filter that an item hashes to to a user who has seen so many, and its two bits."""
    hashed = item * BLOOM_HASH % 2**32
    bit = hashed * 64 * (BLOOM_WORDS + seen // BLOOM_ITEMS_PER_WORD) >> 32
    return bit // 64, *sorted((bit % 64, hashed % 64))


@pytest.mark.parametrize("seen", [3, 300, 3000])
def test_the_bloom_filter_stays_sparse_however_much_was_seen(seen):
    items = np.random.default_rng(0).permutation(10**6)[: 3 * seen].astype(np.int32)
    bloom = new_bloom_filter(np.array([0, seen, seen, 3 * seen]), items)
    assert np.bitwise_count(bloom).sum() / (64 * len(bloom)) < 2 * BLOOM_ITEMS_PER_WORD / 64


def test_false_positives_of_the_bloom_filter_are_not_taken_for_seen():
    many = 100_000
    like_5, like_700 = ([other for other in range(many) if _bits(other) == _bits(item)] for item in (5, 700))
    log = make_log([[5, 700]], many)
    assert min(len(like_5), len(like_700)) > 1
    among = vr.Uniform().bind(log, allowed=sorted(like_5 + like_700))
    draw = among(users=np.zeros(400, int), positives=np.full(400, 5))
    assert set(draw.ids.ravel().tolist()) == {*like_5, *like_700} - {5, 700}


def test_who_has_seen_every_other_item_gets_the_rest():
    evens = vr.VINS(shots=None, kappa=1).bind(make_log([list(range(0, 2000, 2))], 2000))
    draw = evens(np.ones((3000, 1)), np.zeros((2000, 1)), np.zeros(3000, int), np.zeros(3000, int))
    assert (draw.ids % 2 == 1).all()
    assert len(set(draw.ids.ravel().tolist())) > 900
