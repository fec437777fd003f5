"""Candidates of static and pooled samplers, their scores, and the choice among them by rank."""

from __future__ import annotations

from typing import Any

import numpy as np

from vitalrank.kernels.compiling import FAST, INNER, LEAN, njit
from vitalrank.kernels.cpu.runtime.dot import dot
from vitalrank.kernels.cpu.runtime.intrinsics import prefetch_row
from vitalrank.kernels.cpu.runtime.parallel import parallel_for
from vitalrank.kernels.cpu.sampling.bloom import prefetch_word
from vitalrank.kernels.cpu.sampling.proposal import PATIENCE, counter_prefix, limit_sample, load_draws, propose, sample
from vitalrank.kernels.cpu.sampling.rejection import new_draw_buffer
from vitalrank.kernels.cpu.sampling.seen import is_exhausted, is_seen, owner_of, prefetch_indptr, prefetch_seen
from vitalrank.kernels.rng import PAIRS, PROPOSE, RANK, STREAMS, fine_unit, philox

_AHEAD = 8  # rows prefetched before they are read
_ROWS = 64  # rows whose first random words are generated together


def draw_candidates(
    proposal: Any, seen: Any, counter: Any, users: Any, positives: Any, first: int, draws: Any, ids: Any
) -> None:
    """Fill ``ids`` (R, k, C) with unseen candidates; each of the k streams continues from its draw index in ``draws``.

    ``first`` is the stream of the first of the k negatives; a user without an unseen item gets -1.
    """

    def shard(begin: int, end: int) -> None:
        words = np.empty((2, _ROWS), np.uint64)
        _candidates(begin, end, proposal, seen, counter, users, positives, first, draws, words, new_draw_buffer(), ids)

    parallel_for(len(users), shard, cost=ids[0].size if len(ids) else 1)


@njit(nogil=True, cache=True, **LEAN)
def _candidates(
    begin: Any, end: Any, proposal: Any, seen: Any, counter: Any, users: Any, positives: Any, first: Any, draws: Any,
    words: Any, buffer: Any, ids: Any,
) -> None:  # fmt: skip
    single = ids.shape[2] == 1 and proposal.shots == 0  # most rows read one word of the Bloom filter then
    if not single:
        for r in range(begin, min(begin + _AHEAD, end)):
            prefetch_seen(seen, users, r)
    for top in range(begin, end, _ROWS):
        bottom = min(top + _ROWS, end)
        if single:
            for r in range(top, bottom):
                prefetch_indptr(seen, users[r])
        for c in range(ids.shape[1]):
            _first_words(top, bottom, counter, first + c, words)
            if proposal.shots == 0:
                _first_items(top, bottom, proposal, seen, users, positives, words, draws, ids, c)
            for r in range(top, bottom):
                if c == 0 and not single:
                    prefetch_seen(seen, users, r + _AHEAD)
                if is_exhausted(seen, users[r]):
                    ids[r, c] = -1
                    continue
                prefix = counter_prefix(counter, r, PROPOSE, first + c)
                _fill_row(proposal, seen, users[r], positives[r], prefix, buffer, draws[r], ids[r], c)


@njit(inline="always", cache=True, **LEAN)
def _first_words(begin: Any, end: Any, counter: Any, index: Any, words: Any) -> None:
    """The pair of words of draw 0 for each row: most rows need no other, and a loop of its own vectorises."""
    for r in range(begin, end):
        a, b, _, _ = philox(counter.seed, counter.step, counter.rows[r], 0, PROPOSE + STREAMS * index)
        words[0, r - begin] = a
        words[1, r - begin] = b


@njit(inline="always", cache=True, **LEAN)
def _first_items(
    begin: Any, end: Any, proposal: Any, seen: Any, users: Any, positives: Any, words: Any, draws: Any, ids: Any, c: Any
) -> None:
    """The item of draw 0 for each row, seen or not, and a prefetch of its word of the Bloom filter."""
    for r in range(begin, end):
        if draws[r, c] == 0:
            ids[r, c, 0] = limit_sample(proposal, positives[r], words[0, r - begin], words[1, r - begin])
            prefetch_word(seen, owner_of(seen, users[r]), ids[r, c, 0])


@njit(inline="always", cache=True, **LEAN)
def _fill_row(
    proposal: Any, seen: Any, user: Any, item: Any, prefix: Any, buffer: Any, draws: Any, ids: Any, c: Any
) -> None:
    draw = draws[c]
    done = 0
    patience = PATIENCE
    if draw == 0 and proposal.shots == 0:  # the first item is there already
        draw = 1
        patience -= 1
        done = 0 if is_seen(seen, user, ids[c, 0]) else 1
    if done < ids.shape[1] and draw % PAIRS != 0:
        load_draws(proposal, item, buffer, prefix, draw)
    for x in range(done, ids.shape[1]):
        ids[c, x], draw = propose(proposal, seen, user, item, buffer, prefix, draw, patience if x == 0 else PATIENCE)
    draws[c] = draw


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
    """Of each pool of C candidates take the r-th best, r drawn from a distribution given by its cumulative sums.

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
            picked[b, c] = ids[b, c, _index_of_rank(scores[b, c], min(wanted, ids.shape[2] - 1))]


@njit(cache=True, **INNER)
def _index_of_rank(scores: Any, wanted: Any) -> Any:
    """Index of the ``wanted``-th largest score, ties in order of index."""
    prefix = 0
    for draw in range(wanted + 1):
        best = -1
        for x in range(len(scores)):
            behind = draw == 0 or scores[x] < scores[prefix] or (scores[x] == scores[prefix] and x > prefix)
            if behind and (best < 0 or scores[x] > scores[best]):
                best = x
        if best < 0:  # scores that do not compare (NaN): keep the last one found
            break
        prefix = best
    return prefix


def draw_units(counter: Any, purpose: int, units: Any) -> None:
    """Fill ``units`` (B, k) float64 with uniform numbers in [0, 1), from the stream of a purpose."""
    parallel_for(len(units), lambda begin, end: _units(begin, end, counter, purpose, units), cost=units.shape[1])


@njit(nogil=True, cache=True, **LEAN)
def _units(begin: Any, end: Any, counter: Any, purpose: Any, units: Any) -> None:
    for b in range(begin, end):
        for c in range(units.shape[1]):
            high, low, _, _ = philox(counter.seed, counter.step, counter.rows[b], 0, purpose + STREAMS * c)
            units[b, c] = fine_unit(high, low)


def drop_seen(seen: Any, users: Any, ids: Any) -> None:
    """Set the ids (B, C) that each row's user has seen to -1."""
    parallel_for(len(ids), lambda begin, end: _drop_seen(begin, end, seen, users, ids), cost=ids.shape[1])


@njit(nogil=True, cache=True, **LEAN)
def _drop_seen(begin: Any, end: Any, seen: Any, users: Any, ids: Any) -> None:
    for b in range(begin, end):
        for x in range(ids.shape[1]):
            if ids[b, x] >= 0 and is_seen(seen, users[b], ids[b, x]):
                ids[b, x] = -1


def sample_each(proposal: Any, positives: Any, seed: Any, step: Any, chosen: Any) -> None:
    """Algorithm 1 once for each positive, seen items included."""
    parallel_for(
        len(positives),
        lambda begin, end: _sample(begin, end, proposal, positives, seed, step, new_draw_buffer(), chosen),
    )


@njit(nogil=True, cache=True, **LEAN)
def _sample(
    begin: Any, end: Any, proposal: Any, positives: Any, seed: Any, step: Any, buffer: Any, chosen: Any
) -> None:
    for b in range(begin, end):
        chosen[b], _ = sample(proposal, positives[b], buffer, (seed, step, np.uint32(b), PROPOSE), np.int64(0))
