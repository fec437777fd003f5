"""What all samplers share: settings that bind to a log, and one call that picks negatives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vitalrank.errors import SettingError
from vitalrank.interactions import Interactions
from vitalrank.kernels import cpu
from vitalrank.kernels.laws import Counter, Law
from vitalrank.samplers.arrays import Arrays, arrays_of
from vitalrank.samplers.catalogue import pool_of, row_sums, seen_by
from vitalrank.samplers.checks import check_whole
from vitalrank.samplers.counting import Counts
from vitalrank.threads import limited

# fn(rows (R,), ids (R, C)) -> (R, C): the score of each candidate for each row of the batch.
Scorer = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Draw:
    """Negatives for a batch of B positives.

    Parameters
    ----------
    ids
        Internal item ids, (B, k) int64; -1 where the user has no open item.
    weights
        Factor of each pair in the loss, (B, k) float32; 0 where the id is -1.
    tries
        Candidates looked at for each positive, (B,) int32: K of Algorithm 2 where the sampler draws until.
    log_q
        Log of the probability with which each id was proposed, (B, k) float32, if the law has a density.
    violated
        Whether each of the k negatives came within the margin, (B,) bool, if the sampler has a margin.
    """

    ids: Any
    weights: Any
    tries: Any
    log_q: Any = None
    violated: Any = None


@dataclass(frozen=True)
class Batch:
    """One call, checked and turned into NumPy arrays."""

    users: NDArray[np.int32]  # (B,)
    positives: NDArray[np.int32]  # (B,)
    counter: Counter
    k: int
    queries: NDArray[np.float32] | None  # (B, d)
    table: NDArray[np.float32] | None  # (n, d)
    scorer: Scorer | None

    def __len__(self) -> int:
        return len(self.users)

    def vectors(self, who: Sampler) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Queries and item table, or a sentence that they are missing."""
        if self.queries is None or self.table is None:
            raise SettingError(f"{who!r} needs vectors: call it with queries (B, d) and item_table (n, d).")
        return self.queries, self.table

    def score(self, ids: NDArray[np.int64], rows: NDArray[np.int64] | None = None) -> NDArray[np.float32]:
        """Scores of candidates (R, C) of some rows of the batch (default: all), by scorer or dot product."""
        if rows is None:
            rows = np.arange(len(self))
        if self.scorer is not None:
            return np.asarray(self.scorer(rows, ids))
        assert self.queries is not None  # checked when the batch was made
        assert self.table is not None
        scores = np.empty(ids.shape, np.float32)
        cpu.score(self.queries if len(rows) == len(self) else self.queries[rows], self.table, ids, scores)
        return scores


@dataclass(frozen=True)
class Sampler(ABC):
    """Settings of a negative sampler. They say what to draw; ``bind`` says from which log."""

    def bind(
        self,
        train: Interactions,
        seed: int = 0,
        *,
        allowed: ArrayLike | None = None,
        threads: int | None = None,
        count: bool = False,
    ) -> BoundSampler:
        """Make the sampler ready for a log.

        Parameters
        ----------
        train
            The log whose pairs are never drawn and whose degrees make the law.
        seed
            Key of the random generator. A draw depends on it, the step and the row, not on threads or history.
        allowed
            Draw only from these items: a boolean mask over the catalogue, or internal ids.
        threads
            At most so many threads; the draws are the same for any number.
        count
            Keep counts for the analysis of class imbalance in ``counts``.
        """
        return self._bound()(self, train, seed, allowed, threads, count)

    @abstractmethod
    def _bound(self) -> type[BoundSampler]: ...


class BoundSampler(ABC):
    """A sampler bound to a log and a seed: call it with a batch, get a ``Draw``."""

    needs_scores = True

    def __init__(
        self,
        settings: Any,
        train: Interactions,
        seed: int,
        allowed: ArrayLike | None,
        threads: int | None,
        count: bool,
    ) -> None:
        check_whole("seed", seed, 0, 2**64)
        if threads is not None:
            check_whole("threads", threads, 1, 2**16)
        self.settings = settings
        self.train = train
        self.seed: Any = np.uint64(seed)
        self.threads = threads
        self.pool = pool_of(train.n_items, allowed)
        self.seen = seen_by(train, self.pool)
        self.counts = Counts(train.n_items) if count else None

    def __repr__(self) -> str:
        return f"{self.settings!r} on {self.train.n_users:,} users, {len(self.pool):,} of {self.train.n_items:,} items"

    def reset(self) -> None:
        """Forget what was built from earlier tables (sorted factors, clusters): called at the start of an epoch."""
        return

    def __call__(
        self,
        queries: Any = None,
        item_table: Any = None,
        users: Any = None,
        positives: Any = None,
        *,
        step: int = 0,
        k: int = 1,
        rows: Any = None,
        score: Scorer | None = None,
    ) -> Draw:
        """Pick k negatives for each positive.

        Parameters
        ----------
        queries, item_table
            Vectors whose dot product is the score, (B, d) and (n, d); NumPy or torch.
        users, positives
            Internal ids, (B,).
        step
            Number of the training step: another step draws other numbers.
        k
            Negatives per positive; samplers that keep all their candidates take k from their settings.
        rows
            Row numbers for the random counters, (B,); default 0 to B-1. A row's draw follows its number, so that
            a batch may be cut or reordered without changing what is drawn.
        score
            ``fn(rows (R,), ids (R, C)) -> (R, C)`` in place of the dot product; ``rows`` are positions in the batch.
        """
        arrays = arrays_of(queries, item_table, users, positives)
        batch = self._batch(arrays, queries, item_table, users, positives, step, k, rows, score)
        with limited(self.threads):
            draw = self._draw(batch)
        if self.counts is not None:
            self.counts.add(batch.positives, draw)
        given: Draw = arrays.give(draw)
        return given

    def _batch(
        self,
        arrays: Arrays,
        queries: Any,
        item_table: Any,
        users: Any,
        positives: Any,
        step: int,
        k: int,
        rows: Any,
        score: Scorer | None,
    ) -> Batch:
        if users is None or positives is None:
            raise SettingError("a sampler needs users and positives, both (B,) internal ids.")
        check_whole("k", k, 1, 2**24)
        check_whole("step", step, 0, 2**32)
        who = arrays.ids(users, "users", self.train.n_users)
        what = arrays.ids(positives, "positives", self.train.n_items)
        if len(who) != len(what):
            raise SettingError(f"{len(who)} users but {len(what)} positives: give arrays of one length.")
        numbers = np.arange(len(who), dtype=np.uint32) if rows is None else arrays.ids(rows, "rows", 2**32, np.uint32)
        if len(numbers) != len(who):
            raise SettingError(f"{len(numbers)} rows but {len(who)} users: give arrays of one length.")
        table = None if item_table is None else arrays.vectors(item_table, "item_table", self.train.n_items)
        asked = None if queries is None else arrays.vectors(queries, "queries", len(who))
        if score is None and self.needs_scores and (table is None or asked is None):
            raise SettingError(f"{self.settings!r} scores candidates: give queries and item_table, or score=.")
        if table is not None and asked is not None and table.shape[1] != asked.shape[1]:
            raise SettingError(f"queries are {asked.shape[1]} wide but item_table {table.shape[1]}; they must agree.")
        scorer = None if score is None else arrays.scorer(score)
        return Batch(who, what, Counter(self.seed, step, numbers), k, asked, table, scorer)

    @abstractmethod
    def _draw(self, batch: Batch) -> Draw: ...

    def _candidates(self, law: Law, batch: Batch, count: int) -> NDArray[np.int64]:
        """``count`` open candidates for each of the k negatives of each row."""  # (B, k, count)
        ids = np.empty((len(batch), batch.k, count), np.int64)
        turns = np.zeros((len(batch), batch.k), np.int64)
        cpu.draw_candidates(law, self.seen, batch.counter, batch.users, batch.positives, 0, turns, ids)
        return ids

    def _log_open_mass(self, weights: NDArray[np.float32]) -> NDArray[np.float64]:
        """Log of the weight of the pool that each user has not seen."""  # (U,)
        inside = np.zeros(self.train.n_items, np.float64)
        inside[self.pool] = weights[self.pool]
        left = inside.sum() - row_sums(self.seen.indptr, inside[self.seen.items])
        return np.log(np.where(self.seen.open > 0, np.maximum(left, 1e-300), 1.0))


def log_share(log_weights: Any, log_open: Any, batch: Batch, ids: NDArray[np.int64]) -> NDArray[np.float32]:
    """Log of each id's share of the weight that is open to its user; 0 where there was none to draw."""  # (B, k)
    log_q = (log_weights[ids] - log_open[batch.users][:, None]).astype(np.float32)
    log_q[ids < 0] = 0.0
    return np.asarray(log_q)


def plain_weights(ids: NDArray[np.int64]) -> NDArray[np.float32]:
    """1 for every id, 0 where there was none to draw."""
    return (ids >= 0).astype(np.float32)
