"""Draw-until sampling: candidates until one comes close to the positive."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from vitalrank.kernels.compiling import FAST, INNER, LEAN
from vitalrank.kernels.cpu.runtime.intrinsics import prefetch_row
from vitalrank.kernels.cpu.runtime.parallel import parallel_for
from vitalrank.kernels.cpu.sampling.proposing import (
    KEPT,
    PATIENCE,
    Shots,
    ask_for_sieve,
    dot,
    is_full,
    place_of,
    propose,
)
from vitalrank.kernels.rng import LANES, PROPOSE

_AHEAD = 6  # rows asked for before they are needed
_FIRST = 2  # candidates a search begins with; then twice as many each time, up to those asked for
_SEARCHES = 3  # searches side by side


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

    def part(begin: int, end: int) -> None:
        _search_all(
            begin, end, law, seen, counter, queries, table, users, positives, kappa, margin,
            new_searches(), ids, tries, violated,
        )  # fmt: skip

    parallel_for(len(users), part, cost=4)


class Searches(NamedTuple):
    """Searches that go on side by side, so that one works while the rows of the others travel."""

    words: NDArray[np.uint64]  # (S, 4, LANES)
    hits: NDArray[np.int64]  # (S, KEPT)
    weights: NDArray[np.float32]  # (S, KEPT)
    accepted: NDArray[np.uint64]  # (S, 1)
    ahead: NDArray[np.int64]  # (S, _AHEAD) candidates drawn and not scored yet
    waiting: NDArray[np.int64]  # (S,) how many; how many to draw, once they are scored
    pair: NDArray[np.int64]  # (S,) which negative of which row is searched for; -1 for none
    turn: NDArray[np.int64]  # (S,)
    tries: NDArray[np.int64]  # (S,) K so far
    best: NDArray[np.int64]  # (S,)
    best_score: NDArray[np.float32]  # (S,)
    bar: NDArray[np.float32]  # (S,)


def new_searches() -> Searches:
    """Memory for the searches of one thread."""
    S = _SEARCHES
    waiting, pair, turn, tries, best = np.full((5, S), -1, np.int64)
    best_score, bar = np.zeros((2, S), np.float32)
    words, hits = np.zeros((S, 4, LANES), np.uint64), np.zeros((S, KEPT), np.int64)
    weights, accepted = np.zeros((S, KEPT), np.float32), np.zeros((S, 1), np.uint64)
    ahead = np.zeros((S, _AHEAD), np.int64)
    return Searches(words, hits, weights, accepted, ahead, waiting, pair, turn, tries, best, best_score, bar)


@njit(nogil=True, cache=True, fastmath=FAST, **LEAN)
def _search_all(
    begin: Any, end: Any, law: Any, seen: Any, counter: Any, queries: Any, table: Any, users: Any, positives: Any,
    kappa: Any, margin: Any, on: Any, ids: Any, tries: Any, violated: Any,
) -> None:  # fmt: skip
    k = ids.shape[1]
    coming, last = begin * k, end * k
    left = last - coming
    for b in range(begin, min(begin + _AHEAD, end)):
        _ask_for(seen, users, table, positives, b)
    s = 0
    while left > 0:
        b = on.pair[s] // k
        c = on.pair[s] - b * k
        if on.pair[s] >= 0:
            found = _score_ahead(on, s, queries, b, table)
            if found or on.tries[s] == kappa:
                ids[b, c], tries[b, c], violated[b, c] = on.best[s], on.tries[s], found
                on.pair[s] = -1
                left -= 1
            else:
                on.waiting[s] *= 2
        if on.pair[s] < 0 and coming < last:
            b = coming // k
            c = coming - b * k
            if c == 0 and b + _AHEAD < end:
                _ask_for(seen, users, table, positives, b + _AHEAD)
            on.bar[s] = dot(queries, b, table, positives[b]) - margin
            _begin(on, s, coming)
            coming += 1
            if is_full(seen, users[b]):
                ids[b, c], tries[b, c], violated[b, c] = -1, 0, False
                on.pair[s] = -1
                left -= 1
        if on.pair[s] >= 0:
            place = place_of(counter, b, PROPOSE, c)
            shots = Shots(on.words[s], on.hits[s], on.weights[s], on.accepted[s])
            turn = on.turn[s]
            on.waiting[s] = min(min(on.waiting[s], _AHEAD), kappa - on.tries[s])
            for x in range(on.waiting[s]):
                item, turn = propose(law, seen, users[b], positives[b], shots, place, turn, PATIENCE)
                on.ahead[s, x] = item
                prefetch_row(table, item)
            on.turn[s] = turn
        s = (s + 1) % _SEARCHES


@njit(cache=True, **INNER)
def _ask_for(seen: Any, users: Any, table: Any, positives: Any, b: Any) -> None:
    ask_for_sieve(seen, users, b)
    prefetch_row(table, positives[b])


@njit(inline="always", cache=True, **LEAN)
def _begin(on: Any, s: Any, pair: Any) -> None:
    on.pair[s] = pair
    on.turn[s] = 0
    on.tries[s] = 0
    on.best[s] = -1
    on.best_score[s] = -np.inf
    on.waiting[s] = _FIRST


@njit(inline="always", cache=True, fastmath=FAST, **LEAN)
def _score_ahead(on: Any, s: Any, queries: Any, b: Any, table: Any) -> Any:
    """Score the candidates drawn until one is above the bar; whether one was."""
    found = False
    best, most, tries = on.best[s], on.best_score[s], on.tries[s]
    for x in range(on.waiting[s]):
        item = on.ahead[s, x]
        value = dot(queries, b, table, item)
        tries += 1
        if value > most or best < 0:
            most = value
            best = item
        found = value > on.bar[s]
        if found:
            break
    on.best[s], on.best_score[s], on.tries[s] = best, most, tries
    return found


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
