"""Static, pooled and draw-until sampling: candidates, their scores, and the choice among them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, prange

from vitalrank.kernels.cpu.machine import prefetch_row
from vitalrank.kernels.cpu.proposing import FAST, dot, limit_sample, place_of, propose, reject_sample
from vitalrank.kernels.rng import LEAN, PAIRS, PROPOSE, RANK, STREAMS, fill, fine_unit, new_words, philox

_AHEAD = 8  # rows asked for before they are needed
_ROWS = 64  # rows of one unit of parallel work

# The rows of a unit are walked inside one LEAN function: a parallel loop's own body counts references.


@njit(cache=True, **LEAN)
def _chunks(rows: Any) -> Any:
    return (rows + _ROWS - 1) // _ROWS


@njit(inline="always", cache=True, **LEAN)
def _ask_for_user(seen: Any, users: Any, r: Any) -> None:
    if r < len(users):
        prefetch_row(seen.sieve, users[r])


@njit(cache=True, **LEAN)
def _candidates(
    chunk: Any,
    law: Any,
    seen: Any,
    counter: Any,
    users: Any,
    positives: Any,
    first: Any,
    turns: Any,
    words: Any,
    ids: Any,
) -> None:
    begin = chunk * _ROWS
    for r in range(begin, begin + _AHEAD):
        _ask_for_user(seen, users, r)
    for r in range(begin, min(begin + _ROWS, len(users))):
        _ask_for_user(seen, users, r + _AHEAD)
        for c in range(ids.shape[1]):
            place = place_of(counter, r, PROPOSE, first + c)
            turn = turns[r, c]
            if turn % PAIRS != 0:
                fill(words, place, turn)
            for x in range(ids.shape[2]):
                ids[r, c, x] = -1
                if seen.open[users[r]] > 0:
                    ids[r, c, x], turn = propose(law, seen, users[r], positives[r], words, place, turn)
            turns[r, c] = turn


@njit(parallel=True, cache=True)
def draw_candidates(
    law: Any, seen: Any, counter: Any, users: Any, positives: Any, first: Any, turns: Any, ids: Any
) -> None:
    """Fill ``ids`` (R, k, C) with open candidates, each of the k streams going on from its turn.

    ``first`` is the stream of the first of the k negatives; a user with no open item gets -1.
    """
    for chunk in prange(_chunks(len(users))):
        _candidates(np.int64(chunk), law, seen, counter, users, positives, first, turns, new_words(), ids)


@njit(parallel=True, cache=True, fastmath=FAST)
def score(queries: Any, table: Any, ids: Any, scores: Any) -> None:
    """``scores[b, x] = queries[b] . table[ids[b, x]]``; -inf where the id is -1."""  # (B, M)
    for b in prange(len(ids)):
        count = ids.shape[1]
        for x in range(count):
            if x + _AHEAD < count and ids[b, x + _AHEAD] >= 0:
                prefetch_row(table, ids[b, x + _AHEAD])
            item = ids[b, x]
            scores[b, x] = dot(queries, b, table, item) if item >= 0 else -np.inf


@njit(parallel=True, cache=True)
def pick_by_rank(scores: Any, ids: Any, cumulative: Any, counter: Any, picked: Any) -> None:
    """Of each pool of C candidates take the r-th best, r drawn from a law given by its cumulative sums.

    Equal scores rank in the order they were drawn.
    """
    for b in prange(len(ids)):
        for c in range(ids.shape[1]):
            wanted = 0
            if len(cumulative) > 1:
                high, low, _, _ = philox(counter.seed, counter.step, counter.rows[b], 0, RANK + STREAMS * c)
                wanted = np.searchsorted(cumulative, fine_unit(high, low), side="right")
            picked[b, c] = ids[b, c, _place_of_rank(scores[b, c], min(wanted, ids.shape[2] - 1))]


@njit(cache=True, **LEAN)
def _place_of_rank(scores: Any, wanted: Any) -> Any:
    """Index of the ``wanted``-th largest score, ties in order of index."""
    place = 0
    for turn in range(wanted + 1):
        best = -1
        for x in range(len(scores)):
            behind = turn == 0 or scores[x] < scores[place] or (scores[x] == scores[place] and x > place)
            if behind and (best < 0 or scores[x] > scores[best]):
                best = x
        if best < 0:  # scores that do not compare (NaN): keep the last one found
            break
        place = best
    return place


@njit(inline="always", cache=True, fastmath=FAST, **LEAN)
def _search(
    law: Any,
    seen: Any,
    words: Any,
    ahead: Any,
    place: Any,
    queries: Any,
    b: Any,
    table: Any,
    user: Any,
    item: Any,
    kappa: Any,
    bar: Any,
) -> Any:
    """The first candidate that scores above ``bar``, or the best of ``kappa``; K; whether one was found."""
    turn = 0
    best = np.int64(-1)
    best_score = np.float32(-np.inf)
    K = 0
    found = False
    block = 1
    while kappa > K and not found:
        # Draw several before scoring the first, so that their rows travel together.
        count = min(block, kappa - K)
        for x in range(count):
            ahead[x], turn = propose(law, seen, user, item, words, place, turn)
            prefetch_row(table, ahead[x])
        for x in range(count):
            K += 1
            value = dot(queries, b, table, ahead[x])
            if value > best_score or best < 0:
                best_score = value
                best = np.int64(ahead[x])
            found = value > bar
            if found:
                break
        block = min(2 * block, _AHEAD)
    return best, K, found


@njit(cache=True, fastmath=FAST, **LEAN)
def _search_all(
    chunk: Any,
    law: Any,
    seen: Any,
    counter: Any,
    queries: Any,
    table: Any,
    users: Any,
    positives: Any,
    kappa: Any,
    margin: Any,
    words: Any,
    ahead: Any,
    ids: Any,
    tries: Any,
    violated: Any,
) -> None:
    begin = chunk * _ROWS
    end = min(begin + _ROWS, len(users))
    for b in range(begin, end):
        _ask_for_user(seen, users, b)
        prefetch_row(table, positives[b])
    for b in range(begin, end):
        bar = dot(queries, b, table, positives[b]) - margin
        limit = kappa if seen.open[users[b]] > 0 else 0
        for c in range(ids.shape[1]):
            place = place_of(counter, b, PROPOSE, c)
            best, K, found = _search(
                law, seen, words, ahead, place, queries, b, table, users[b], positives[b], limit, bar
            )
            ids[b, c] = best
            tries[b, c] = K
            violated[b, c] = found


@njit(parallel=True, cache=True, fastmath=FAST)
def draw_until(
    law: Any,
    seen: Any,
    counter: Any,
    queries: Any,
    table: Any,
    users: Any,
    positives: Any,
    kappa: Any,
    margin: Any,
    ids: Any,
    tries: Any,
    violated: Any,
) -> None:
    """Algorithm 2: draw until a candidate comes within the margin of the positive, at most ``kappa`` times.

    ``tries`` (B, k) is K; where nothing violates, the best-scoring candidate is kept.
    """
    for chunk in prange(_chunks(len(users))):
        ahead = np.empty(_AHEAD, np.int64)
        _search_all(
            np.int64(chunk), law, seen, counter, queries, table, users, positives, kappa, margin,
            new_words(), ahead, ids, tries, violated,
        )  # fmt: skip


@njit(cache=True, **LEAN)
def advance(
    scores: Any, candidates: Any, bars: Any, kappa: Any, best: Any, ids: Any, tries: Any, violated: Any
) -> None:
    """Walk a block of scored candidates (R, C) as ``draw_until`` would, keeping its state in (R,) arrays."""
    for r in range(len(scores)):
        for x in range(scores.shape[1]):
            if violated[r] or tries[r] >= kappa or candidates[r, x] < 0:
                break
            tries[r] += 1
            if scores[r, x] > best[r] or ids[r] < 0:
                best[r] = scores[r, x]
                ids[r] = candidates[r, x]
            violated[r] = scores[r, x] > bars[r]


@njit(parallel=True, cache=True)
def reject_each(law: Any, positives: Any, seed: Any, step: Any, chosen: Any) -> None:
    """Algorithm 1 once for each positive, seen items not left out."""
    for b in prange(len(positives)):
        words = new_words()
        chosen[b] = _reject_once(law, positives[b], words, (seed, step, np.uint32(b), PROPOSE))


@njit(cache=True, **LEAN)
def _reject_once(law: Any, item: Any, words: Any, place: Any) -> Any:
    if law.shots > 0:
        chosen, _ = reject_sample(law, item, words, place, 0)
    else:
        chosen, _ = limit_sample(law, item, words, place, 0)
    return chosen
