"""Static and pooled sampling: candidates, their scores, and the choice among them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from vitalrank.kernels.compiling import FAST, INNER, LEAN
from vitalrank.kernels.cpu.runtime.intrinsics import prefetch_row
from vitalrank.kernels.cpu.runtime.parallel import parallel_for
from vitalrank.kernels.cpu.sampling.bloom import ask_for_word
from vitalrank.kernels.cpu.sampling.proposing import (
    PATIENCE,
    ask_for_sieve,
    ask_for_user,
    dot,
    is_full,
    is_seen,
    limit_sample,
    load_shots,
    new_shots,
    place_of,
    propose,
    sample,
)  # fmt: skip
from vitalrank.kernels.rng import PAIRS, PROPOSE, RANK, STREAMS, fine_unit, philox

_AHEAD = 8  # rows asked for before they are needed
_ROWS = 64  # rows whose first words are made together


def draw_candidates(
    law: Any, seen: Any, counter: Any, users: Any, positives: Any, first: int, turns: Any, ids: Any
) -> None:
    """Fill ``ids`` (R, k, C) with open candidates, each of the k streams going on from its turn.

    ``first`` is the stream of the first of the k negatives; a user with no open item gets -1.
    """

    def part(begin: int, end: int) -> None:
        words = np.empty((2, _ROWS), np.uint64)
        _candidates(begin, end, law, seen, counter, users, positives, first, turns, words, new_shots(), ids)

    parallel_for(len(users), part, cost=ids[0].size if len(ids) else 1)


@njit(nogil=True, cache=True, **LEAN)
def _candidates(
    begin: Any, end: Any, law: Any, seen: Any, counter: Any, users: Any, positives: Any, first: Any, turns: Any,
    words: Any, shots: Any, ids: Any,
) -> None:  # fmt: skip
    is_one = ids.shape[2] == 1 and law.shots == 0  # most rows look at one word of the sieve then
    if not is_one:
        for r in range(begin, min(begin + _AHEAD, end)):
            ask_for_sieve(seen, users, r)
    for top in range(begin, end, _ROWS):
        bottom = min(top + _ROWS, end)
        if is_one:
            for r in range(top, bottom):
                ask_for_user(seen, users[r])
        for c in range(ids.shape[1]):
            _first_words(top, bottom, counter, first + c, words)
            if law.shots == 0:
                _first_items(top, bottom, law, seen, users, positives, words, turns, ids, c)
            for r in range(top, bottom):
                if c == 0 and not is_one:
                    ask_for_sieve(seen, users, r + _AHEAD)
                if is_full(seen, users[r]):
                    ids[r, c] = -1
                    continue
                place = place_of(counter, r, PROPOSE, first + c)
                _fill_row(law, seen, users[r], positives[r], place, shots, turns[r], ids[r], c)


@njit(inline="always", cache=True, **LEAN)
def _first_words(begin: Any, end: Any, counter: Any, index: Any, words: Any) -> None:
    """The pair of words of turn 0 for each row: most draws need no other, and so they are made side by side."""
    for r in range(begin, end):
        a, b, _, _ = philox(counter.seed, counter.step, counter.rows[r], 0, PROPOSE + STREAMS * index)
        words[0, r - begin] = a
        words[1, r - begin] = b


@njit(inline="always", cache=True, **LEAN)
def _first_items(
    begin: Any, end: Any, law: Any, seen: Any, users: Any, positives: Any, words: Any, turns: Any, ids: Any, c: Any
) -> None:
    """What turn 0 draws for each row, seen or not, and a look ahead at the bit that tells."""
    for r in range(begin, end):
        if turns[r, c] == 0:
            ids[r, c, 0] = limit_sample(law, positives[r], words[0, r - begin], words[1, r - begin])
            ask_for_word(seen, users[r], ids[r, c, 0])


@njit(inline="always", cache=True, **LEAN)
def _fill_row(law: Any, seen: Any, user: Any, item: Any, place: Any, shots: Any, turns: Any, ids: Any, c: Any) -> None:
    turn = turns[c]
    done = 0
    patience = PATIENCE
    if turn == 0 and law.shots == 0:  # the first item is there already
        turn = 1
        patience -= 1
        done = 0 if is_seen(seen, user, ids[c, 0]) else 1
    if done < ids.shape[1] and turn % PAIRS != 0:
        load_shots(law, item, shots, place, turn)
    for x in range(done, ids.shape[1]):
        ids[c, x], turn = propose(law, seen, user, item, shots, place, turn, patience if x == 0 else PATIENCE)
    turns[c] = turn


def score(queries: Any, table: Any, ids: Any, scores: Any) -> None:
    """``scores[b, x] = queries[b] . table[ids[b, x]]``; -inf where the id is -1."""  # (B, M)
    parallel_for(len(ids), lambda begin, end: _score(begin, end, queries, table, ids, scores), ids.shape[1])


@njit(nogil=True, cache=True, fastmath=FAST, **LEAN)
def _score(begin: Any, end: Any, queries: Any, table: Any, ids: Any, scores: Any) -> None:
    for b in range(begin, end):
        count = ids.shape[1]
        for x in range(count):
            if x + _AHEAD < count and ids[b, x + _AHEAD] >= 0:
                prefetch_row(table, ids[b, x + _AHEAD])
            item = ids[b, x]
            scores[b, x] = dot(queries, b, table, item) if item >= 0 else -np.inf


def pick_by_rank(scores: Any, ids: Any, cumulative: Any, counter: Any, picked: Any) -> None:
    """Of each pool of C candidates take the r-th best, r drawn from a law given by its cumulative sums.

    Equal scores rank in the order they were drawn.
    """
    parallel_for(len(ids), lambda begin, end: _pick(begin, end, scores, ids, cumulative, counter, picked), cost=4)


@njit(nogil=True, cache=True, **LEAN)
def _pick(begin: Any, end: Any, scores: Any, ids: Any, cumulative: Any, counter: Any, picked: Any) -> None:
    for b in range(begin, end):
        for c in range(ids.shape[1]):
            wanted = 0
            if len(cumulative) > 1:
                high, low, _, _ = philox(counter.seed, counter.step, counter.rows[b], 0, RANK + STREAMS * c)
                wanted = np.searchsorted(cumulative, fine_unit(high, low), side="right")
            picked[b, c] = ids[b, c, _place_of_rank(scores[b, c], min(wanted, ids.shape[2] - 1))]


@njit(cache=True, **INNER)
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


def reject_each(law: Any, positives: Any, seed: Any, step: Any, chosen: Any) -> None:
    """Algorithm 1 once for each positive, seen items not left out."""
    parallel_for(
        len(positives), lambda begin, end: _sample(begin, end, law, positives, seed, step, new_shots(), chosen)
    )


@njit(nogil=True, cache=True, **LEAN)
def _sample(begin: Any, end: Any, law: Any, positives: Any, seed: Any, step: Any, shots: Any, chosen: Any) -> None:
    for b in range(begin, end):
        chosen[b], _ = sample(law, positives[b], shots, (seed, step, np.uint32(b), PROPOSE), np.int64(0))
