"""The edge of a sampler's call: what cannot be drawn from is an error, and what forgets its step repeats no draw."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import vitalrank as vr
from sampler_calls import assert_equal, on_gpu
from sampler_cases import VARIANTS, WORLD, make_world
from vitalrank._util.memory import available_memory
from vitalrank.errors import SettingError
from vitalrank.samplers import SAMPLERS, backends

BAD = [np.nan, np.inf, -np.inf]
SCORED = sorted(name for name in VARIANTS if VARIANTS[name].bind(WORLD.log, seed=1).needs_scores)


def bind(name):
    return VARIANTS[name].bind(WORLD.log, seed=1)


@pytest.mark.parametrize("name", VARIANTS)
def test_settings_are_not_called(name):
    with pytest.raises(SettingError, match=r"bind it first: \w+\(\)\.bind\(train, seed=0\)"):
        VARIANTS[name](*WORLD.batch)


@pytest.mark.parametrize("name", ["uni", "vins", "pris"])
def test_a_call_without_a_step_goes_on_from_the_one_before(name):
    bound, again = bind(name), bind(name)
    for step in (0, 1, 2):
        assert_equal(bound(*WORLD.batch), again(*WORLD.batch, step=step))
    assert bound.next_step == 3
    again(*WORLD.batch, step=6)
    assert_equal(again(*WORLD.batch), bind(name)(*WORLD.batch, step=7))


def test_a_scorer_is_a_function():
    with pytest.raises(SettingError, match=r"score is 5; give a function of rows \(R,\) and ids \(R, C\)"):
        bind("vins")(users=WORLD.users, positives=WORLD.positives, score=5)


@pytest.mark.parametrize("name", VARIANTS)
def test_vectors_have_columns(name):
    queries, table = np.zeros((len(WORLD.users), 0)), np.zeros((WORLD.log.n_items, 0))
    with pytest.raises(SettingError, match=r"shape \(\d+, 0\); its vectors must have at least one column"):
        bind(name)(queries, table, WORLD.users, WORLD.positives)


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("name", VARIANTS)
def test_vectors_are_finite(name, bad):
    queries = WORLD.queries.copy()
    queries[3, 1] = bad
    with pytest.raises(SettingError, match="queries holds NaN or infinite values"):
        bind(name)(queries, WORLD.table, WORLD.users, WORLD.positives)
    with pytest.raises(SettingError, match="item_table holds NaN or infinite values"):
        bind(name)(WORLD.queries, np.full_like(WORLD.table, bad), WORLD.users, WORLD.positives)


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("name", SCORED)
def test_scores_of_a_scorer_are_finite(name, bad):
    def score(rows, ids):
        return np.full(ids.shape, bad, np.float32)

    with pytest.raises(SettingError, match="a candidate's score is NaN or infinite"):
        bind(name)(users=WORLD.users, positives=WORLD.positives, score=score)


@pytest.mark.parametrize("name", ["sa", "pris-static", "dns", "cml", "vins", "lfm-w", "irgan", "aobpr-exact"])
def test_scores_that_overflow_are_an_error(name):
    big = np.float32(1e30)
    with np.errstate(over="ignore"), pytest.raises(SettingError, match="too large"):
        bind(name)(WORLD.queries * big + big, WORLD.table * big + big, WORLD.users, WORLD.positives)


@pytest.mark.parametrize(
    ("name", "path", "bad"),
    [
        *((name, "numpy", bad) for name in VARIANTS for bad in BAD),
        *((name, "gpu", bad) for name in SAMPLERS for bad in BAD[:2]),
    ],
)
def test_unchecked_scores_never_draw_a_seen_item(name, bad, path):
    """What an engine asks for after its training has diverged, and before it looks at its loss."""
    world = make_world(seed=0, rows=9)
    bound = VARIANTS[name].bind(world.log, seed=1)
    queries = np.full_like(world.queries, bad)
    if path == "gpu":
        draw = on_gpu(bound, queries, world.table, world.users, world.positives)
    else:
        draw = bound(queries, world.table, world.users, world.positives, check_finite=False)
    for user, ids in zip(world.users, draw.ids, strict=True):
        assert not world.seen(user) & set(ids.tolist())
        assert ((ids >= -1) & (ids < world.log.n_items)).all()


def test_a_pool_that_does_not_fit_into_memory_is_refused_before_it_is_allocated(monkeypatch):
    monkeypatch.setattr(backends, "available_memory", lambda: 2**28)
    sampler = vr.DNS(candidates=2**20).bind(WORLD.log, seed=0)
    with pytest.raises(SettingError, match=r"takes 4\.5 GiB and 0\.2 GiB are free; lower candidates, k or the batch"):
        sampler(*WORLD.batch)


@pytest.mark.parametrize("name", ["dns", "mixgcf", "pris"])
def test_what_scores_a_pool_takes_memory_as_well(monkeypatch, name):
    rows = len(WORLD.users)
    sampler = type(VARIANTS[name])(candidates=2**20).bind(WORLD.log, seed=0)
    monkeypatch.setattr(backends, "available_memory", lambda: rows * 2**20 * 16)  # the pool would fit
    with pytest.raises(SettingError, match="lower candidates, k or the batch"):
        sampler(users=WORLD.users, positives=WORLD.positives, score=lambda rows, ids: pytest.fail("it was scored"))


def test_a_limit_of_the_process_is_a_limit_of_its_memory():
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    free = available_memory()
    if free is None:
        pytest.skip("the system does not tell")
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    try:
        resource.setrlimit(resource.RLIMIT_AS, (used + 2**27, hard))
        limited = available_memory()
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    assert limited <= 2**27 < free
