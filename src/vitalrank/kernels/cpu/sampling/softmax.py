"""IRGAN: the generator's softmax over the whole catalogue, drawn exactly, in O(items) a row."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vitalrank.kernels.compiling import FAST, njit
from vitalrank.kernels.cpu.runtime.dot import dot
from vitalrank.kernels.cpu.runtime.parallel import parallel_for
from vitalrank.kernels.cpu.sampling.seen import is_exhausted, is_seen
from vitalrank.kernels.rng import PROPOSE, STREAMS, fine_unit, philox

_ITEMS = 16  # of the pool in 0.1 us
_MOST = np.float32(np.finfo(np.float32).max)


def score_all(queries: Any, table: Any, pool: Any, scores: Any) -> None:
    """``scores[b, p] = queries[b] . table[pool[p]]``."""  # (B, m)
    cost = 1 + len(pool) // _ITEMS
    parallel_for(len(queries), lambda begin, end: _score_all(begin, end, queries, table, pool, scores), cost)


@njit(nogil=True, cache=True, fastmath=FAST)
def _score_all(begin: Any, end: Any, queries: Any, table: Any, pool: Any, scores: Any) -> None:
    for b in range(begin, end):
        for p in range(len(pool)):
            scores[b, p] = dot(queries, b, table, pool[p])


@njit(inline="always", cache=True)
def finite(score: Any) -> Any:
    """The score, or the nearest finite one; NaN counts as the lowest. So an unseen item always outscores a seen one."""
    if score > _MOST:
        return _MOST
    return score if score >= -_MOST else -_MOST


def draw_softmax(
    scores: Any, temperature: Any, pool: Any, seen: Any, counter: Any, users: Any, ids: Any, log_q: Any
) -> None:
    """Draw k unseen items a row from ``softmax(scores / temperature)`` over the pool."""
    parallel_for(
        len(users),
        lambda begin, end: _draw_softmax(begin, end, scores, temperature, pool, seen, counter, users, ids, log_q),
        cost=1 + len(pool) // _ITEMS,
    )


@njit(nogil=True, cache=True)
def _draw_softmax(
    begin: Any, end: Any, scores: Any, temperature: Any, pool: Any, seen: Any, counter: Any, users: Any, ids: Any,
    log_q: Any,
) -> None:  # fmt: skip
    for b in range(begin, end):
        if is_exhausted(seen, users[b]):
            ids[b] = -1
            log_q[b] = 0.0
            continue
        cumulative = np.empty(len(pool), np.float64)
        top = -np.inf
        for p in range(len(pool)):
            cumulative[p] = -np.inf if is_seen(seen, users[b], pool[p]) else finite(scores[b, p]) / temperature
            top = max(top, cumulative[p])
        total = 0.0
        for p in range(len(pool)):
            total += math.exp(cumulative[p] - top)
            cumulative[p] = total
        for c in range(ids.shape[1]):
            high, low, _, _ = philox(counter.seed, counter.step, counter.rows[b], 0, PROPOSE + STREAMS * c)
            # The first position whose cumulative sum passes the point has mass of its own, so it is unseen.
            p = min(np.searchsorted(cumulative, fine_unit(high, low) * total, side="right"), len(pool) - 1)
            while p > 0 and cumulative[p] == cumulative[p - 1]:
                p -= 1
            ids[b, c] = pool[p]
            log_q[b, c] = finite(scores[b, p]) / temperature - top - math.log(total)
