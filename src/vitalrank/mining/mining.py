"""Mine negatives: by rank over all items, or by the proposal of a sampler; in blocks, in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vitalrank._util.files import check_output
from vitalrank._util.outputs import check_not_input
from vitalrank._util.parquet import is_marked_parquet, parquet_writer
from vitalrank._util.threads import limited
from vitalrank.errors import DataError, SettingError
from vitalrank.interactions import Interactions
from vitalrank.mining.candidates import QUERIES, Vectors, best_items, pair_scores
from vitalrank.mining.positives import read_pairs
from vitalrank.mining.rules import MiningRule
from vitalrank.mining.vectors import VectorSource, open_vectors
from vitalrank.samplers.backends import check_fits
from vitalrank.samplers.base import BoundSampler
from vitalrank.samplers.settings import Sampler

Array = NDArray[Any]
_CANDIDATE_BYTES = 48  # an id, a score and what sorts them
_ROUNDS = 8  # draws of a sampler for pairs whose negatives are not complete


class RuleOptions(TypedDict, total=False):
    """Fields of :class:`MiningRule` but ``k``."""

    range_min: int
    range_max: int | None
    max_score: float | None
    min_score: float | None
    absolute_margin: float | None
    relative_margin: float | None
    similarity: str


@dataclass(frozen=True)
class MiningSummary:
    """What came of it: pairs of a query and a positive, negatives in all, and queries with fewer than k."""

    pairs: int
    negatives: int
    short: int

    def __add__(self, other: MiningSummary) -> MiningSummary:
        return MiningSummary(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


@dataclass(frozen=True)
class Mined:
    """Negatives of each pair of a query and a positive, by row numbers, in the order of queries and positives.

    Parameters
    ----------
    queries, positives, positive_scores
        The pairs and their scores, (M,).
    negatives, scores
        (M, k), best first, or as they were drawn; -1 and -inf where there are fewer.
    """

    queries: NDArray[np.int64]
    positives: NDArray[np.int64]
    positive_scores: NDArray[np.float32]
    negatives: NDArray[np.int64]
    scores: NDArray[np.float32]

    @property
    def summary(self) -> MiningSummary:
        """How many were found."""
        lacking = (self.negatives < 0).any(1)
        return MiningSummary(len(self.queries), int((self.negatives >= 0).sum()), len(np.unique(self.queries[lacking])))


def mine(
    queries: VectorSource,
    items: VectorSource,
    positives: ArrayLike | str | os.PathLike[str],
    k: int = 1,
    *,
    sampler: Sampler | None = None,
    seed: int = 0,
    threads: int | None = None,
    **options: Unpack[RuleOptions],
) -> Mined:
    """Hard negatives for vectors of any encoder.

    Without a sampler, the k best-scored items of each query that are not its positives, after ``range_min`` and within
    limits and margins: the rule of sentence-transformers' ``mine_hard_negatives``. The ``range_max`` best items beside
    the positives are looked at. With a sampler, k distinct draws for each pair, within limits and margins.

    Parameters
    ----------
    queries, items
        Vectors (Q, d) and (I, d): arrays, or files ``.npy``, ``.npz``, ``.safetensors``, ``.parquet``.
    positives
        One item for each query, pairs (M, 2), a list of items for each query, or a file ``.npy`` or ``.parquet``.
    k
        Negatives of each pair.
    sampler
        Settings of a sampler, such as ``vr.VINS()``.
    seed, threads
        Of the sampler's draws; the most threads.
    range_min, range_max, max_score, min_score, absolute_margin, relative_margin, similarity
        See :class:`vitalrank.mining.MiningRule`.

    Examples
    --------
    >>> import vitalrank as vr
    >>> items = np.array([[1, 0], [0.9, 0.1], [0.5, 0.5], [0, 1]], np.float32)
    >>> vr.mine(items[:2], items, positives=[0, 1], k=2).negatives.tolist()
    [[1, 2], [0, 2]]
    >>> vr.mine(items[:2], items, positives=[0, 1], k=2, relative_margin=0.05).negatives.tolist()
    [[2, 3], [2, 3]]
    """
    blocks = list(_blocks(queries, items, positives, MiningRule(k=k, **options), sampler, seed, threads))
    return Mined(*(np.concatenate([getattr(block, f.name) for block in blocks]) for f in fields(Mined)))


def mine_to(
    path: str | os.PathLike[str],
    queries: VectorSource,
    items: VectorSource,
    positives: ArrayLike | str | os.PathLike[str],
    k: int = 1,
    *,
    sampler: Sampler | None = None,
    seed: int = 0,
    threads: int | None = None,
    force: bool = False,
    **options: Unpack[RuleOptions],
) -> MiningSummary:
    """As :func:`mine`, written to a Parquet file as it goes: one row for each query, positive and negative.

    Columns are ``query``, ``positive``, ``negative``, ``score`` and ``positive_score``. A file that
    vitalrank did not write is replaced with ``force`` alone.
    """
    import pyarrow as pa

    target = Path(path)
    sources = [Path(one) for one in (queries, items, positives) if isinstance(one, (str, os.PathLike))]
    check_not_input(target, sources)
    check_output(target, lambda head: is_marked_parquet(target), force)
    blocks = _blocks(queries, items, positives, MiningRule(k=k, **options), sampler, seed, threads)
    summary = MiningSummary(0, 0, 0)
    numbers, scores = dict.fromkeys(("query", "positive", "negative"), pa.int64()), ("score", "positive_score")
    schema = pa.schema({**numbers, **dict.fromkeys(scores, pa.float32())})
    with parquet_writer(target, schema) as writer:
        for block in blocks:
            row, column = np.nonzero(block.negatives >= 0)
            columns = (
                block.queries[row],
                block.positives[row],
                block.negatives[row, column],
                block.scores[row, column],
            )
            writer.write_table(pa.table([*columns, block.positive_scores[row]], schema=writer.schema))
            summary += block.summary
    return summary


def _blocks(
    queries: VectorSource,
    items: VectorSource,
    positives: ArrayLike | str | os.PathLike[str],
    rule: MiningRule,
    sampler: Sampler | None,
    seed: int,
    threads: int | None,
) -> Iterator[Mined]:
    normalize = rule.similarity == "cosine"
    who = Vectors(open_vectors(queries, "queries"), "queries", normalize)
    what = Vectors(open_vectors(items, "items"), "items", normalize)
    if who.table.shape[1] != what.table.shape[1]:
        raise DataError(f"queries are {who.table.shape[1]} wide but items {what.table.shape[1]}; they must agree.")
    log = read_pairs(positives, len(who), len(what))
    check_fits((QUERIES, rule.k + min(rule.depth, len(what))), _CANDIDATE_BYTES)
    bound = _bound(sampler, rule, log, seed, threads)
    for start in range(0, len(who), QUERIES):
        stop = min(start + QUERIES, len(who))
        if log.indptr[start] == log.indptr[stop]:
            continue
        with limited(threads):
            yield _block(who.rows(slice(start, stop)), what, log, rule, bound, start)


def _bound(
    sampler: Sampler | None, rule: MiningRule, log: Interactions, seed: int, threads: int | None
) -> BoundSampler | None:
    if sampler is None:
        return None
    if not isinstance(sampler, Sampler):
        raise SettingError(f"sampler is of type {type(sampler).__name__}; give settings of a sampler, as vr.VINS().")
    if rule.range_min or rule.range_max is not None:
        raise SettingError("range_min and range_max are for mining by rank; leave them out with a sampler.")
    return sampler.bind(log, seed=seed, threads=threads)


def _block(
    queries: NDArray[np.float32],
    items: Vectors,
    log: Interactions,
    rule: MiningRule,
    bound: BoundSampler | None,
    start: int,
) -> Mined:
    begin, end = int(log.indptr[start]), int(log.indptr[start + len(queries)])
    rows = np.arange(begin, end)
    users, positives = log.users[rows].astype(np.int64), log.items[rows].astype(np.int64)
    positive_scores = pair_scores(queries[users - start], items, positives[:, None])[:, 0]
    lowest = np.full(len(queries), np.inf, np.float32)
    np.minimum.at(lowest, users - start, positive_scores)
    if bound is None:
        found = _by_rank(queries, items, log, rule, start, lowest)
        negatives, scores = (part[users - start] for part in found)
    else:
        negatives, scores = _by_sampler(queries, items, rule, bound, rows, lowest[users - start])
    return Mined(users, positives, positive_scores, negatives, scores)


def _by_rank(
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


def _by_sampler(
    queries: NDArray[np.float32], items: Vectors, rule: MiningRule, bound: BoundSampler, rows: Array, lowest: Array
) -> tuple[Array, Array]:
    """Negatives and scores of each pair: draws that are new and allowed, until there are k or the rounds are over."""
    log = bound.train
    users, positives = log.users[rows].astype(np.int64), log.items[rows].astype(np.int64)
    asked = queries[users - users[0]]
    negatives, scores = np.full((len(rows), rule.k), -1, np.int64), np.full((len(rows), rule.k), -np.inf, np.float32)
    for step in range(_ROUNDS):
        left = np.flatnonzero((negatives < 0).any(1))
        if not len(left):
            break
        vectors = _vectors(bound, asked[left], items)
        draw = bound(users=users[left], positives=positives[left], rows=rows[left], step=step, k=rule.k, **vectors)
        ids = np.concatenate([negatives[left], np.asarray(draw.ids, np.int64)], 1)
        theirs = pair_scores(asked[left], items, ids)
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
