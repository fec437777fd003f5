"""Algorithm 2: draw candidates until one scores within a margin of the positive."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vitalrank.kernels.compiling import FAST, INNER, LEAN, njit
from vitalrank.kernels.cpu.runtime.dot import dot
from vitalrank.kernels.cpu.runtime.intrinsics import prefetch_row
from vitalrank.kernels.cpu.runtime.parallel import parallel_for
from vitalrank.kernels.cpu.sampling.proposal import PATIENCE, counter_prefix, propose
from vitalrank.kernels.cpu.sampling.rejection import BUFFERED, DrawBuffer
from vitalrank.kernels.cpu.sampling.seen import is_exhausted, prefetch_seen
from vitalrank.kernels.rng import LANES, PROPOSE

_LOOKAHEAD = 6  # rows prefetched before they are read
_FIRST = 2  # candidates prefetched at first; then twice as many each time, up to _LOOKAHEAD
_SEARCHES = 3  # interleaved


def draw_until(
    proposal: Any,
    seen: Any,
    counter: Any,
    queries: Any,
    table: Any,
    users: Any,
    positives: Any,
    kappa: Any,
    margin: Any,
    ceiling: Any,
    ids: Any,
    tries: Any,
    violated: Any,
) -> None:
    """Algorithm 2: draw until a candidate comes within the margin of the positive, at most ``kappa`` times.

    ``tries`` (B, k) is K; where nothing violates, the best-scoring candidate is kept. A candidate above
    ``s + ceiling[0] + ceiling[1] |s|``, s the positive's score, is a try and is not taken.
    """

    def shard(begin: int, end: int) -> None:
        _search_all(
            begin, end, proposal, seen, counter, queries, table, users, positives, kappa, margin, ceiling,
            new_search_state(), ids, tries, violated,
        )  # fmt: skip

    parallel_for(len(users), shard, cost=4)


class SearchState(NamedTuple):
    """State of S interleaved searches: one is scored while the prefetches of the others are in flight."""

    words: NDArray[np.uint64]  # (S, 4, LANES)
    positions: NDArray[np.int64]  # (S, KEPT)
    weights: NDArray[np.float32]  # (S, KEPT)
    accepted: NDArray[np.uint64]  # (S, 1)
    lookahead: NDArray[np.int64]  # (S, _AHEAD) candidates drawn and prefetched, not scored yet
    pending: NDArray[np.int64]  # (S,) how many of them; once scored, how many to draw next
    pair: NDArray[np.int64]  # (S,) index of the negative searched for, of all in the batch; -1 for none
    draw: NDArray[np.int64]  # (S,) draw index
    tries: NDArray[np.int64]  # (S,) K so far
    best: NDArray[np.int64]  # (S,)
    best_score: NDArray[np.float32]  # (S,)
    threshold: NDArray[np.float32]  # (S,)
    limit: NDArray[np.float32]  # (S,)


def new_search_state() -> SearchState:
    """Initial state for one thread."""
    S = _SEARCHES
    pending, pair, draw, tries, best = np.full((5, S), -1, np.int64)
    best_score, threshold, limit = np.zeros((3, S), np.float32)
    words, positions = np.zeros((S, 4, LANES), np.uint64), np.zeros((S, BUFFERED), np.int64)
    weights, accepted = np.zeros((S, BUFFERED), np.float32), np.zeros((S, 1), np.uint64)
    lookahead = np.zeros((S, _LOOKAHEAD), np.int64)
    return SearchState(
        words, positions, weights, accepted, lookahead, pending, pair, draw, tries, best, best_score, threshold, limit
    )


@njit(nogil=True, cache=True, fastmath=FAST, **LEAN)
def _search_all(
    begin: Any, end: Any, proposal: Any, seen: Any, counter: Any, queries: Any, table: Any, users: Any, positives: Any,
    kappa: Any, margin: Any, ceiling: Any, state: Any, ids: Any, tries: Any, violated: Any,
) -> None:  # fmt: skip
    k = ids.shape[1]
    upcoming, last = begin * k, end * k
    remaining = last - upcoming
    for b in range(begin, min(begin + _LOOKAHEAD, end)):
        _prefetch(seen, users, table, positives, b)
    s = 0
    while remaining > 0:
        b = state.pair[s] // k
        c = state.pair[s] - b * k
        if state.pair[s] >= 0:
            found = _score_lookahead(state, s, queries, b, table)
            if found or state.tries[s] == kappa:
                ids[b, c], tries[b, c], violated[b, c] = state.best[s], state.tries[s], found
                state.pair[s] = -1
                remaining -= 1
            else:
                state.pending[s] *= 2
        if state.pair[s] < 0 and upcoming < last:
            b = upcoming // k
            c = upcoming - b * k
            if c == 0 and b + _LOOKAHEAD < end:
                _prefetch(seen, users, table, positives, b + _LOOKAHEAD)
            own = dot(queries, b, table, positives[b])
            state.threshold[s] = own - margin
            state.limit[s] = own + ceiling[0] + ceiling[1] * abs(own)
            _start_search(state, s, upcoming)
            upcoming += 1
            if is_exhausted(seen, users[b]):
                ids[b, c], tries[b, c], violated[b, c] = -1, 0, False
                state.pair[s] = -1
                remaining -= 1
        if state.pair[s] >= 0:
            prefix = counter_prefix(counter, b, PROPOSE, c)
            buffer = DrawBuffer(state.words[s], state.positions[s], state.weights[s], state.accepted[s])
            draw = state.draw[s]
            state.pending[s] = min(min(state.pending[s], _LOOKAHEAD), kappa - state.tries[s])
            for x in range(state.pending[s]):
                item, draw = propose(proposal, seen, users[b], positives[b], buffer, prefix, draw, PATIENCE)
                state.lookahead[s, x] = item
                prefetch_row(table, item)
            state.draw[s] = draw
        s = (s + 1) % _SEARCHES


@njit(cache=True, **INNER)
def _prefetch(seen: Any, users: Any, table: Any, positives: Any, b: Any) -> None:
    prefetch_seen(seen, users, b)
    prefetch_row(table, positives[b])


@njit(inline="always", cache=True, **LEAN)
def _start_search(state: Any, s: Any, pair: Any) -> None:
    state.pair[s] = pair
    state.draw[s] = 0
    state.tries[s] = 0
    state.best[s] = -1
    state.best_score[s] = -np.inf
    state.pending[s] = _FIRST


@njit(inline="always", cache=True, fastmath=FAST, **LEAN)
def _score_lookahead(state: Any, s: Any, queries: Any, b: Any, table: Any) -> Any:
    """Score the lookahead until one candidate exceeds the threshold; returns whether one did."""
    found = False
    best, best_score, tries = state.best[s], state.best_score[s], state.tries[s]
    for x in range(state.pending[s]):
        item = state.lookahead[s, x]
        value = dot(queries, b, table, item)
        tries += 1
        if value > state.limit[s]:
            continue
        if value > best_score or best < 0:
            best_score = value
            best = item
        found = value > state.threshold[s]
        if found:
            break
    state.best[s], state.best_score[s], state.tries[s] = best, best_score, tries
    return found


@njit(cache=True, **LEAN)
def advance_search(
    scores: Any,
    candidates: Any,
    thresholds: Any,
    limits: Any,
    kappa: Any,
    best: Any,
    ids: Any,
    tries: Any,
    violated: Any,
) -> None:
    """Continue ``draw_until`` on a block of scored candidates (R, C); its state is in (R,) arrays."""
    for r in range(len(scores)):
        for x in range(scores.shape[1]):
            if violated[r] or tries[r] >= kappa or candidates[r, x] < 0:
                break
            tries[r] += 1
            if scores[r, x] > limits[r]:
                continue
            if scores[r, x] > best[r] or ids[r] < 0:
                best[r] = scores[r, x]
                ids[r] = candidates[r, x]
            violated[r] = scores[r, x] > thresholds[r]
