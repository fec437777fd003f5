"""Statistics of each positive of an epoch, kept on the device until the epoch ends."""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

DRAWN, VANISHED, VIOLATED = tl.constexpr(1), tl.constexpr(2), tl.constexpr(4)  # flags of a positive
_TOTAL_ROWS = 4096


class EpochStats(NamedTuple):
    """Statistics of each positive of the epoch."""

    losses: Tensor  # (N,) float32
    weights: Tensor  # (N,) float32, summed over its negatives
    tries: Tensor  # (N,) int32
    flags: Tensor  # (N,) uint8


def totals_of(stats: EpochStats, count: int) -> list[float]:
    """Sums over the first ``count`` positives: loss, weight, tries, and how many were drawn, vanished and violated."""
    blocks = triton.cdiv(count, _TOTAL_ROWS)
    parts = torch.empty((blocks, 6), dtype=torch.float64, device=stats.losses.device)
    _sum_stats[(blocks,)](stats, parts, count, T=_TOTAL_ROWS, num_warps=4)
    sums: list[float] = parts.sum(0).tolist()
    return sums


@triton.jit
def _sum_stats(stats: tl.tensor, parts: tl.tensor, count: tl.tensor, T: tl.constexpr) -> None:
    block = tl.program_id(0)
    p = block.to(tl.int64) * T + tl.arange(0, T)
    mask = p < count
    flags = tl.load(stats.flags + p, mask=mask, other=0).to(tl.int32)
    out = parts + block * 6
    tl.store(out, tl.sum(tl.load(stats.losses + p, mask=mask, other=0.0).to(tl.float64), axis=0))
    tl.store(out + 1, tl.sum(tl.load(stats.weights + p, mask=mask, other=0.0).to(tl.float64), axis=0))
    tl.store(out + 2, tl.sum(tl.load(stats.tries + p, mask=mask, other=0).to(tl.float64), axis=0))
    tl.store(out + 3, tl.sum(((flags & DRAWN) != 0).to(tl.int32), axis=0).to(tl.float64))
    tl.store(out + 4, tl.sum(((flags & VANISHED) != 0).to(tl.int32), axis=0).to(tl.float64))
    tl.store(out + 5, tl.sum(((flags & VIOLATED) != 0).to(tl.int32), axis=0).to(tl.float64))
