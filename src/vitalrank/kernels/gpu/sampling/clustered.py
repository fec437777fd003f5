"""PRIS on the GPU: items grouped by k-means, a cluster by its affinity to the user, then an item inside it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray
from torch import Tensor

from vitalrank.kernels.cpu.sampling.clustered import first_members
from vitalrank.kernels.gpu.runtime.lanes import at
from vitalrank.kernels.gpu.runtime.words import FALLBACK, PROPOSE, counter_prefix, fine_unit, unit, words
from vitalrank.kernels.gpu.sampling.arrays import Counter, Seen
from vitalrank.kernels.gpu.sampling.proposal import PATIENCE
from vitalrank.kernels.gpu.sampling.seen import has_seen


def cluster(
    table: Tensor, pool: NDArray[Any], clusters: int, rounds: int, seed: Any, step: int, owner: NDArray[Any]
) -> Tensor:
    """k-means by Lloyd's rounds: see :func:`vitalrank.kernels.cpu.cluster`."""
    rows = table[torch.from_numpy(pool.astype(np.int64)).to(table.device)]  # (m, d)
    first = torch.from_numpy(first_members(len(pool), clusters, seed, step)).to(table.device)
    centers = rows[first].clone()
    nearest = torch.full((len(pool),), -1, dtype=torch.int64, device=table.device)
    for _ in range(rounds):
        found = (rows @ centers.T - (centers * centers).sum(1) / 2).argmax(1)
        if torch.equal(found, nearest):
            break
        nearest = found
        member = torch.nn.functional.one_hot(nearest, clusters).to(torch.float64)  # (m, c): a product sums in one order
        counts = member.sum(0)[:, None]
        centers = torch.where(counts > 0, (member.T @ rows.to(torch.float64)) / counts.clamp(min=1), centers).float()
    owner[pool] = nearest.cpu().numpy()
    return centers


def draw_clustered(
    centers: Tensor,
    owner: Tensor,
    members: Tensor,
    starts: Tensor,
    running: Tensor,
    weights: Tensor,
    seen: Seen,
    counter: Counter,
    queries: Tensor,
    users: Tensor,
    ids: Tensor,
    log_q: Tensor,
) -> None:
    """A cluster by its law, then an open item inside: see :func:`vitalrank.kernels.cpu.draw_clustered`."""
    clusters = len(centers)
    if ids.numel():
        affinity = queries @ centers.T  # (B, c)
        _draw_clustered[(len(ids),)](
            affinity, owner, members, starts, running, weights, seen, counter, users, ids, log_q, ids.shape[1],
            clusters, C=triton.next_power_of_2(clusters), num_warps=1,
        )  # fmt: skip


@triton.jit
def _inside(members: tl.tensor, running: tl.tensor, start: tl.tensor, stop: tl.tensor, point: tl.tensor) -> Any:
    """The member of one cluster at ``point`` of its mass: the first whose running sum passes it."""
    low = tl.load(running + start)
    target = low + point * (tl.load(running + stop) - low)
    left = start
    right = stop - 1
    while left < right:
        middle = (left + right) // 2
        passed = tl.load(running + middle + 1) > target
        right = tl.where(passed, middle, right)
        left = tl.where(passed, left, middle + 1)
    return tl.load(members + left).to(tl.int64)


@triton.jit
def _open_inside(
    members: tl.tensor,
    weights: tl.tensor,
    start: tl.tensor,
    stop: tl.tensor,
    seen: tl.tensor,
    user: tl.tensor,
    point: tl.tensor,
) -> Any:
    """The same over the open members alone, in O(cluster)."""
    total = point * 0.0
    p = start
    while p < stop:
        item = tl.load(members + p).to(tl.int64)
        total += tl.where(has_seen(seen, user, item), 0.0, tl.load(weights + item).to(tl.float64))
        p += 1
    so_far = point * 0.0
    last = start * 0 - 1
    p = start
    while p < stop:
        item = tl.load(members + p).to(tl.int64)
        free = has_seen(seen, user, item) == 0
        before = so_far
        so_far += tl.where(free, tl.load(weights + item).to(tl.float64), 0.0)
        last = tl.where(free & ((last < 0) | (before <= point * total)), item, last)
        p += 1
    return last


@triton.jit
def _draw_clustered(
    affinity: tl.tensor,
    owner: tl.tensor,
    members: tl.tensor,
    starts: tl.tensor,
    running: tl.tensor,
    weights: tl.tensor,
    seen: tl.tensor,
    counter: tl.tensor,
    users: tl.tensor,
    ids: tl.tensor,
    log_q: tl.tensor,
    many: tl.tensor,
    clusters: tl.tensor,
    C: tl.constexpr,
) -> None:
    b = tl.program_id(0).to(tl.int64)
    user = tl.load(users + b).to(tl.int64)
    x = tl.arange(0, C)
    inside = x < clusters
    begin = tl.load(starts + x, mask=inside, other=0)
    end = tl.load(starts + x + 1, mask=inside, other=0)
    mass = tl.load(running + end) - tl.load(running + begin)  # (C,)
    free = mass
    p = tl.load(seen.indptr + user)
    stop = tl.load(seen.indptr + user + 1)
    while p < stop:
        item = tl.load(seen.items + p).to(tl.int64)
        free -= tl.where(x == tl.load(owner + item), tl.load(weights + item).to(tl.float64), 0.0)
        p += 1
    free = tl.where(inside & (free > 1e-9 * mass), free, 0.0)  # rounding leaves a little of a cluster that is all seen
    near = tl.load(affinity + b * clusters + x, mask=inside, other=0.0).to(tl.float64)
    near = tl.where(free > 0.0, near, -float("inf"))
    probs = tl.where(free > 0.0, tl.exp(near - tl.max(near, axis=0)) * free, 0.0)
    probs = probs / tl.maximum(tl.sum(probs, axis=0), 1e-300)
    cumulative = tl.cumsum(probs, axis=0)
    whole = tl.max(cumulative, axis=0)
    likely = tl.argmax(probs, axis=0, tie_break_left=True)
    any_open = tl.load(seen.unseen + user) > 0
    place = counter_prefix(counter, b)
    n = tl.program_id(0) * 0
    while n < many:
        picked = user * 0 - 1
        chance = whole * 0.0
        if any_open:
            word, high, low, _ = words(place, n * PATIENCE, n * 0 + PROPOSE)
            c = tl.sum((inside & (cumulative <= unit(word) * whole)).to(tl.int32), axis=0)
            c = tl.where((c < clusters) & (at(probs, c, C) > 0.0), c, likely)
            start = at(begin, c, C)
            stop = at(end, c, C)
            picked = _inside(members, running, start, stop, fine_unit(high, low))
            draw = n * 0 + 1
            taken = has_seen(seen, user, picked)
            while taken & (draw < PATIENCE):
                _, high, low, _ = words(place, n * PATIENCE + draw, n * 0 + PROPOSE)
                picked = _inside(members, running, start, stop, fine_unit(high, low))
                taken = has_seen(seen, user, picked)
                draw += 1
            if taken:
                _, high, low, _ = words(place, n * PATIENCE, n * 0 + FALLBACK)
                picked = _open_inside(members, weights, start, stop, seen, user, fine_unit(high, low))
            weight = tl.load(weights + picked).to(tl.float64)
            chance = tl.log(at(probs, c, C)) + tl.log(weight) - tl.log(at(free, c, C))
        tl.store(ids + b * many + n, picked)
        tl.store(log_q + b * many + n, chance.to(tl.float32))
        n += 1
