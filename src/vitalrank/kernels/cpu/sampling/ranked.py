"""AOBPR: an item by its rank along one factor of the user's query."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from vitalrank.kernels.cpu.runtime.parallel import parallel_for
from vitalrank.kernels.cpu.sampling.proposing import PATIENCE, is_full, is_seen
from vitalrank.kernels.rng import FACTOR, RESCUE, STREAMS, fine_unit, philox, unit

FLOOR = 1e-300  # a rank far beyond the scale stays possible when all others are seen


@njit(cache=True)
def rank_law(size: Any, scale: Any) -> Any:
    """``p(r)`` proportional to ``exp(-r / scale)`` for r = 0 .. size - 1."""  # (m,)
    law = np.empty(size, np.float64)
    for r in range(size):
        law[r] = max(math.exp(-r / scale), FLOOR)
    return law / law.sum()


@njit(cache=True)
def factor_law(queries: Any, b: Any, spread: Any) -> Any:
    """Cumulative ``p(f | u)``, proportional to ``|q_f| sigma_f``; even where the query is zero."""  # (d,)
    running = np.empty(len(spread), np.float64)
    total = 0.0
    for f in range(len(spread)):
        total += abs(queries[b, f]) * spread[f]
        running[f] = total
    for f in range(len(spread)):
        running[f] = running[f] / total if total > 0.0 else (f + 1.0) / len(spread)
    return running


@njit(cache=True)
def ranked_mass(order: Any, queries: Any, b: Any, spread: Any, scale: Any, n: Any) -> Any:
    """Probability of every item of the catalogue for row ``b`` before seen items are left out."""  # (n,)
    size = order.shape[1]
    ranks = rank_law(size, scale)
    factors = factor_law(queries, b, spread)
    mass = np.zeros(n, np.float64)
    for f in range(len(spread)):
        share = factors[f] - (factors[f - 1] if f > 0 else 0.0)
        for r in range(size):
            mass[order[f, r if queries[b, f] > 0 else size - 1 - r]] += share * ranks[r]
    return mass


@njit(cache=True)
def pick_open(order: Any, queries: Any, b: Any, factors: Any, scale: Any, seen: Any, user: Any, point: Any) -> Any:
    """The item at ``point`` of [0, 1) of the law of factor and rank, given that the user has not seen it.

    It walks the factors, and the ranks along each: twice, to know the open mass and to find the point in it.
    """
    size = order.shape[1]
    ranks = rank_law(size, scale)
    target, last = math.inf, -1
    for _ in range(2):
        running = 0.0
        for f in range(len(factors)):
            share = factors[f] - (factors[f - 1] if f > 0 else 0.0)
            for r in range(size):
                item = order[f, r if queries[b, f] > 0 else size - 1 - r]
                if share == 0.0 or is_seen(seen, user, item):
                    continue
                last = item
                running += share * ranks[r]
                if running > target:
                    return last
        target = point * running
    return last


def draw_ranked(
    order: Any, spread: Any, scale: Any, seen: Any, counter: Any, queries: Any, users: Any, ids: Any
) -> None:
    """Draw a rank r by ``exp(-r / scale)`` and a factor f by ``|q_f| sigma_f``; take the r-th item along f.

    ``order`` (d, m) holds the pool sorted descending along each factor; it is read backwards where q_f <= 0.
    An item already seen is redrawn.
    """
    parallel_for(
        len(users),
        lambda begin, end: _draw_ranked(begin, end, order, spread, scale, seen, counter, queries, users, ids),
        cost=8 * ids.shape[1],
    )


@njit(nogil=True, cache=True)
def _draw_ranked(
    begin: Any, end: Any, order: Any, spread: Any, scale: Any, seen: Any, counter: Any, queries: Any, users: Any,
    ids: Any,
) -> None:  # fmt: skip
    size = order.shape[1]
    cut = 1.0 - math.exp(-size / scale)
    for b in range(begin, end):
        factors = factor_law(queries, b, spread)
        for c in range(ids.shape[1]):
            ids[b, c] = -1
            if is_full(seen, users[b]):
                continue
            stream = FACTOR + STREAMS * c
            for turn in range(PATIENCE):
                high, low, word, _ = philox(counter.seed, counter.step, counter.rows[b], turn, stream)
                r = min(int(-scale * math.log(1.0 - fine_unit(high, low) * cut)), size - 1)
                f = min(np.searchsorted(factors, unit(word), side="right"), len(spread) - 1)
                item = order[f, r if queries[b, f] > 0 else size - 1 - r]
                if not is_seen(seen, users[b], item):
                    ids[b, c] = item
                    break
            if ids[b, c] < 0:
                high, low, _, _ = philox(counter.seed, counter.step, counter.rows[b], 0, RESCUE + STREAMS * c)
                ids[b, c] = pick_open(order, queries, b, factors, scale, seen, users[b], fine_unit(high, low))


def pick_open_rank(scores: Any, pool: Any, scale: Any, seen: Any, counter: Any, users: Any, ids: Any) -> None:
    """Of the open items of each row take the one at rank r of the scores, r drawn by ``exp(-r / scale)``.

    Equal scores rank by id.
    """
    parallel_for(
        len(users),
        lambda begin, end: _pick_open_rank(begin, end, scores, pool, scale, seen, counter, users, ids),
        cost=len(pool),
    )


@njit(nogil=True, cache=True)
def _pick_open_rank(
    begin: Any, end: Any, scores: Any, pool: Any, scale: Any, seen: Any, counter: Any, users: Any, ids: Any
) -> None:
    for b in range(begin, end):
        size = seen.open[users[b]]
        if size == 0:
            ids[b] = -1
            continue
        open_items = np.empty(size, np.int64)
        values = np.empty(size, np.float32)
        count = 0
        for p in range(len(pool)):
            if not is_seen(seen, users[b], pool[p]):
                open_items[count] = pool[p]
                values[count] = -scores[b, p]
                count += 1
        order = np.argsort(values, kind="mergesort")
        cut = 1.0 - math.exp(-size / scale)
        for c in range(ids.shape[1]):
            high, low, _, _ = philox(counter.seed, counter.step, counter.rows[b], 0, FACTOR + STREAMS * c)
            r = int(-scale * math.log(1.0 - fine_unit(high, low) * cut))
            ids[b, c] = open_items[order[min(r, size - 1)]]
