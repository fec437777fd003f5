"""Ways to call a sampler, and to compare what it gives: with another call, or with the plain definition."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import asdict, fields

import numpy as np
import pytest
from scipy import stats

from reference import REFERENCES, Answer, Row
from sampler_cases import VARIANTS, WORLD, World, make_world
from vitalrank.samplers import SAMPLERS, Draw
from vitalrank.samplers.checking import checked_ids, checked_vectors
from vitalrank.samplers.draws import SampleRequest

PATHS = ("numpy", "torch", "score", "torch-score", "gpu")
GPU = "cuda:0" if "VITALRANK_TEST_GPU" in os.environ else "cpu"  # the CPU: kernels are interpreted, slowly
BY_VECTORS = {"aobpr", "pris", "pris-few"}  # their proposals read vectors even where a scorer is given
DRAWS = 60_000  # of one pair, for a chi-square
PARTS = [field.name for field in fields(Draw)]


def call(name: str, path: str, world: World, bound=None, order=None, **options) -> Draw:
    """One call along a path, its answer in NumPy."""
    bound = VARIANTS[name].bind(world.log, seed=1) if bound is None else bound
    order = np.arange(len(world.users)) if order is None else order
    queries, users, positives = world.queries[order], world.users[order], world.positives[order]
    table = world.table
    if path == "gpu":
        return on_gpu(bound, queries, table, users, positives, **options)
    if path == "numpy":
        return bound(queries, table, users, positives, **options)
    if path == "score":
        vectors = (queries, table) if name in BY_VECTORS else (None, None)
        scorer = World(world.log, table, queries, users, positives).dot
        return bound(*vectors, users, positives, score=scorer, **options)
    torch = pytest.importorskip("torch")
    queries = torch.from_numpy(queries.copy()).requires_grad_()
    table = torch.nn.Parameter(torch.from_numpy(table.copy()))
    users, positives = torch.from_numpy(users), torch.from_numpy(positives)
    if path == "torch":
        draw = bound(queries, table, users, positives, **options)
    else:
        vectors = (queries, table) if name in BY_VECTORS else (None, None)
        scorer = lambda rows, ids: (queries[rows].unsqueeze(1) * table[ids]).sum(dim=2)  # noqa: E731
        draw = bound(*vectors, users, positives, score=scorer, **options)
    told = {part: getattr(draw, part) for part in PARTS if getattr(draw, part) is not None}
    assert all(isinstance(value, torch.Tensor) and not value.requires_grad for value in told.values())
    return Draw(**{part: value.numpy() for part, value in told.items()})


def world_of(path: str) -> World:
    """A world that the path gets through in a moment."""
    return make_world(seed=0, rows=9) if path == "gpu" and GPU == "cpu" else WORLD


def device_request(bound, device: str, batch, step=0, k=1, rows=None) -> SampleRequest:
    """What a call makes of a batch on that device; a call itself takes CPU tensors to the CPU's kernels."""
    backend, (queries, table, users, positives) = bound.device_backend(device), batch
    ids, items, numbers = checked_ids(backend, bound.train, users, positives, rows)
    queries, table = checked_vectors(backend, queries, table, bound.train.n_items, items, False)
    return SampleRequest(backend, ids, items, backend.counter(bound.seed, step, numbers), step, k, queries, table)


def on_gpu(bound, queries, table, users, positives, step=0, k=1, rows=None) -> Draw:
    """A call whose arrays lie on the GPU, or where Triton takes the CPU for one; its answer in NumPy."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("triton", minversion="3.6")  # older ones interpret less
    draw = bound.draw(device_request(bound, GPU, (queries, table, users, positives), step, k, rows))
    if bound.counts is not None:
        bound.counts.gather()
    told = {part: getattr(draw, part) for part in PARTS if getattr(draw, part) is not None}
    assert all(isinstance(value, torch.Tensor) for value in told.values())
    return Draw(**{part: value.cpu().numpy() for part, value in told.items()})


def assert_equal(left: Draw, right: Draw, order=slice(None)) -> None:
    """Every part of two draws, the left one's rows reordered."""
    for part in PARTS:
        a, b = getattr(left, part), getattr(right, part)
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_array_equal(a[order], b, err_msg=part)


def rows_of(world: World, seed: int, step: int, pool: list[int]) -> list[Row]:
    """The batch as the plain definitions take it."""
    degree = np.bincount(world.log.items, minlength=len(world.table)).tolist()
    table = world.table.tolist()
    parts = zip(world.queries.tolist(), world.users.tolist(), world.positives.tolist(), strict=True)
    return [
        Row(seed, step, number, positive, query, frozenset(world.seen(user)), table, degree, pool)
        for number, (query, user, positive) in enumerate(parts)
    ]


def assert_same(draw, answers: list[Answer]) -> None:
    """A draw against the rows' answers."""
    np.testing.assert_array_equal(draw.ids, [a.ids for a in answers])
    np.testing.assert_array_equal(draw.tries, [a.tries for a in answers])
    np.testing.assert_allclose(draw.weights, [a.weights for a in answers], rtol=2e-5, atol=1e-7)
    for name in ("log_q", "violated", "mix"):
        told = [getattr(a, name) for a in answers]
        if told[0] is None:
            assert getattr(draw, name) is None
        else:
            np.testing.assert_allclose(getattr(draw, name), told, rtol=2e-5, atol=2e-6)


def assert_reproduced(world: World, name: str, settings: dict, step: int, k: int, pool: list[int] | None) -> None:
    """One call against the definition of each of its rows."""
    seed = 2**40 + 3
    sampler = SAMPLERS[name](**settings)
    k = 1 if name in ("sa", "pris") else k
    draw = sampler.bind(world.log, seed, allowed=pool)(*world.batch, step=step, k=k)
    rows = rows_of(world, seed, step, list(range(len(world.table))) if pool is None else pool)
    assert_same(draw, [REFERENCES[name](row, k, **asdict(sampler)) for row in rows])


def assert_follows(drawn, law: dict) -> None:
    """Chi-square of the draws against the law; what has no probability never occurs."""
    counts = Counter(np.asarray(drawn).ravel().tolist())
    possible = [x for x, p in law.items() if p > 0]
    assert set(counts) <= set(possible)
    observed = np.array([counts[x] for x in possible])
    expected = np.array([law[x] for x in possible]) * observed.sum()
    assert expected.min() > 5, "too few draws for a chi-square"
    assert stats.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue > 1e-3


def draw_many(sampler, log, user: int, positive: int = 0, query=None, table=None, k: int = 1):
    """The same pair in DRAWS rows."""
    rows = DRAWS // k
    bound = sampler.bind(log, seed=11)
    table = np.zeros((log.n_items, 1), np.float32) if table is None else np.asarray(table, np.float32)
    queries = np.tile(np.asarray([1.0] if query is None else query, np.float32), (rows, 1))
    return bound(queries, table, np.full(rows, user), np.full(rows, positive), step=1, k=k)
