"""The negatives of a block of queries: the best by rank, or draws of a sampler."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.typing import Array
from vitalrank.interactions import Interactions
from vitalrank.mining.candidates import Vectors, best_items, pair_scores
from vitalrank.mining.rules import MiningRule
from vitalrank.samplers.base import BoundSampler

_ROUNDS = 8  # draws of a sampler for pairs whose negatives are not complete


def by_rank(
    queries: NDArray[np.float32], items: Vectors, log: Interactions, rule: MiningRule, start: int, lowest: Array
) -> tuple[Array, Array]:
    """Negatives and scores of each query."""  # (B, k) each
    degree = log.user_degree[start : start + len(queries)]
    ids, scores = best_items(queries, items, rule.depth + int(degree.max()))
    positive = log.csr[start : start + len(queries)]
    keys = np.repeat(np.arange(len(queries)), np.diff(positive.indptr)) * log.n_items + positive.indices
    own = np.isin(np.arange(len(queries))[:, None] * log.n_items + ids, keys)
    allowed = rule.allows(scores, lowest) & ~own & (np.arange(ids.shape[1]) < (rule.depth + degree)[:, None])
    rank = np.cumsum(allowed, 1) - 1  # among those that are left
    kept = allowed & (rank >= rule.range_min) & (rank < min(rule.depth, rule.range_min + rule.k))
    return _packed(ids, scores, kept, rank - rule.range_min, rule.k)


def _packed(ids: Array, scores: Array, kept: Array, position: Array, k: int) -> tuple[Array, Array]:
    """The ids and scores that are kept, at their positions."""  # (B, k) each
    negatives, theirs = np.full((len(ids), k), -1, np.int64), np.full((len(ids), k), -np.inf, np.float32)
    row, column = np.nonzero(kept)
    at = position[row, column]
    negatives[row, at], theirs[row, at] = ids[row, column], scores[row, column]
    return negatives, theirs


def by_sampler(
    queries: NDArray[np.float32], items: Vectors, rule: MiningRule, bound: BoundSampler, rows: Array, lowest: Array
) -> tuple[Array, Array]:
    """Negatives and scores of each pair (M, k), for the query and the lowest positive score of each.

    Draws that are new and allowed are kept, until there are k or the rounds are over.
    """
    log = bound.train
    users, positives = log.users[rows].astype(np.int64), log.items[rows].astype(np.int64)
    negatives, scores = np.full((len(rows), rule.k), -1, np.int64), np.full((len(rows), rule.k), -np.inf, np.float32)
    for step in range(_ROUNDS):
        left = np.flatnonzero((negatives < 0).any(1))
        if not len(left):
            break
        vectors = _vectors(bound, queries[left], items)
        draw = bound(users=users[left], positives=positives[left], rows=rows[left], step=step, k=rule.k, **vectors)
        ids = np.concatenate([negatives[left], np.asarray(draw.ids, np.int64)], 1)
        theirs = pair_scores(queries[left], items, ids)
        kept = rule.allows(theirs, lowest[left]) & ~_repeated(ids)
        position = np.cumsum(kept, 1) - 1
        negatives[left], scores[left] = _packed(ids, theirs, kept & (position < rule.k), position, rule.k)
    return negatives, scores


def _repeated(ids: Array) -> NDArray[np.bool_]:
    """Which ids of each row stand further left, too."""  # (B, n)
    order = np.argsort(ids, axis=1, kind="stable")
    ordered = np.take_along_axis(ids, order, 1)
    again, found = np.zeros(ids.shape, np.bool_), np.empty(ids.shape, np.bool_)
    again[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    np.put_along_axis(found, order, again, 1)
    return found


def _vectors(bound: BoundSampler, queries: NDArray[np.float32], items: Vectors) -> dict[str, Any]:
    """How a sampler scores: by the table where it may be read in place, else by rows that are read as it asks."""
    if not bound.needs_scores:
        return {}
    if items.whole is not None:
        return {"queries": queries, "item_table": items.whole}
    return {"score": lambda rows, ids: pair_scores(queries[rows], items, ids)}
