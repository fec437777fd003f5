"""Logs, shapes and settings of any kind: the kernels follow the plain definitions, and no row is ever wrong."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import vitalrank as vr
from sampler_calls import assert_reproduced
from sampler_cases import World, dyadic, make_log

QUICK = settings(max_examples=120, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])

counts = st.integers(1, 7)
betas = st.sampled_from([0.0, 0.3, 0.75, 1.0])
margins = st.sampled_from([-2.0, -0.25, 0.0, 0.5, 3.0])
ceilings = st.sampled_from([None, -0.25, 0.0, 0.5, "25%"])
ratios = st.sampled_from([0.05, 0.3, 1.0, 5.0])
weights = st.sampled_from(["log2", "harmonic", "none"])

SETTINGS = {
    "uni": {},
    "pop": {"beta": betas},
    "aobpr": {"rho": ratios, "exact": st.booleans()},
    "cml": {"candidates": counts, "margin": ratios},
    "pris": {"candidates": counts, "clusters": st.just(0), "proposal": st.sampled_from(["uniform", "popularity"])},
    "sa": {"candidates": counts, "temperature": st.sampled_from([0.0, 1.0, 4.0])},
    "irgan": {"temperature": ratios},
    "dns": {"candidates": counts, "ceiling": ceilings},
    "lfm-d": {"candidates": counts, "rho": ratios, "ceiling": ceilings},
    "mixgcf": {"candidates": counts, "ceiling": ceilings},
    "ahns": {"candidates": counts, "beta": st.sampled_from([0.25, 1.0]), "ceiling": ceilings},
    "bns": {"candidates": counts, "sample": st.sampled_from([0, 3]), "ceiling": ceilings},
    "mixed": {"share": st.sampled_from([0.0, 0.3, 1.0])},
    "lfm-w": {"margin": margins, "kappa": counts, "weight": weights},
    "vins": {
        "beta": betas,
        "kappa": counts,
        "margin": margins,
        "shots": st.none() | st.integers(1, 4),
        "weight": weights,
    },
}
samplers = st.sampled_from(sorted(SETTINGS)).flatmap(
    lambda name: st.tuples(st.just(name), st.fixed_dictionaries(SETTINGS[name]))
)


@st.composite
def worlds(draw) -> World:
    """1 to 20 items, 1 to 4 users with anything between none and all of them, vectors 1 to 5 wide."""
    n = draw(st.integers(1, 20))
    some = st.lists(st.integers(0, n - 1), unique=True, max_size=n)
    seen = draw(st.lists(some | st.just(list(range(n))), min_size=1, max_size=4))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    rows, width = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    users, positives = rng.integers(0, len(seen), rows), rng.integers(0, n, rows)
    return World(make_log(seen, n), dyadic(rng, n, width), dyadic(rng, rows, width), users, positives)


@st.composite
def pools(draw, n: int) -> list[int] | None:
    """The whole catalogue, or part of it."""
    part = st.lists(st.integers(0, n - 1), unique=True).map(sorted)
    return draw(st.none() | part)


@given(samplers, worlds(), st.integers(0, 2**32 - 1), st.integers(1, 3), st.data())
@QUICK
def test_the_definition_is_reproduced(sampler, world, step, k, data):
    assert_reproduced(world, *sampler, step, k, data.draw(pools(len(world.table))))


@given(worlds(), st.integers(1, 30), st.data())
@QUICK
def test_pris_over_any_clusters_proposes_open_items_by_a_density(world, clusters, data):
    pool = data.draw(pools(len(world.table)))
    bound = vr.PRIS(candidates=20, clusters=clusters).bind(world.log, allowed=pool)
    draw = bound(*world.batch)
    for user, ids, log_q in zip(world.users, draw.ids, draw.log_q, strict=True):
        open_items = set(range(len(world.table)) if pool is None else pool) - world.seen(user)
        assert set(ids.tolist()) <= (open_items or {-1})
        told = dict(zip(ids.tolist(), log_q.tolist(), strict=True))
        total = sum(np.exp(value) for value in told.values())
        assert total <= 1 + 1e-5
        if set(told) == open_items:
            np.testing.assert_allclose(total, 1, rtol=1e-5)
