"""PRIS: items grouped by k-means, a cluster by its affinity to the user, then an item inside it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from vitalrank.kernels.compiling import FAST
from vitalrank.kernels.cpu.runtime.parallel import parallel_for
from vitalrank.kernels.cpu.sampling.proposing import PATIENCE, dot, is_full, is_seen
from vitalrank.kernels.rng import CLUSTER, PROPOSE, RESCUE, below, fine_unit, philox, unit


@njit(cache=True, fastmath=FAST)
def nearest(table: Any, item: Any, centers: Any, offsets: Any) -> Any:
    """The center nearest to an item; ``offsets[c] = |center_c|^2 / 2``: it has the largest ``v . c - offset``."""
    best = 0
    best_value = np.float32(-np.inf)
    for c in range(len(centers)):
        value = dot(table, item, centers, c) - offsets[c]
        if value > best_value:
            best_value = value
            best = c
    return best


def assign(table: Any, pool: Any, centers: Any, owner: Any) -> bool:
    """Give each item of the pool its nearest center; returns whether any changed."""
    offsets = _half_squares(centers)
    changed = np.zeros(len(pool), np.bool_)
    parallel_for(
        len(pool),
        lambda begin, end: _assign(begin, end, table, pool, centers, offsets, owner, changed),
        cost=len(centers),
    )
    return bool(changed.any())


@njit(cache=True)
def _half_squares(centers: Any) -> Any:
    """``|center|^2 / 2``; not by NumPy, which adds up in another order."""  # (c,)
    return ((centers * centers).sum(axis=1) / 2).astype(np.float32)


@njit(nogil=True, cache=True)
def _assign(begin: Any, end: Any, table: Any, pool: Any, centers: Any, offsets: Any, owner: Any, changed: Any) -> None:
    for p in range(begin, end):
        best = nearest(table, pool[p], centers, offsets)
        changed[p] = owner[pool[p]] != best
        owner[pool[p]] = best


@njit(cache=True)
def first_members(size: Any, clusters: Any, seed: Any, step: Any) -> Any:
    """The members of a pool of that size at which the centers begin."""  # (c,)
    members = np.empty(clusters, np.int64)
    for c in range(clusters):
        word, _, _, _ = philox(seed, step, c, 0, CLUSTER)
        members[c] = below(word, size)
    return members


def cluster(table: Any, pool: Any, clusters: Any, rounds: Any, seed: Any, step: Any, owner: Any) -> Any:
    """k-means by Lloyd's rounds from centers drawn among the pool; fills ``owner`` (n,), returns the centers."""
    centers = np.ascontiguousarray(table[pool[first_members(len(pool), clusters, seed, step)]], np.float32)
    for _ in range(rounds):
        if not assign(table, pool, centers, owner):
            break
        _move_centers(table, pool, owner, centers)
    return centers


@njit(cache=True)
def _move_centers(table: Any, pool: Any, owner: Any, centers: Any) -> None:
    """Each center to the mean of its items; one without any stays."""
    sums = np.zeros(centers.shape, np.float64)
    counts = np.zeros(len(centers), np.int64)
    for p in range(len(pool)):
        c = owner[pool[p]]
        counts[c] += 1
        for f in range(centers.shape[1]):
            sums[c, f] += table[pool[p], f]
    for c in range(len(centers)):
        if counts[c] > 0:
            centers[c] = (sums[c] / counts[c]).astype(np.float32)


@njit(cache=True)
def cluster_law(queries: Any, b: Any, centers: Any, owner: Any, mass: Any, weights: Any, seen: Any, user: Any) -> Any:
    """``P(c | u)``, proportional to ``exp(q . center_c)`` times the open mass of c; also that open mass."""  # (c,)
    open_mass = mass.copy()
    for p in range(seen.indptr[user], seen.indptr[user + 1]):
        item = seen.items[p]
        if owner[item] >= 0:
            open_mass[owner[item]] -= weights[item]
    affinity = np.empty(len(mass), np.float64)
    top = -np.inf
    for c in range(len(mass)):
        if open_mass[c] <= 1e-9 * mass[c]:  # what rounding leaves of a cluster that is all seen
            open_mass[c] = 0.0
        affinity[c] = np.float64(dot(queries, b, centers, c)) if open_mass[c] > 0.0 else -np.inf
        top = max(top, affinity[c])
    law = np.empty(len(mass), np.float64)
    for c in range(len(mass)):
        law[c] = math.exp(affinity[c] - top) * open_mass[c]
    total = law.sum()
    if not total > 0.0:  # affinities that are not finite
        law = open_mass.copy()
        total = law.sum()
    return law / total, open_mass


@njit(cache=True)
def _inside(members: Any, running: Any, start: Any, stop: Any, point: Any) -> Any:
    """The member of one cluster at ``point`` of [0, 1) of its mass."""
    low = running[start]
    target = low + point * (running[stop] - low)
    return members[min(start + np.searchsorted(running[start + 1 : stop + 1], target, side="right"), stop - 1)]


@njit(cache=True)
def _open_inside(members: Any, weights: Any, start: Any, stop: Any, seen: Any, user: Any, point: Any) -> Any:
    """The same over the open members alone, in O(cluster)."""
    total = 0.0
    for p in range(start, stop):
        if not is_seen(seen, user, members[p]):
            total += weights[members[p]]
    running = 0.0
    last = -1
    for p in range(start, stop):
        if not is_seen(seen, user, members[p]):
            last = members[p]
            running += weights[last]
            if running > point * total:
                break
    return last


def draw_clustered(
    centers: Any, owner: Any, members: Any, starts: Any, running: Any, weights: Any, seen: Any, counter: Any,
    queries: Any, users: Any, ids: Any, log_q: Any,
) -> None:  # fmt: skip
    """Draw C items a row: a cluster by ``cluster_law``, then an open item inside it by its weight.

    ``members[starts[c]:starts[c + 1]]`` are the items of cluster c and ``running`` the running sum of their weights.
    """
    mass = running[starts[1:]] - running[starts[:-1]]

    def part(begin: int, end: int) -> None:
        _draw_clustered(
            begin, end, centers, owner, members, starts, running, mass, weights, seen, counter, queries, users, ids,
            log_q,
        )  # fmt: skip

    parallel_for(len(users), part, cost=len(mass))


@njit(nogil=True, cache=True)
def _draw_clustered(
    begin: Any, end: Any, centers: Any, owner: Any, members: Any, starts: Any, running: Any, mass: Any, weights: Any,
    seen: Any, counter: Any, queries: Any, users: Any, ids: Any, log_q: Any,
) -> None:  # fmt: skip
    for b in range(begin, end):
        user = users[b]
        if is_full(seen, user):
            ids[b] = -1
            log_q[b] = 0.0
            continue
        law, open_mass = cluster_law(queries, b, centers, owner, mass, weights, seen, user)
        cumulative = np.cumsum(law)
        likely = np.argmax(law)
        for x in range(ids.shape[1]):
            place = x * PATIENCE
            word, high, low, _ = philox(counter.seed, counter.step, counter.rows[b], place, PROPOSE)
            c = np.searchsorted(cumulative, unit(word) * cumulative[-1], side="right")
            if c >= len(law) or law[c] <= 0.0:
                c = likely
            item = _inside(members, running, starts[c], starts[c + 1], fine_unit(high, low))
            turn = 1
            while is_seen(seen, user, item) and turn < PATIENCE:
                _, high, low, _ = philox(counter.seed, counter.step, counter.rows[b], place + turn, PROPOSE)
                item = _inside(members, running, starts[c], starts[c + 1], fine_unit(high, low))
                turn += 1
            if is_seen(seen, user, item):
                _, high, low, _ = philox(counter.seed, counter.step, counter.rows[b], place, RESCUE)
                item = _open_inside(members, weights, starts[c], starts[c + 1], seen, user, fine_unit(high, low))
            ids[b, x] = item
            log_q[b, x] = math.log(law[c]) + math.log(weights[item]) - math.log(open_mass[c])
