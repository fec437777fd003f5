"""Scores of candidates, the choice among them by rank, and the weights of a plain draw."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from vitalrank.kernels.gpu.runtime.lanes import grid_cell
from vitalrank.kernels.gpu.runtime.rng import RANK, STREAMS, counter_prefix, fine_unit, philox
from vitalrank.kernels.gpu.sampling.arrays import Counter

_ONE_WARP = {"num_warps": 1}
_LANES = 32


def score(queries: Tensor, table: Tensor, ids: Tensor, scores: Tensor) -> None:
    """``scores[b, x] = queries[b] . table[ids[b, x]]``; -inf where the id is -1."""  # (B, M)
    width, many = table.shape[1], ids.shape[1]
    tile = min(16, triton.next_power_of_2(max(many, 1)))
    if ids.numel():
        _score[(len(ids), triton.cdiv(many, tile))](
            queries, table, ids, scores, many, width, C=tile, D=triton.next_power_of_2(width), **_ONE_WARP
        )


def unit_weights(ids: Tensor, each: int, weights: Tensor, tries: Tensor) -> None:
    """Weight 1 for every id that was drawn, and ``each`` tries for each of them."""  # (B, k), (B, k), (B,)
    many = ids.shape[1]
    if ids.numel():
        _unit_weights[(triton.cdiv(len(ids), _LANES),)](
            ids, each, weights, tries, len(ids), many, R=_LANES, K=triton.next_power_of_2(many), **_ONE_WARP
        )


def gather(table: Tensor, indices: Tensor, values: Tensor) -> None:
    """``values[x] = table[indices[x]]``, whatever the shape."""
    count = indices.numel()
    if count:
        _gather[(triton.cdiv(count, _LANES),)](table, indices, values, count, T=_LANES, **_ONE_WARP)


def pick_by_rank(scores: Tensor, ids: Tensor, cumulative: Tensor, counter: Counter, picked: Tensor) -> None:
    """Of each pool take the r-th best: see :func:`vitalrank.kernels.cpu.pick_by_rank`."""
    many, ranks = ids.shape[2], len(cumulative)
    if picked.numel():
        _pick_by_rank[tuple(picked.shape)](
            scores, ids, cumulative, counter, picked, many, ranks,
            C=triton.next_power_of_2(many), R=triton.next_power_of_2(ranks), **_ONE_WARP,
        )  # fmt: skip


@triton.jit
def _score(
    queries: tl.tensor,
    table: tl.tensor,
    ids: tl.tensor,
    scores: tl.tensor,
    many: tl.tensor,
    width: tl.tensor,
    C: tl.constexpr,
    D: tl.constexpr,
) -> None:
    b = tl.program_id(0).to(tl.int64)
    x = tl.program_id(1) * C + tl.arange(0, C)
    d = tl.arange(0, D)
    item = tl.load(ids + b * many + x, mask=x < many, other=-1)
    query = tl.load(queries + b * width + d, mask=d < width, other=0.0)
    inside = (item >= 0)[:, None] & (d < width)[None, :]
    rows = tl.load(table + item[:, None] * width + d[None, :], mask=inside, other=0.0)  # (C, D)
    value = tl.where(item >= 0, tl.sum(rows * query[None, :], axis=1), -float("inf"))
    tl.store(scores + b * many + x, value, mask=x < many)


@triton.jit
def _pick_by_rank(
    scores: tl.tensor,
    ids: tl.tensor,
    cumulative: tl.tensor,
    counter: tl.tensor,
    picked: tl.tensor,
    many: tl.tensor,
    ranks: tl.tensor,
    C: tl.constexpr,
    R: tl.constexpr,
) -> None:
    b, c, row = grid_cell()
    x = tl.arange(0, C)
    own = tl.load(scores + row * many + x, mask=x < many, other=-float("inf"))
    behind = x * 0  # how many candidates rank before each
    wanted = c * 0
    if R > 1:
        high, low, _, _ = philox(counter_prefix(counter, b), c * 0, c * STREAMS + RANK)
        r = tl.arange(0, R)
        steps = tl.load(cumulative + r, mask=r < ranks, other=float("inf"))
        wanted = tl.minimum(tl.sum((steps <= fine_unit(high, low)).to(tl.int32), axis=0), many - 1)
        y = c * 0
        while y < many:
            other = tl.load(scores + row * many + y)
            behind += ((other > own) | ((other == own) & (y < x))).to(tl.int32)
            y += 1
        pick = tl.min(tl.where((behind == wanted) & (x < many), x, C), axis=0)
    else:
        pick = tl.argmax(own, axis=0, tie_break_left=True)
    tl.store(picked + row, tl.load(ids + row * many + tl.minimum(pick, many - 1)))


@triton.jit
def _gather(table: tl.tensor, indices: tl.tensor, values: tl.tensor, count: tl.tensor, T: tl.constexpr) -> None:
    x = tl.program_id(0).to(tl.int64) * T + tl.arange(0, T)
    inside = x < count
    tl.store(values + x, tl.load(table + tl.load(indices + x, mask=inside, other=0), mask=inside), mask=inside)


@triton.jit
def _unit_weights(
    ids: tl.tensor,
    each: tl.tensor,
    weights: tl.tensor,
    tries: tl.tensor,
    rows: tl.tensor,
    many: tl.tensor,
    R: tl.constexpr,
    K: tl.constexpr,
) -> None:
    b = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)
    x = tl.arange(0, K)
    inside = (b < rows)[:, None] & (x < many)[None, :]
    cell = b[:, None] * many + x[None, :]  # (R, K)
    drawn = tl.load(ids + cell, mask=inside, other=-1) >= 0
    tl.store(weights + cell, drawn.to(tl.float32), mask=inside)
    tl.store(tries + b, tl.sum(drawn.to(tl.int32), axis=1) * each, mask=b < rows)
