"""PRIS: items grouped by k-means, a cluster by its affinity to the user, then an item inside it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vitalrank.kernels.compiling import FAST, njit
from vitalrank.kernels.cpu.runtime.dot import dot
from vitalrank.kernels.cpu.runtime.parallel import parallel_for
from vitalrank.kernels.cpu.sampling.proposal import PATIENCE
from vitalrank.kernels.cpu.sampling.seen import is_exhausted, is_seen
from vitalrank.kernels.rng import CLUSTER, FALLBACK, PROPOSE, below, fine_unit, philox, unit


@njit(cache=True, fastmath=FAST)
def nearest(table: Any, item: Any, centers: Any, offsets: Any) -> Any:
    """The nearest center of an item, by the largest ``v . c - offset`` with ``offsets[c] = |center_c|^2 / 2``."""
    best = 0
    best_value = np.float32(-np.inf)
    for c in range(len(centers)):
        value = dot(table, item, centers, c) - offsets[c]
        if value > best_value:
            best_value = value
            best = c
    return best


def assign(table: Any, pool: Any, centers: Any, assignment: Any) -> bool:
    """Assign each item of the pool to its nearest center; returns whether any assignment changed."""
    offsets = _half_squares(centers)
    changed = np.zeros(len(pool), np.bool_)
    parallel_for(
        len(pool),
        lambda begin, end: _assign(begin, end, table, pool, centers, offsets, assignment, changed),
        cost=len(centers),
    )
    return bool(changed.any())


@njit(cache=True)
def _half_squares(centers: Any) -> Any:
    """``|center|^2 / 2``; not by NumPy, which adds up in another order."""  # (c,)
    return ((centers * centers).sum(axis=1) / 2).astype(np.float32)


@njit(nogil=True, cache=True)
def _assign(
    begin: Any, end: Any, table: Any, pool: Any, centers: Any, offsets: Any, assignment: Any, changed: Any
) -> None:
    for p in range(begin, end):
        best = nearest(table, pool[p], centers, offsets)
        changed[p] = assignment[pool[p]] != best
        assignment[pool[p]] = best


@njit(cache=True)
def first_members(size: Any, clusters: Any, seed: Any, step: Any) -> Any:
    """Positions in a pool of that size of the initial centers."""  # (c,)
    members = np.empty(clusters, np.int64)
    for c in range(clusters):
        word, _, _, _ = philox(seed, step, c, 0, CLUSTER)
        members[c] = below(word, size)
    return members


def cluster(table: Any, pool: Any, clusters: Any, rounds: Any, seed: Any, step: Any, assignment: Any) -> Any:
    """k-means by Lloyd's algorithm from centers drawn among the pool; fills ``assignment`` (n,)."""
    centers = np.ascontiguousarray(table[pool[first_members(len(pool), clusters, seed, step)]], np.float32)
    for _ in range(rounds):
        if not assign(table, pool, centers, assignment):
            break
        _move_centers(table, pool, assignment, centers)
    return centers


@njit(cache=True)
def _move_centers(table: Any, pool: Any, assignment: Any, centers: Any) -> None:
    """Move each center to the mean of its items; an empty cluster keeps its center."""
    sums = np.zeros(centers.shape, np.float64)
    counts = np.zeros(len(centers), np.int64)
    for p in range(len(pool)):
        c = assignment[pool[p]]
        counts[c] += 1
        for f in range(centers.shape[1]):
            sums[c, f] += table[pool[p], f]
    for c in range(len(centers)):
        if counts[c] > 0:
            centers[c] = (sums[c] / counts[c]).astype(np.float32)


@njit(cache=True)
def cluster_probs(
    queries: Any, b: Any, centers: Any, assignment: Any, mass: Any, weights: Any, seen: Any, user: Any
) -> Any:
    """``P(c | u)``, proportional to ``exp(q . center_c)`` times the unseen mass of c; and that unseen mass."""  # (c,)
    unseen_mass = mass.copy()
    if len(seen.owner) > 0:  # what came later counts as seen too
        for item in range(len(assignment)):
            if assignment[item] >= 0 and is_seen(seen, user, item):
                unseen_mass[assignment[item]] -= weights[item]
    else:
        for p in range(seen.indptr[user], seen.indptr[user + 1]):
            item = seen.items[p]
            if assignment[item] >= 0:
                unseen_mass[assignment[item]] -= weights[item]
    affinity = np.empty(len(mass), np.float64)
    top = -np.inf
    for c in range(len(mass)):
        if unseen_mass[c] <= 1e-9 * mass[c]:  # rounding error of a cluster whose items are all seen
            unseen_mass[c] = 0.0
        affinity[c] = np.float64(dot(queries, b, centers, c)) if unseen_mass[c] > 0.0 else -np.inf
        top = max(top, affinity[c])
    probs = np.empty(len(mass), np.float64)
    for c in range(len(mass)):
        probs[c] = math.exp(affinity[c] - top) * unseen_mass[c]
    total = probs.sum()
    if not total > 0.0:  # affinities that are not finite
        probs = unseen_mass.copy()
        total = probs.sum()
    return probs / total, unseen_mass


@njit(cache=True)
def _member(members: Any, cumulative: Any, start: Any, stop: Any, point: Any) -> Any:
    """The member of one cluster at ``point`` of [0, 1) of its mass."""
    low = cumulative[start]
    target = low + point * (cumulative[stop] - low)
    return members[min(start + np.searchsorted(cumulative[start + 1 : stop + 1], target, side="right"), stop - 1)]


@njit(cache=True)
def _unseen_member(members: Any, weights: Any, start: Any, stop: Any, seen: Any, user: Any, point: Any) -> Any:
    """The same over the unseen members alone, in O(cluster)."""
    total = 0.0
    for p in range(start, stop):
        if not is_seen(seen, user, members[p]):
            total += weights[members[p]]
    cumulative = 0.0
    last = -1
    for p in range(start, stop):
        if not is_seen(seen, user, members[p]):
            last = members[p]
            cumulative += weights[last]
            if cumulative > point * total:
                break
    return last


def draw_clustered(
    centers: Any, assignment: Any, members: Any, starts: Any, cumulative: Any, weights: Any, seen: Any, counter: Any,
    queries: Any, users: Any, ids: Any, log_q: Any,
) -> None:  # fmt: skip
    """Draw C items a row: a cluster by ``cluster_probs``, then an unseen item of it by its weight.

    ``members[starts[c]:starts[c + 1]]`` are the items of cluster c and ``cumulative`` the running sum of their weights.
    """
    mass = cumulative[starts[1:]] - cumulative[starts[:-1]]

    def shard(begin: int, end: int) -> None:
        _draw_clustered(
            begin, end, centers, assignment, members, starts, cumulative, mass, weights, seen, counter, queries, users,
            ids, log_q,
        )  # fmt: skip

    parallel_for(len(users), shard, cost=len(mass))


@njit(nogil=True, cache=True)
def _draw_clustered(
    begin: Any, end: Any, centers: Any, assignment: Any, members: Any, starts: Any, cumulative: Any, mass: Any,
    weights: Any, seen: Any, counter: Any, queries: Any, users: Any, ids: Any, log_q: Any,
) -> None:  # fmt: skip
    for b in range(begin, end):
        user = users[b]
        if is_exhausted(seen, user):
            ids[b] = -1
            log_q[b] = 0.0
            continue
        probs, unseen_mass = cluster_probs(queries, b, centers, assignment, mass, weights, seen, user)
        cluster_cdf = np.cumsum(probs)
        mode = np.argmax(probs)
        for x in range(ids.shape[1]):
            first_draw = x * PATIENCE
            word, high, low, _ = philox(counter.seed, counter.step, counter.rows[b], first_draw, PROPOSE)
            c = np.searchsorted(cluster_cdf, unit(word) * cluster_cdf[-1], side="right")
            if c >= len(probs) or probs[c] <= 0.0:
                c = mode
            item = _member(members, cumulative, starts[c], starts[c + 1], fine_unit(high, low))
            draw = 1
            while is_seen(seen, user, item) and draw < PATIENCE:
                _, high, low, _ = philox(counter.seed, counter.step, counter.rows[b], first_draw + draw, PROPOSE)
                item = _member(members, cumulative, starts[c], starts[c + 1], fine_unit(high, low))
                draw += 1
            if is_seen(seen, user, item):
                _, high, low, _ = philox(counter.seed, counter.step, counter.rows[b], first_draw, FALLBACK)
                item = _unseen_member(members, weights, starts[c], starts[c + 1], seen, user, fine_unit(high, low))
            ids[b, x] = item
            log_q[b, x] = math.log(probs[c]) + math.log(weights[item]) - math.log(unseen_mass[c])
