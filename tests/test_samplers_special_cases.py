"""What VINS contains: Uni and LFM-W draw for draw, POP in two senses that are not the same."""

from __future__ import annotations

import numpy as np
import pytest

import vitalrank as vr
from reference import proposing as plain
from sampler_cases import make_world
from vitalrank.kernels import cpu

WORLD = make_world(seed=4, rows=60)


def draws_of(sampler, k: int = 1, **options):
    """A few steps of one sampler."""
    bound = sampler.bind(WORLD.log, seed=3, **options)
    return [bound(*WORLD.batch, step=step, k=k) for step in range(4)]


@pytest.mark.parametrize("shots", [1, 8, None])
@pytest.mark.parametrize("allowed", [None, [1, 4, 5, 9, 10]])
def test_uni_is_vins_with_kappa_1_and_beta_0_draw_for_draw(shots, allowed):
    vins = draws_of(vr.VINS(beta=0.0, kappa=1, shots=shots), k=2, allowed=allowed)
    uni = draws_of(vr.Uniform(), k=2, allowed=allowed)
    for ours, theirs in zip(vins, uni, strict=True):
        np.testing.assert_array_equal(ours.ids, theirs.ids)
        np.testing.assert_array_equal(ours.tries, theirs.tries)
        np.testing.assert_array_equal(ours.weights, theirs.weights)  # K = 1: the largest weight, 1


@pytest.mark.parametrize("shots", [1, 8, None])
@pytest.mark.parametrize("margin", [-0.5, 0.0, 1.0])
def test_lfm_w_is_vins_with_beta_0_and_harmonic_weights_draw_for_draw(shots, margin):
    vins = draws_of(vr.VINS(beta=0.0, kappa=1024, margin=margin, shots=shots, weight="harmonic"))
    lfm_w = draws_of(vr.LFMW(margin=margin))
    for ours, theirs in zip(vins, lfm_w, strict=True):
        for part in ("ids", "tries", "weights", "violated"):
            np.testing.assert_array_equal(getattr(ours, part), getattr(theirs, part))


def laws(beta: float) -> tuple[np.ndarray, np.ndarray]:
    """VINS(kappa=1, shots=None) given each positive item, (i, j), and POP's law, (j,); for who has seen nothing."""
    bound = vr.VINS(beta=beta, kappa=1, shots=None).bind(WORLD.log)
    given = np.array([cpu.proposal_mass(bound.proposal, bound.seen, i) for i in range(WORLD.log.n_items)])
    pi = np.maximum(WORLD.log.item_degree, 1.0) ** beta
    return given, pi / pi.sum()


@pytest.mark.parametrize("beta", [0.5, 1.0])
def test_given_the_positive_the_law_is_the_capped_ratio_and_not_pop(beta):
    given, pop = laws(beta)
    for i, law in enumerate(given):
        expected = plain.normalised({j: min(pop[j] / pop[i], 1) for j in range(len(pop))})
        np.testing.assert_allclose(law, list(expected.values()), rtol=1e-6)
    below_the_top = pop < pop.max()
    assert np.abs(given[below_the_top] - pop).max(axis=1).min() > 1e-3


@pytest.mark.parametrize("beta", [0.5, 1.0])
def test_given_a_positive_of_maximal_weight_the_law_is_pop(beta):
    given, pop = laws(beta)
    np.testing.assert_allclose(given[pop.argmax()], pop, rtol=1e-6)


@pytest.mark.parametrize("beta", [0.5, 1.0])
def test_given_a_positive_that_no_open_item_outweighs_the_law_is_pop(beta):
    given, pop = laws(beta)
    for i, law in enumerate(given):
        lighter = pop <= pop[i]  # what is open to a user who has seen all heavier items
        np.testing.assert_allclose(law[lighter] / law[lighter].sum(), pop[lighter] / pop[lighter].sum(), rtol=1e-6)


@pytest.mark.parametrize("beta", [0.5, 1.0])
def test_pop_is_the_stationary_law_of_the_chain_of_theorem_3(beta):
    given, pop = laws(beta)
    n = len(pop)
    P = given * np.minimum(pop[None] / pop[:, None], 1).sum(axis=1, keepdims=True) / n
    P[np.diag_indices(n)] += 1 - P.sum(axis=1)
    np.testing.assert_allclose(pop @ P, pop, rtol=1e-6)


def test_with_beta_0_all_of_them_are_uniform():
    given, pop = laws(0.0)
    np.testing.assert_allclose(given, 1 / len(pop))
    np.testing.assert_allclose(pop, 1 / len(pop))


def test_the_weight_of_vins_is_the_equation_of_the_paper():
    draws = draws_of(vr.VINS(beta=1.0, kappa=40, margin=-0.5))
    Z = np.maximum(WORLD.log.item_degree, 1).sum()
    for draw in draws:
        open_rows = draw.tries > 0
        r = np.floor(Z / draw.tries[open_rows])
        numerator = 1 + 0.5 * (np.ceil(np.log2(r + 1)) - 1)
        denominator = 1 + 0.5 * (np.ceil(np.log2(Z + 1)) - 1)
        np.testing.assert_allclose(draw.weights[open_rows, 0], numerator / denominator, rtol=1e-6)
        assert not draw.weights[~open_rows].any()
