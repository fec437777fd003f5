"""Counts for the analysis of class imbalance: right for every sampler, path and number of threads."""

from __future__ import annotations

import numpy as np
import pytest

import vitalrank as vr
from sampler_calls import PATHS, call, world_of
from sampler_cases import ALL, VARIANTS, WORLD
from vitalrank.samplers import SAMPLERS, Counts

# Threads are the CPU's.
CASES = [(path, threads) for path in PATHS for threads in (1, 2, 4) if path != "gpu" or threads == 1]


@pytest.mark.parametrize(
    ("path", "threads", "name"),
    [(*case, name) for case in CASES for name in VARIANTS if case[0] != "gpu" or name in SAMPLERS],
)
def test_counts_are_those_of_the_draws(name, path, threads):
    world = world_of(path)
    bound = VARIANTS[name].bind(world.log, 1, count=True, threads=threads)
    draws = [call(name, path, world, bound, step=step) for step in range(2)]
    counts = bound.counts
    open_rows = world.users != ALL
    ids = np.concatenate([draw.ids[open_rows].ravel() for draw in draws])
    np.testing.assert_array_equal(counts.positive, 2 * np.bincount(world.positives[open_rows], minlength=12))
    np.testing.assert_array_equal(counts.negative, np.bincount(ids, minlength=12))
    assert (counts.rows, counts.skipped) == (2 * len(open_rows), 2 * (~open_rows).sum())
    tries = np.concatenate([draw.tries[open_rows] for draw in draws])
    assert counts.tries == tries.sum()
    assert counts.tries_deviation == pytest.approx(tries.std())
    missed = sum((open_rows & ~draw.violated).sum() for draw in draws if draw.violated is not None)
    assert counts.exhausted == missed
    assert counts.exhausted_share == missed / (2 * open_rows.sum())


def test_imbalance_is_times_as_positive_over_times_as_negative():
    counts = Counts(4)
    counts.positive[:], counts.negative[:] = [3, 2, 0, 0], [2, 0, 5, 0]
    np.testing.assert_array_equal(counts.imbalance(), [1.5, np.inf, 0.0, np.nan])
    counts.clear()
    assert counts.positive.sum() == counts.negative.sum() == counts.rows == 0


def test_counts_are_kept_on_request_only():
    assert vr.Uniform().bind(WORLD.log).counts is None
