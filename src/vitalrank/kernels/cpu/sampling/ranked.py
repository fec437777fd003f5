"""AOBPR: an item by its rank along one factor of the user's query."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vitalrank.kernels.compiling import njit
from vitalrank.kernels.cpu.runtime.parallel import parallel_for
from vitalrank.kernels.cpu.sampling.proposal import PATIENCE
from vitalrank.kernels.cpu.sampling.seen import is_exhausted, is_seen
from vitalrank.kernels.rng import FACTOR, FALLBACK, STREAMS, fine_unit, philox, unit

FLOOR = 1e-300  # a rank far beyond the scale stays possible when all others are seen


@njit(cache=True)
def rank_probs(size: Any, scale: Any) -> Any:
    """``p(r)`` proportional to ``exp(-r / scale)`` for r = 0 .. size - 1."""  # (m,)
    probs = np.empty(size, np.float64)
    for r in range(size):
        probs[r] = max(math.exp(-r / scale), FLOOR)
    return probs / probs.sum()


@njit(cache=True)
def factor_cdf(queries: Any, b: Any, spread: Any) -> Any:
    """Cumulative ``p(f | u)``, proportional to ``|q_f| sigma_f``; uniform where the query is zero."""  # (d,)
    cumulative = np.empty(len(spread), np.float64)
    total = 0.0
    for f in range(len(spread)):
        total += abs(queries[b, f]) * spread[f]
        cumulative[f] = total
    for f in range(len(spread)):
        cumulative[f] = cumulative[f] / total if total > 0.0 else (f + 1.0) / len(spread)
    return cumulative


@njit(cache=True)
def ranked_mass(rankings: Any, queries: Any, b: Any, spread: Any, scale: Any, n: Any) -> Any:
    """Probability of every item of the catalogue for row ``b`` before seen items are left out."""  # (n,)
    size = rankings.shape[1]
    ranks = rank_probs(size, scale)
    factors = factor_cdf(queries, b, spread)
    mass = np.zeros(n, np.float64)
    for f in range(len(spread)):
        share = factors[f] - (factors[f - 1] if f > 0 else 0.0)
        for r in range(size):
            mass[rankings[f, r if queries[b, f] > 0 else size - 1 - r]] += share * ranks[r]
    return mass


@njit(cache=True)
def pick_unseen(rankings: Any, queries: Any, b: Any, factors: Any, scale: Any, seen: Any, user: Any, point: Any) -> Any:
    """The item at ``point`` of [0, 1) of the joint mass of factor and rank over unseen items, -1 if there is none.

    Two passes over all ranks of all factors: for the unseen mass, and for the point in it.
    """
    size = rankings.shape[1]
    ranks = rank_probs(size, scale)
    target, last = math.inf, -1
    for _ in range(2):
        cumulative = 0.0
        for f in range(len(factors)):
            share = factors[f] - (factors[f - 1] if f > 0 else 0.0)
            for r in range(size):
                item = rankings[f, r if queries[b, f] > 0 else size - 1 - r]
                if share == 0.0 or is_seen(seen, user, item):
                    continue
                last = item
                cumulative += share * ranks[r]
                if cumulative > target:
                    return last
        target = point * cumulative
    return last


def draw_ranked(
    rankings: Any, spread: Any, scale: Any, seen: Any, counter: Any, queries: Any, users: Any, ids: Any
) -> None:
    """Draw a rank r by ``exp(-r / scale)`` and a factor f by ``|q_f| sigma_f``; take the r-th item along f.

    ``rankings`` (d, m) holds the pool sorted descending along each factor; it is read backwards where q_f <= 0.
    A seen item is redrawn. Without factors every id is -1.
    """
    parallel_for(
        len(users),
        lambda begin, end: _draw_ranked(begin, end, rankings, spread, scale, seen, counter, queries, users, ids),
        cost=8 * ids.shape[1],
    )


@njit(nogil=True, cache=True)
def _draw_ranked(
    begin: Any, end: Any, rankings: Any, spread: Any, scale: Any, seen: Any, counter: Any, queries: Any, users: Any,
    ids: Any,
) -> None:  # fmt: skip
    size = rankings.shape[1]
    cut = 1.0 - math.exp(-size / scale)
    for b in range(begin, end):
        factors = factor_cdf(queries, b, spread)
        for c in range(ids.shape[1]):
            ids[b, c] = -1
            if is_exhausted(seen, users[b]) or len(spread) == 0:
                continue
            stream = FACTOR + STREAMS * c
            for draw in range(PATIENCE):
                high, low, word, _ = philox(counter.seed, counter.step, counter.rows[b], draw, stream)
                r = min(int(-scale * math.log(1.0 - fine_unit(high, low) * cut)), size - 1)
                f = min(np.searchsorted(factors, unit(word), side="right"), len(spread) - 1)
                item = rankings[f, r if queries[b, f] > 0 else size - 1 - r]
                if not is_seen(seen, users[b], item):
                    ids[b, c] = item
                    break
            if ids[b, c] < 0:
                high, low, _, _ = philox(counter.seed, counter.step, counter.rows[b], 0, FALLBACK + STREAMS * c)
                ids[b, c] = pick_unseen(rankings, queries, b, factors, scale, seen, users[b], fine_unit(high, low))


def pick_unseen_rank(scores: Any, pool: Any, scale: Any, seen: Any, counter: Any, users: Any, ids: Any) -> None:
    """Of the unseen items of each row take the one at rank r of the scores, r drawn by ``exp(-r / scale)``.

    Equal scores rank by id.
    """
    parallel_for(
        len(users),
        lambda begin, end: _pick_unseen_rank(begin, end, scores, pool, scale, seen, counter, users, ids),
        cost=len(pool),
    )


@njit(nogil=True, cache=True)
def _pick_unseen_rank(
    begin: Any, end: Any, scores: Any, pool: Any, scale: Any, seen: Any, counter: Any, users: Any, ids: Any
) -> None:
    for b in range(begin, end):
        size = seen.unseen[users[b]]
        if size == 0:
            ids[b] = -1
            continue
        unseen_items = np.empty(size, np.int64)
        values = np.empty(size, np.float32)
        count = 0
        for p in range(len(pool)):
            if not is_seen(seen, users[b], pool[p]):
                unseen_items[count] = pool[p]
                values[count] = -scores[b, p]
                count += 1
        rankings = np.argsort(values, kind="mergesort")
        cut = 1.0 - math.exp(-size / scale)
        for c in range(ids.shape[1]):
            high, low, _, _ = philox(counter.seed, counter.step, counter.rows[b], 0, FACTOR + STREAMS * c)
            r = int(-scale * math.log(1.0 - fine_unit(high, low) * cut))
            ids[b, c] = unseen_items[rankings[min(r, size - 1)]]
