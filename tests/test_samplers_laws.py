"""Each sampler follows its law: exact enumeration where it can be had, chi-square of many draws otherwise."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import vitalrank as vr
from reference import Row
from reference import proposing as plain
from reference import ranked as plain_ranked
from sampler_calls import DRAWS, assert_follows, draw_many
from sampler_cases import make_log
from vitalrank.kernels import cpu
from vitalrank.samplers import IRGAN, reject_sample
from vitalrank.samplers.proposals import degree_weights, reject_proposal

# Item j was seen by the users 0 .. degree - 1; the last user has seen nothing.
DEGREE = [8, 5, 5, 3, 2, 1, 1, 0]
LOG = make_log([[j for j, d in enumerate(DEGREE) if d > u] for u in range(9)], len(DEGREE))
ITEMS = range(len(DEGREE))
FAN, BROAD, NEWCOMER = 5, 3, 8  # have seen items {0}, {0, 1, 2}, {}
SHOTS = [1, 2, 3, 8, None]


def pi(beta: float) -> list[float]:
    """Weights as the kernels hold them."""
    return [float(np.float32(max(d, 1) ** beta)) for d in DEGREE]


def seen(user: int) -> set[int]:
    """Items of a user."""
    return {j for j, d in enumerate(DEGREE) if d > user}


def over_open(law: dict[int, float], user: int) -> dict[int, float]:
    """A law without the items the user has seen."""
    return plain.normalised({j: p for j, p in law.items() if j not in seen(user)})


def law_of(i: int, shots: int | None, beta: float, pool=ITEMS) -> dict[int, float]:
    """RejectSampler's law given the positive item."""
    if shots is None:
        return plain.limit_law(i, pi(beta), list(pool))
    return plain.reject_law(i, shots, pi(beta), list(pool))


# ---------------------------------------------------------------- static laws


@pytest.mark.parametrize("user", [FAN, BROAD, NEWCOMER])
def test_uniform(user):
    draw = draw_many(vr.Uniform(), LOG, user)
    law = over_open(dict.fromkeys(ITEMS, 1.0), user)
    assert_follows(draw.ids, law)
    np.testing.assert_allclose(np.exp(draw.log_q), 1 / len(law), rtol=1e-6)


@pytest.mark.parametrize("beta", [0.0, 0.75, 1.0])
@pytest.mark.parametrize("user", [FAN, BROAD, NEWCOMER])
def test_popularity(user, beta):
    draw = draw_many(vr.Popularity(beta), LOG, user, k=2)
    law = over_open(plain.weighted_law(pi(beta), ITEMS), user)
    assert_follows(draw.ids, law)
    np.testing.assert_allclose(np.exp(draw.log_q), np.vectorize(law.get)(draw.ids), rtol=1e-5)


def test_draws_of_one_row_and_of_neighbours_are_independent():
    ids = draw_many(vr.Uniform(), LOG, NEWCOMER, k=2).ids
    n = len(DEGREE)
    pairs = dict.fromkeys(product(ITEMS, ITEMS), 1 / n**2)
    for left, right in ((ids[:, 0], ids[:, 1]), (ids[:-1, 0], ids[1:, 0])):
        codes = left * n + right
        assert_follows(codes, {i * n + j: p for (i, j), p in pairs.items()})


# ---------------------------------------------------------------- RejectSampler


def test_the_law_of_algorithm_1_by_enumerating_every_course():
    """Three shots of four items: all 64 courses, each followed shot by shot."""
    weights, i, n = [4.0, 2.0, 2.0, 1.0], 0, 4
    law = dict.fromkeys(range(n), 0.0)
    for shots in product(range(n), repeat=3):
        going_on = 1 / n**3
        for j in shots:
            accept = min(weights[j] / weights[i], 1)
            law[j] += going_on * accept
            going_on *= 1 - accept
        law[max(shots, key=weights.__getitem__)] += going_on  # all rejected: the first of the heaviest
    expected = plain.reject_law(i, 3, weights, list(range(n)))
    assert law == pytest.approx(expected)
    assert sum(expected.values()) == pytest.approx(1)


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("shots", SHOTS)
@pytest.mark.parametrize("pool", [list(ITEMS), [1, 3, 4, 6]])
def test_the_kernel_knows_its_own_law(shots, beta, pool):
    law = reject_proposal(degree_weights(LOG, beta), np.array(pool), shots)
    bound = vr.VINS(beta=beta, shots=shots).bind(LOG, allowed=pool)
    for i in ITEMS:
        mass = cpu.proposal_mass(law, bound.seen, i)
        expected = law_of(i, shots, beta, pool)
        np.testing.assert_allclose(mass, [expected.get(j, 0.0) for j in ITEMS], rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("shots", SHOTS)
@pytest.mark.parametrize("i", [0, 3, 7])
def test_reject_sampler(shots, i):
    law = reject_proposal(degree_weights(LOG, 1.0), np.arange(len(DEGREE)), shots)
    picked = reject_sample(law, np.full(DRAWS, i), seed=5)
    assert_follows(picked, law_of(i, shots, beta=1.0))


def test_many_shots_approach_the_limit():
    gaps = [max(abs(law_of(0, shots, 1.0)[j] - law_of(0, None, 1.0)[j]) for j in ITEMS) for shots in (1, 4, 16, 64)]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] < 1e-12


@pytest.mark.parametrize("shots", SHOTS)
@pytest.mark.parametrize(("user", "i"), [(FAN, 0), (BROAD, 2), (NEWCOMER, 4)])
def test_vins_proposes_by_reject_sampler_over_the_open_items(shots, user, i):
    draw = draw_many(vr.VINS(beta=1.0, kappa=1, shots=shots), LOG, user, i)
    assert_follows(draw.ids, over_open(law_of(i, shots, 1.0), user))


# ---------------------------------------------------------------- ranks


def test_aobpr_ranks_by_the_exponential_law():
    table = -np.arange(8.0)[:, None]  # item = rank
    draw = draw_many(vr.AOBPR(rho=0.3), LOG, NEWCOMER, table=table)
    assert_follows(draw.ids, plain.normalised({r: np.exp(-r / (0.3 * 8)) for r in ITEMS}))
    upside_down = draw_many(vr.AOBPR(rho=0.3), LOG, NEWCOMER, query=[-2.0], table=table)
    assert_follows(7 - upside_down.ids, plain.normalised({r: np.exp(-r / (0.3 * 8)) for r in ITEMS}))


def test_aobpr_picks_factors_by_query_times_standard_deviation():
    """So small a rho always takes the first item of the factor, so that the item tells the factor."""
    table = np.zeros((8, 3), np.float32)
    table[0, 0], table[1, 1], table[2, 2] = 1.0, 3.0, -2.0
    query = [1.0, 0.5, -1.5]
    draw = draw_many(vr.AOBPR(rho=0.001), LOG, NEWCOMER, query=query, table=table)
    sigma = np.sqrt(table.var(axis=0))
    assert_follows(draw.ids, plain.normalised({f: abs(query[f]) * sigma[f] for f in range(3)}))


@pytest.mark.parametrize("user", [FAN, BROAD])
def test_aobpr_over_the_open_items(user):
    rng = np.random.default_rng(2)
    table, query = rng.normal(size=(8, 3)), [0.5, -1.0, 0.25]
    draw = draw_many(vr.AOBPR(rho=0.4), LOG, user, query=query, table=table)
    row = Row(0, 0, 0, 0, query, frozenset(), table.astype(np.float32).tolist(), DEGREE, list(ITEMS))
    law = plain_ranked.item_law(row, 0.4)
    assert_follows(draw.ids, over_open(law, user))
    bound = vr.AOBPR(rho=0.4).bind(LOG)
    np.testing.assert_allclose(
        bound.probabilities(np.array(query), table.astype(np.float32)), [law[j] for j in ITEMS], rtol=1e-6
    )


def test_exact_aobpr_ranks_the_open_items():
    draw = draw_many(vr.AOBPR(rho=0.25, exact=True), LOG, BROAD, table=-np.arange(8.0)[:, None])
    assert_follows(draw.ids - 3, plain.normalised({r: np.exp(-r / (0.25 * 8)) for r in range(5)}))


@pytest.mark.parametrize("user", [FAN, BROAD, NEWCOMER])
def test_a_mixture_is_of_the_laws_of_both(user):
    uniform, popular = (over_open(plain.weighted_law(pi(beta), ITEMS), user) for beta in (0.0, 1.0))
    draw = draw_many(vr.Mixed("uni", vr.Popularity(1.0), share=0.3), LOG, user, k=2)
    assert_follows(draw.ids, {j: 0.3 * uniform[j] + 0.7 * popular[j] for j in uniform})


def test_ahns_picks_the_nearest_of_every_pool():
    """Items score a quarter of their ids; the positive, 4, scores 1, so ``2.25 / (1 + 0.5)``, item 6's, is looked for.

    Items 5 and 7 are as near; the distance alone is compared.
    """
    distance = {j: abs(j - 6) for j in range(3, 8)}
    law = dict.fromkeys(range(4), 0.0)
    for pool in product(range(3, 8), repeat=3):
        law[min(distance[j] for j in pool)] += 1 / 5**3
    table = np.arange(8.0)[:, None] / 4
    draw = draw_many(vr.AHNS(candidates=3, alpha=0.5, beta=2.25), LOG, BROAD, positive=4, table=table)
    assert_follows(abs(draw.ids - 6), law)


def test_bns_picks_the_least_risk_of_every_pool():
    """Two candidates and a draw for F, of the five unseen items that score a quarter of their ids: 125 pools.

    The posterior of a true negative is spelt out, and the risk: gradient times the chance of a false one, less gains.
    """
    law, share = dict.fromkeys(range(3, 8), 0.0), [d / sum(DEGREE) for d in DEGREE]
    for pool in product(range(3, 8), repeat=3):
        risk = {}
        for j in pool[:2]:
            below = sum(other <= j for other in pool) / 4
            true, false = (1 - share[j]) * (1 - below), share[j] * below
            posterior = true / (true + false)
            risk[j] = (1 - posterior - 0.5 * posterior) / (1 + np.exp((4 - j) / 4))
        law[min(risk, key=risk.get)] += 1 / 5**3
    table = np.arange(8.0)[:, None] / 4
    draw = draw_many(vr.BNS(candidates=2, sample=1, alpha=0.5), LOG, BROAD, positive=4, table=table)
    assert_follows(draw.ids, law)


@pytest.mark.parametrize("sampler", [vr.LFMD(candidates=4, rho=0.3), vr.DNS(candidates=4)], ids=repr)
def test_pooled_picks_follow_the_rank_law(sampler):
    """The five unseen items score in the order of their ids; all 625 pools are listed, each rank with its chance."""
    law = dict.fromkeys(range(3, 8), 0.0)
    ranks = {"LFMD": [np.exp(-r / (4 * 0.3)) for r in (1, 2, 3, 4)], "DNS": [1.0]}[type(sampler).__name__]
    for pool in product(range(3, 8), repeat=4):
        for r, chance in enumerate(ranks):
            law[sorted(pool, reverse=True)[r]] += chance
    draw = draw_many(sampler, LOG, BROAD, table=np.arange(8.0)[:, None], k=2)
    assert_follows(draw.ids, plain.normalised(law))
    np.testing.assert_allclose(sampler.rank_probabilities(), np.array(ranks) / sum(ranks))


# ---------------------------------------------------------------- densities


@pytest.mark.parametrize(
    "sampler",
    [
        vr.PRIS(candidates=3, clusters=3),
        vr.PRIS(candidates=3, clusters=3, proposal="uniform"),
        vr.PRIS(candidates=3, clusters=0),
        vr.SA(candidates=3),
        IRGAN(temperature=0.5),
        vr.Popularity(0.5),
        vr.Mixed(share=0.25),
    ],
    ids=repr,
)
@pytest.mark.parametrize("user", [FAN, BROAD, NEWCOMER])
def test_log_q_is_the_log_of_the_law_that_is_drawn_from(sampler, user):
    rng = np.random.default_rng(3)
    table, query = rng.normal(size=(8, 2)) / 2, [0.5, -0.5]
    draw = draw_many(sampler, LOG, user, query=query, table=table)
    law = {}
    for j in set(ITEMS) - seen(user):
        told = draw.log_q[draw.ids == j]
        assert len(told), f"unseen item {j} was never drawn"
        assert np.ptp(told) == 0
        law[j] = float(np.exp(told[0], dtype=np.float64))
    assert sum(law.values()) == pytest.approx(1, abs=1e-5)
    assert_follows(draw.ids, law)


def test_irgan_is_the_softmax_of_the_scores():
    table = np.linspace(-1, 1, 8)[:, None]
    draw = draw_many(IRGAN(temperature=0.5), LOG, FAN, query=[1.0], table=table)
    assert_follows(draw.ids, over_open({j: float(np.exp(table[j, 0] / 0.5)) for j in ITEMS}, FAN))


# ---------------------------------------------------------------- K, the number of draws


@pytest.mark.parametrize("sampler", [vr.LFMW(kappa=9), vr.VINS(beta=1.0, shots=None, kappa=9)], ids=repr)
@pytest.mark.parametrize(("user", "i", "violators"), [(BROAD, 1, [4, 6]), (NEWCOMER, 0, [5, 6]), (FAN, 2, [3, 4])])
def test_tries_are_geometric_and_do_not_depend_on_the_violator(sampler, user, i, violators):
    beta = sampler.beta
    table = np.full((8, 1), -9.0)
    table[[i, *violators]] = 0.0
    draw = draw_many(sampler, LOG, user, i, table=table)
    proposals = over_open(law_of(i, None, beta), user)
    hits = {j: proposals[j] for j in proposals if table[j, 0] == 0.0}  # a positive not yet in the log may be drawn
    p = sum(hits.values())
    geometric = {K: p * (1 - p) ** (K - 1) for K in range(1, 10)}
    geometric[9] += (1 - p) ** 9  # nothing found: K = kappa
    assert_follows(draw.tries, geometric)
    found = draw.violated
    assert found.mean() == pytest.approx(1 - (1 - p) ** 9, abs=0.01)
    first, later = found & (draw.tries == 1), found & (draw.tries > 1)
    for rows in (first, later):
        assert_follows(draw.ids[rows], plain.normalised(hits))


# ---------------------------------------------------------------- Theorem 3


@pytest.mark.parametrize("beta", [0.0, 0.75, 1.0])
def test_detailed_balance_of_the_transition_matrix(beta):
    """P*: propose uniformly, accept by min(pi_j / pi_i, 1), stay otherwise."""
    weights = np.array(pi(beta))
    n = len(weights)
    bound = vr.VINS(beta=beta, shots=None).bind(LOG)
    accepted = np.minimum(weights[None] / weights[:, None], 1)  # (i, j)
    step = np.array([cpu.proposal_mass(bound.proposal, bound.seen, i) for i in range(n)])  # the kernel's
    P = step * accepted.sum(axis=1, keepdims=True) / n  # back to the chance of one proposal
    P[np.diag_indices(n)] += 1 - P.sum(axis=1)  # a rejected proposal stays
    np.testing.assert_allclose(P.sum(axis=1), 1)
    flow = weights[:, None] * P
    np.testing.assert_allclose(flow, flow.T, rtol=1e-6)  # pi_i P*_ij = pi_j P*_ji
    stationary = weights / weights.sum()
    np.testing.assert_allclose(stationary @ P, stationary, rtol=1e-6)
    np.testing.assert_allclose(np.linalg.matrix_power(P, 400)[0], stationary, rtol=1e-5)  # from any start


def test_accepted_draws_alone_balance_another_law():
    """Without the stays, as VINS uses it, the chain balances ``pi_i * (chance to accept from i)`` and not ``pi``."""
    weights = np.array(pi(1.0))
    bound = vr.VINS(beta=1.0, shots=None).bind(LOG)
    step = np.array([cpu.proposal_mass(bound.proposal, bound.seen, i) for i in ITEMS])
    accepted = np.minimum(weights[None] / weights[:, None], 1).sum(axis=1)
    flow = (weights * accepted)[:, None] * step
    np.testing.assert_allclose(flow, flow.T, rtol=1e-6)
    assert np.abs(weights @ step - weights).max() > 0.1
