"""AOBPR on the GPU: an item by its rank along one factor of the user's query, or by its rank among all scores."""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from vitalrank.kernels import cpu, laws, rng
from vitalrank.kernels.gpu.laws import Counter, Seen
from vitalrank.kernels.gpu.proposing import PATIENCE, at, is_seen
from vitalrank.kernels.gpu.words import fine_unit, place_of, unit, words

FACTOR = tl.constexpr(rng.FACTOR)
STREAMS = tl.constexpr(rng.STREAMS)
_TILE = 128


def draw_ranked(
    order: Tensor,
    spread: Tensor,
    scale: float,
    catalogue: int,
    seen: Seen,
    counter: Counter,
    queries: Tensor,
    users: Tensor,
    ids: Tensor,
) -> None:
    """An item by a rank and a factor: see :func:`vitalrank.kernels.cpu.draw_ranked`."""
    width, size = order.shape
    if not ids.numel():
        return
    cut = 1.0 - math.exp(-size / scale)
    _draw_ranked[tuple(ids.shape)](
        order, spread, scale, cut, seen, counter, queries, users, ids, size, width,
        D=triton.next_power_of_2(width), num_warps=1,
    )  # fmt: skip
    stuck = ((ids < 0).any(1) & (seen.open[users] > 0)).nonzero()[:, 0]
    if len(stuck):  # users who have seen nearly all: the law over what is left takes a walk through the catalogue
        part = ids[stuck].cpu().numpy()
        cpu.draw_ranked(
            order.cpu().numpy(), spread.cpu().numpy(), scale, catalogue, _plain_seen(seen),
            _plain_counter(counter, stuck), queries[stuck].cpu().numpy(), users[stuck].cpu().numpy(), part,
        )  # fmt: skip
        ids[stuck] = torch.from_numpy(part).to(ids.device)


def pick_open_rank(
    scores: Tensor, pool: Tensor, scale: float, seen: Seen, counter: Counter, users: Tensor, ids: Tensor
) -> None:
    """The open item at a drawn rank of the scores: see :func:`vitalrank.kernels.cpu.pick_open_rank`."""
    if not ids.numel():
        return
    left = scores.clone()
    strike_seen(left, pool, seen, users)
    order = torch.sort(-left, dim=1, stable=True).indices  # seen items last
    points = torch.empty(ids.shape, dtype=torch.float64, device=ids.device)
    _points[tuple(ids.shape)](counter, points, PURPOSE=rng.FACTOR, num_warps=1)
    size = seen.open[users][:, None].to(torch.float64)  # (B, 1)
    cut = 1.0 - torch.exp(-size / scale)
    rank = torch.minimum((-scale * torch.log(1.0 - points * cut)), size - 1).clamp(min=0).to(torch.int64)
    ids.copy_(torch.where(size > 0, pool[order.gather(1, rank)], -1))


def strike_seen(scores: Tensor, pool: Tensor, seen: Seen, users: Tensor) -> None:
    """Set the scores of what each user has seen to -inf."""  # (B, m)
    grid = len(scores), triton.cdiv(len(pool), _TILE)
    _strike_seen[grid](scores, pool, seen, users, len(pool), T=_TILE, num_warps=1)


def _plain_seen(seen: Seen) -> laws.Seen:
    indptr, items, sieve, free = (part.cpu().numpy() for part in seen)
    return laws.Seen(indptr, items, sieve.view("uint64"), free)


def _plain_counter(counter: Counter, rows: Tensor) -> laws.Counter:
    seed, step = counter.seed.cpu().numpy().view("uint64")[0], int(counter.step)
    return laws.Counter(seed, step, counter.rows[rows].cpu().numpy().view("uint32"))


@triton.jit
def _draw_ranked(
    order: tl.tensor,
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
) -> None:
    b = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1)
    d = tl.arange(0, D)
    inside = d < width
    user = tl.load(users + b).to(tl.int64)
    query = tl.load(queries + b * width + d, mask=inside, other=0.0)
    pull = tl.abs(query).to(tl.float64) * tl.load(spread + d, mask=inside, other=0.0)
    total = tl.sum(pull, axis=0)
    even = (tl.minimum(d, width - 1) + 1).to(tl.float64) / width
    running = tl.where(total > 0.0, tl.cumsum(pull, axis=0) / total, even)  # (D,)
    place = place_of(counter, b)
    found = user * 0 - 1
    turn = c * 0
    while (turn < tl.where(tl.load(seen.open + user) > 0, PATIENCE, 0)) & (found < 0):
        high, low, word, _ = words(place, turn, c * STREAMS + FACTOR)
        r = (-scale * tl.log(1.0 - fine_unit(high, low) * cut)).to(tl.int64)
        r = tl.minimum(r, size - 1)
        f = tl.minimum(tl.sum((inside & (running <= unit(word))).to(tl.int32), axis=0), width - 1)
        r = tl.where(at(query, f, D) > 0, r, size - 1 - r)
        item = tl.load(order + f.to(tl.int64) * size + r).to(tl.int64)
        items = item + tl.arange(0, 1)
        if tl.sum(is_seen(seen, user, items, items >= 0).to(tl.int32), axis=0) == 0:
            found = item
        turn += 1
    tl.store(ids + b * tl.num_programs(1) + c, found)


@triton.jit
def _points(counter: tl.tensor, points: tl.tensor, PURPOSE: tl.constexpr) -> None:
    b = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1)
    high, low, _, _ = words(place_of(counter, b), c * 0, c * STREAMS + PURPOSE)
    tl.store(points + b * tl.num_programs(1) + c, fine_unit(high, low))


@triton.jit
def _strike_seen(
    scores: tl.tensor, pool: tl.tensor, seen: tl.tensor, users: tl.tensor, size: tl.tensor, T: tl.constexpr
) -> None:
    b = tl.program_id(0).to(tl.int64)
    p = tl.program_id(1) * T + tl.arange(0, T)
    item = tl.load(pool + p, mask=p < size, other=0)
    taken = is_seen(seen, tl.load(users + b).to(tl.int64), item, p < size)
    tl.store(scores + b * size + p, p.to(tl.float32) * 0.0 - float("inf"), mask=taken)
