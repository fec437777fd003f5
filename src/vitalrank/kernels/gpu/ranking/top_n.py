"""The n best items of each user on the GPU: scores of a block, seen items masked, one pass for the best."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

MOST = 64  # a longer list is sorted whole
_CHUNK = 2048
_SEEN = 64


class SeenRows(NamedTuple):
    """What to leave out for each user, as rows of a sparse matrix."""

    indptr: Tensor  # (U + 1,) int64
    items: Tensor  # (N,) int32


def top_by_dot(queries: Tensor, table: Tensor, users: Tensor, seen: SeenRows, n: int) -> tuple[Tensor, Tensor]:
    """Scores and ids of the n best; equal scores: lower id first; -inf and -1 where nothing is left."""  # (B, n) each
    scores = queries @ table.T  # (B, I)
    _mask_seen[(len(users),)](scores, users, seen, scores.shape[1], T=_SEEN, num_warps=1)
    if n > MOST:
        values, ids = torch.sort(-scores, dim=1, stable=True)
        values, ids = -values[:, :n], ids[:, :n]
        return values, torch.where(torch.isneginf(values), -1, ids)
    best = torch.empty((len(users), n), dtype=torch.float32, device=scores.device)
    ids = torch.empty((len(users), n), dtype=torch.int64, device=scores.device)
    _best[(len(users),)](scores, best, ids, scores.shape[1], n, N=triton.next_power_of_2(n), W=_CHUNK, num_warps=4)
    return best, ids


@triton.jit
def _mask_seen(scores: tl.tensor, users: tl.tensor, seen: tl.tensor, size: tl.tensor, T: tl.constexpr) -> None:
    b = tl.program_id(0).to(tl.int64)
    user = tl.load(users + b)
    start = tl.load(seen.indptr + user)
    stop = tl.load(seen.indptr + user + 1)
    while start < stop:
        p = start + tl.arange(0, T)
        item = tl.load(seen.items + p, mask=p < stop, other=0)
        tl.store(scores + b * size + item, item.to(tl.float32) * 0.0 - float("inf"), mask=p < stop)
        start += T


@triton.jit
def _ordered_bits(score: tl.tensor) -> Any:
    """The bits of a float as an integer of the same order, and back."""
    return score ^ ((score >> 31) & 0x7FFFFFFF)


@triton.jit
def _best(
    scores: tl.tensor, best: tl.tensor, ids: tl.tensor, size: tl.tensor, n: tl.tensor, N: tl.constexpr, W: tl.constexpr
) -> None:
    b = tl.program_id(0).to(tl.int64)
    x = tl.arange(0, N)
    empty_key = (
        _ordered_bits(tl.full((N,), float("-inf"), tl.float32).to(tl.int32, bitcast=True)).to(tl.int64) << 32
    ) | 0xFFFFFFFF
    # Slots past n hold a key above all others, so that they are never the worst.
    top = tl.where(x < n, empty_key, 0x7FFFFFFFFFFFFFFF)
    worst = tl.min(top, axis=0)
    threshold = float("-inf")
    start = tl.program_id(0) * 0
    while start < size:
        item = start + tl.arange(0, W)
        score = tl.load(scores + b * size + item, mask=item < size, other=float("-inf"))
        if tl.max(score, axis=0) > threshold:
            # A key orders by score, then by lower id, so that all keys differ.
            key = _ordered_bits(score.to(tl.int32, bitcast=True)).to(tl.int64) << 32
            key = key | (0xFFFFFFFF - item.to(tl.int64))
            first = tl.max(key, axis=0)
            while first > worst:
                slot = tl.argmin(top, axis=0)
                top = tl.where(x == slot, first, top)
                worst = tl.min(top, axis=0)
                key = tl.where(key == first, -0x7FFFFFFFFFFFFFFF, key)
                first = tl.max(key, axis=0)
            threshold = _ordered_bits((worst >> 32).to(tl.int32)).to(tl.float32, bitcast=True)
        start += W
    top = tl.sort(tl.where(x < n, top, -0x7FFFFFFFFFFFFFFF), descending=True)
    value = _ordered_bits((top >> 32).to(tl.int32)).to(tl.float32, bitcast=True)
    item = 0xFFFFFFFF - (top & 0xFFFFFFFF)
    tl.store(best + b * n + x, value, mask=x < n)
    tl.store(ids + b * n + x, tl.where(value > float("-inf"), item, -1), mask=x < n)
