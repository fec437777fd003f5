"""Mine negatives: by rank over all items, or by the proposal of a sampler; in blocks, in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vitalrank._util.files import check_output
from vitalrank._util.outputs import check_not_input
from vitalrank._util.parquet import is_marked_parquet, parquet_writer
from vitalrank._util.threads import limited
from vitalrank.errors import DataError, SettingError
from vitalrank.interactions import Interactions
from vitalrank.mining.candidates import QUERIES, Vectors, pair_scores
from vitalrank.mining.negatives import by_rank, by_sampler
from vitalrank.mining.positives import read_pairs
from vitalrank.mining.results import Mined, MiningSummary
from vitalrank.mining.rules import MiningRule
from vitalrank.mining.vectors import VectorSource, open_vectors
from vitalrank.samplers.backends import check_fits
from vitalrank.samplers.base import BoundSampler
from vitalrank.samplers.settings import Sampler

_CANDIDATE_BYTES = 48  # an id, a score and what sorts them


class RuleOptions(TypedDict, total=False):
    """Fields of :class:`MiningRule` but ``k``."""

    range_min: int
    range_max: int | None
    max_score: float | None
    min_score: float | None
    absolute_margin: float | None
    relative_margin: float | None
    similarity: str


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
        found = by_rank(queries, items, log, rule, start, lowest)
        negatives, scores = (part[users - start] for part in found)
    else:
        negatives, scores = by_sampler(queries[users - start], items, rule, bound, rows, lowest[users - start])
    return Mined(users, positives, positive_scores, negatives, scores)
