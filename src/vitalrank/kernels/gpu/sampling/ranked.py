"""AOBPR on the GPU: an item by its rank along one factor of the user's query, or by its rank among all scores."""

from __future__ import annotations

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from vitalrank.kernels.cpu.sampling import ranked as cpu
from vitalrank.kernels.gpu.runtime.lanes import value_at
from vitalrank.kernels.gpu.runtime.rng import FACTOR, FALLBACK, STREAMS, counter_prefix, fine_unit, philox, unit
from vitalrank.kernels.gpu.sampling.arrays import Counter, Seen
from vitalrank.kernels.gpu.sampling.proposal import PATIENCE
from vitalrank.kernels.gpu.sampling.seen import is_seen, items_seen, mask_seen

FLOOR = tl.constexpr(cpu.FLOOR)
_TILE = 128


def draw_ranked(
    rankings: Tensor,
    spread: Tensor,
    scale: float,
    seen: Seen,
    counter: Counter,
    queries: Tensor,
    users: Tensor,
    ids: Tensor,
) -> None:
    """An item by a rank and a factor: see :func:`vitalrank.kernels.cpu.draw_ranked`."""
    width, size = rankings.shape
    if not ids.numel():
        return
    if not width:
        ids.fill_(-1)
        return
    cut = 1.0 - math.exp(-size / scale)
    _draw_ranked[tuple(ids.shape)](
        rankings, spread, scale, cut, seen, counter, queries, users, ids, size, width,
        D=triton.next_power_of_2(width), T=_TILE, num_warps=1,
    )  # fmt: skip


def pick_unseen_rank(
    scores: Tensor, pool: Tensor, scale: float, seen: Seen, counter: Counter, users: Tensor, ids: Tensor
) -> None:
    """The unseen item at a drawn rank of the scores: see :func:`vitalrank.kernels.cpu.pick_unseen_rank`."""
    if not ids.numel():
        return
    unseen_scores = torch.nan_to_num(scores, nan=torch.finfo(scores.dtype).min)  # only seen items are at -inf
    mask_seen(unseen_scores, pool, seen, users)
    rankings = torch.sort(-unseen_scores, dim=1, stable=True).indices  # seen items last
    points = torch.empty(ids.shape, dtype=torch.float64, device=ids.device)
    _rank_points[tuple(ids.shape)](counter, points, num_warps=1)
    size = seen.unseen[users][:, None].to(torch.float64)  # (B, 1)
    cut = 1.0 - torch.exp(-size / scale)
    rank = torch.minimum((-scale * torch.log(1.0 - points * cut)), size - 1).clamp(min=0).to(torch.int64)
    ids.copy_(torch.where(size > 0, pool[rankings.gather(1, rank)], -1))


@triton.jit
def _unseen_mass(
    rankings: tl.tensor,
    descends: tl.tensor,
    scale: tl.tensor,
    seen: tl.tensor,
    user: tl.tensor,
    r: tl.tensor,
    size: tl.tensor,
) -> Any:
    """The items at some ranks along one factor, and their mass by rank, 0 for those that the user has seen."""  # (T,)
    items = tl.load(rankings + tl.where(descends, r, size - 1 - r), mask=r < size, other=0).to(tl.int64)
    mass = tl.maximum(tl.exp(-r.to(tl.float64) / scale), FLOOR)
    return items, tl.where((r < size) & (items_seen(seen, user, items, r < size) == 0), mass, 0.0)


@triton.jit
def _pick_unseen(
    rankings: tl.tensor,
    query: tl.tensor,
    factors: tl.tensor,
    scale: tl.tensor,
    seen: tl.tensor,
    user: tl.tensor,
    point: tl.tensor,
    size: tl.tensor,
    width: tl.tensor,
    D: tl.constexpr,
    T: tl.constexpr,
) -> Any:
    """The item at a point of the joint mass of factor and rank over unseen items: see ``cpu.ranked.pick_unseen``."""
    found = user * 0 - 1
    target = point * 0.0 + float("inf")
    passes = user * 0
    while passes < 2:
        cumulative = point * 0.0
        f = (user * 0).to(tl.int32)
        while f < width:
            share = value_at(factors, f, D) - value_at(factors, f - 1, D)
            start = f * 0
            while (start < size) & (cumulative <= target) & (share > 0.0):
                ranks = start + tl.arange(0, T)
                items, mass = _unseen_mass(
                    rankings + f.to(tl.int64) * size, value_at(query, f, D) > 0, scale, seen, user, ranks, size
                )
                reached = cumulative + tl.cumsum(mass, axis=0) * share  # (T,)
                first = tl.min(tl.where((mass > 0.0) & (reached > target), ranks, size), axis=0)
                last = tl.max(tl.where(mass > 0.0, ranks, -1), axis=0)
                chosen = tl.where(first < size, first, last)
                found = tl.where(chosen >= 0, tl.sum(tl.where(ranks == chosen, items, 0), axis=0), found)
                cumulative = tl.where(first < size, float("inf"), cumulative + tl.sum(mass, axis=0) * share)
                start += T
            f += 1
        target = point * cumulative
        passes += 1
    return found


@triton.jit
def _draw_ranked(
    rankings: tl.tensor,
    spread: tl.tensor,
    scale: tl.tensor,
    cut: tl.tensor,
    seen: tl.tensor,
    counter: tl.tensor,
    queries: tl.tensor,
    users: tl.tensor,
    ids: tl.tensor,
    size: tl.tensor,
    width: tl.tensor,
    D: tl.constexpr,
    T: tl.constexpr,
) -> None:
    b = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1)
    d = tl.arange(0, D)
    inside = d < width
    user = tl.load(users + b).to(tl.int64)
    query = tl.load(queries + b * width + d, mask=inside, other=0.0)
    weight = tl.abs(query).to(tl.float64) * tl.load(spread + d, mask=inside, other=0.0)
    total = tl.sum(weight, axis=0)
    uniform = (tl.minimum(d, width - 1) + 1).to(tl.float64) / width
    factors = tl.where(total > 0.0, tl.cumsum(weight, axis=0) / total, uniform)  # (D,)
    prefix = counter_prefix(counter, b)
    found = user * 0 - 1
    draw = c * 0
    while (draw < tl.where(tl.load(seen.unseen + user) > 0, PATIENCE, 0)) & (found < 0):
        high, low, word, _ = philox(prefix, draw, c * STREAMS + FACTOR)
        r = (-scale * tl.log(1.0 - fine_unit(high, low) * cut)).to(tl.int64)
        r = tl.minimum(r, size - 1)
        f = tl.minimum(tl.sum((inside & (factors <= unit(word))).to(tl.int32), axis=0), width - 1)
        r = tl.where(value_at(query, f, D) > 0, r, size - 1 - r)
        item = tl.load(rankings + f.to(tl.int64) * size + r).to(tl.int64)
        if is_seen(seen, user, item) == 0:
            found = item
        draw += 1
    if (found < 0) & (tl.load(seen.unseen + user) > 0):
        high, low, _, _ = philox(prefix, c * 0, c * STREAMS + FALLBACK)
        found = _pick_unseen(rankings, query, factors, scale, seen, user, fine_unit(high, low), size, width, D, T)
    tl.store(ids + b * tl.num_programs(1) + c, found)


@triton.jit
def _rank_points(counter: tl.tensor, points: tl.tensor) -> None:
    b = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1)
    high, low, _, _ = philox(counter_prefix(counter, b), c * 0, c * STREAMS + FACTOR)
    tl.store(points + b * tl.num_programs(1) + c, fine_unit(high, low))
