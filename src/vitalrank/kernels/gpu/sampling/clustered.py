"""PRIS on the GPU: k-means clusters of items, a cluster by its affinity to the user, then an item of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray
from torch import Tensor

from vitalrank.kernels.cpu.sampling.clustered import first_members
from vitalrank.kernels.gpu.runtime.lanes import value_at
from vitalrank.kernels.gpu.runtime.rng import FALLBACK, PROPOSE, counter_prefix, fine_unit, philox, unit
from vitalrank.kernels.gpu.sampling.arrays import Counter, Seen
from vitalrank.kernels.gpu.sampling.proposal import PATIENCE
from vitalrank.kernels.gpu.sampling.seen import is_seen


def cluster(
    table: Tensor, pool: NDArray[Any], clusters: int, rounds: int, seed: Any, step: int, assignment: NDArray[Any]
) -> Tensor:
    """k-means by Lloyd's algorithm: see :func:`vitalrank.kernels.cpu.cluster`."""
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
    assignment[pool] = nearest.cpu().numpy()
    return centers


def draw_clustered(
    centers: Tensor,
    assignment: Tensor,
    members: Tensor,
    starts: Tensor,
    cumulative: Tensor,
    weights: Tensor,
    seen: Seen,
    counter: Counter,
    queries: Tensor,
    users: Tensor,
    ids: Tensor,
    log_q: Tensor,
) -> None:
    """A cluster by its probability, then an unseen item of it: see :func:`vitalrank.kernels.cpu.draw_clustered`."""
    clusters = len(centers)
    if ids.numel():
        affinity = queries @ centers.T  # (B, c)
        _draw_clustered[(len(ids),)](
            affinity, assignment, members, starts, cumulative, weights, seen, counter, users, ids, log_q, ids.shape[1],
            clusters, C=triton.next_power_of_2(clusters), num_warps=1,
        )  # fmt: skip


@triton.jit
def _member(members: tl.tensor, cumulative: tl.tensor, start: tl.tensor, stop: tl.tensor, point: tl.tensor) -> Any:
    """The member of one cluster at ``point`` of its mass: the first whose cumulative sum passes it."""
    low = tl.load(cumulative + start)
    target = low + point * (tl.load(cumulative + stop) - low)
    left = start
    right = stop - 1
    while left < right:
        middle = (left + right) // 2
        passed = tl.load(cumulative + middle + 1) > target
        right = tl.where(passed, middle, right)
        left = tl.where(passed, left, middle + 1)
    return tl.load(members + left).to(tl.int64)


@triton.jit
def _unseen_member(
    members: tl.tensor,
    weights: tl.tensor,
    start: tl.tensor,
    stop: tl.tensor,
    seen: tl.tensor,
    user: tl.tensor,
    point: tl.tensor,
) -> Any:
    """The same over the unseen members alone, in O(cluster)."""
    total = point * 0.0
    p = start
    while p < stop:
        item = tl.load(members + p).to(tl.int64)
        total += tl.where(is_seen(seen, user, item), 0.0, tl.load(weights + item).to(tl.float64))
        p += 1
    running_sum = point * 0.0
    last = start * 0 - 1
    p = start
    while p < stop:
        item = tl.load(members + p).to(tl.int64)
        unseen = is_seen(seen, user, item) == 0
        before = running_sum
        running_sum += tl.where(unseen, tl.load(weights + item).to(tl.float64), 0.0)
        last = tl.where(unseen & ((last < 0) | (before <= point * total)), item, last)
        p += 1
    return last


@triton.jit
def _draw_clustered(
    affinity: tl.tensor,
    assignment: tl.tensor,
    members: tl.tensor,
    starts: tl.tensor,
    cumulative: tl.tensor,
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
    mass = tl.load(cumulative + end) - tl.load(cumulative + begin)  # (C,)
    unseen_mass = mass
    p = tl.load(seen.indptr + user)
    stop = tl.load(seen.indptr + user + 1)
    while p < stop:
        item = tl.load(seen.items + p).to(tl.int64)
        unseen_mass -= tl.where(x == tl.load(assignment + item), tl.load(weights + item).to(tl.float64), 0.0)
        p += 1
    # Rounding error leaves a little of a cluster whose items are all seen.
    unseen_mass = tl.where(inside & (unseen_mass > 1e-9 * mass), unseen_mass, 0.0)
    logit = tl.load(affinity + b * clusters + x, mask=inside, other=0.0).to(tl.float64)
    logit = tl.where(unseen_mass > 0.0, logit, -float("inf"))
    probs = tl.where(unseen_mass > 0.0, tl.exp(logit - tl.max(logit, axis=0)) * unseen_mass, 0.0)
    total = tl.sum(probs, axis=0)
    # Affinities that are not finite: by the unseen mass alone. A user who has seen everything has none: no 0 / 0.
    all_unseen = tl.sum(unseen_mass, axis=0)
    probs = tl.where(total > 0.0, probs / total, unseen_mass / tl.where(all_unseen > 0.0, all_unseen, 1.0))
    cluster_cdf = tl.cumsum(probs, axis=0)
    whole = tl.max(cluster_cdf, axis=0)
    mode = tl.argmax(probs, axis=0, tie_break_left=True)
    any_unseen = tl.load(seen.unseen + user) > 0
    prefix = counter_prefix(counter, b)
    n = tl.program_id(0) * 0
    while n < many:
        item_id = user * 0 - 1
        log_prob = whole * 0.0
        if any_unseen:
            word, high, low, _ = philox(prefix, n * PATIENCE, n * 0 + PROPOSE)
            c = tl.sum((inside & (cluster_cdf <= unit(word) * whole)).to(tl.int32), axis=0)
            c = tl.where((c < clusters) & (value_at(probs, c, C) > 0.0), c, mode)
            start = value_at(begin, c, C)
            stop = value_at(end, c, C)
            item_id = _member(members, cumulative, start, stop, fine_unit(high, low))
            draw = n * 0 + 1
            was_seen = is_seen(seen, user, item_id)
            while was_seen & (draw < PATIENCE):
                _, high, low, _ = philox(prefix, n * PATIENCE + draw, n * 0 + PROPOSE)
                item_id = _member(members, cumulative, start, stop, fine_unit(high, low))
                was_seen = is_seen(seen, user, item_id)
                draw += 1
            if was_seen:
                _, high, low, _ = philox(prefix, n * PATIENCE, n * 0 + FALLBACK)
                item_id = _unseen_member(members, weights, start, stop, seen, user, fine_unit(high, low))
            weight = tl.load(weights + item_id).to(tl.float64)
            log_prob = tl.log(value_at(probs, c, C)) + tl.log(weight) - tl.log(value_at(unseen_mass, c, C))
        tl.store(ids + b * many + n, item_id)
        tl.store(log_q + b * many + n, log_prob.to(tl.float32))
        n += 1
