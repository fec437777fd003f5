"""The ceiling of the hard samplers: nothing above it is taken, on any device, and without it nothing changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import vitalrank as vr
from sampler_calls import assert_equal, call, world_of
from sampler_cases import WORLD

HARD = {
    "dns": vr.DNS(candidates=6),
    "lfm-d": vr.LFMD(candidates=6, rho=0.3),
    "ahns": vr.AHNS(candidates=6),
    "mixgcf": vr.MixGCF(candidates=6),
    "bns": vr.BNS(candidates=6, sample=4),
    "sa": vr.SA(candidates=6),
    "pris": vr.PRIS(candidates=6, clusters=4),
    "lfm-w": vr.LFMW(kappa=12),
    "vins": vr.VINS(kappa=12),
}
CEILINGS = [-0.25, 0.0, 0.5, "25%", "-10%"]
hard = pytest.mark.parametrize("name", HARD)


def scores_of(world, ids):
    return np.where(ids >= 0, world.dot(np.arange(len(ids)), np.maximum(ids, 0)), -np.inf)


@hard
@pytest.mark.parametrize("ceiling", CEILINGS)
@pytest.mark.parametrize("path", ["numpy", "score"])
def test_nothing_above_the_ceiling_is_taken(name, ceiling, path):
    draw = call(name, path, WORLD, replace(HARD[name], ceiling=ceiling).bind(WORLD.log, 1))
    own = WORLD.dot(np.arange(len(WORLD.users)), WORLD.positives[:, None])
    limits = own + (float(ceiling[:-1]) / 100 * abs(own) if isinstance(ceiling, str) else ceiling)
    assert (scores_of(WORLD, draw.ids) <= limits + 1e-6).all()
    assert (draw.ids >= 0).any()
    assert ((draw.weights > 0) == (draw.ids >= 0)).all()
    assert (draw.tries[WORLD.users != 7] > 0).all()  # a search that found nothing has looked


@hard
def test_a_high_ceiling_changes_nothing(name):
    free = call(name, "numpy", WORLD, HARD[name].bind(WORLD.log, 1))
    assert_equal(free, call(name, "numpy", WORLD, replace(HARD[name], ceiling=100.0).bind(WORLD.log, 1)))


@hard
@pytest.mark.parametrize("ceiling", [0.0, "25%"])
def test_the_gpu_takes_the_same(name, ceiling):
    world = world_of("gpu")
    sampler = replace(HARD[name], ceiling=ceiling)
    one, other = (call(name, path, world, sampler.bind(world.log, 1)) for path in ("numpy", "gpu"))
    np.testing.assert_array_equal(one.ids, other.ids)
    np.testing.assert_array_equal(one.tries, other.tries)
    np.testing.assert_allclose(one.weights, other.weights, rtol=2e-6, atol=1e-7)


@hard
def test_the_text_of_a_sampler_without_a_ceiling_is_that_of_version_0_1(name):
    assert "ceiling" not in repr(HARD[name])
    assert "ceiling=0.5" in repr(replace(HARD[name], ceiling=0.5))
    assert HARD[name] != replace(HARD[name], ceiling=0.5)


def test_a_band_without_scores_is_refused():
    with pytest.raises(vr.SettingError, match="no score lies between"):
        vr.VINS(margin=0.5, ceiling=-0.5)
