"""One way to rank rows of any model on the CPU: users or histories become rows, rows become lists."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.threads import limited
from vitalrank._util.typing import Array, Floats
from vitalrank.errors import TrainingError
from vitalrank.kernels.cpu.ranking import top_n as kernels
from vitalrank.ranking.scorers import DotScorer, Scorer

Top = tuple[NDArray[np.int64], Floats]

_USERS = 4096  # rows per block of a dot-product model
_CELLS = 4_000_000  # scores held at a time for any other model


@dataclass(frozen=True)
class LeftOut:
    """Items that may not be returned: row ``b`` of a batch leaves out list ``lists[b]``."""

    lists: Array  # (B,)
    indptr: NDArray[np.int64]  # (L + 1,)
    items: NDArray[np.int32]  # sorted within a list

    @classmethod
    def of(cls, rows: Sequence[Array]) -> LeftOut:
        """One list of sorted items for each row.

        Examples
        --------
        >>> LeftOut.of([np.array([2, 5]), np.array([], int)]).indptr.tolist()
        [0, 2, 2]
        """
        indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows], dtype=np.int64)]).astype(np.int64)
        items = np.concatenate(rows).astype(np.int32) if len(rows) else np.empty(0, np.int32)
        return cls(np.arange(len(rows)), indptr, items)

    def among(self, positions: NDArray[np.int64]) -> LeftOut:
        """The same where item ``i`` stands at ``positions[i]``, or nowhere (-1)."""
        moved = positions[self.items]
        counts = np.concatenate([[0], np.cumsum(moved >= 0)]).astype(np.int64)
        return LeftOut(self.lists, counts[self.indptr], moved[moved >= 0].astype(np.int32))


class Ranker(ABC):
    """Ranks the catalogue, or the ``allowed`` part of it (sorted internal ids), for users and for histories.

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.Interactions.from_arrays([1, 1, 2], [7, 8, 7])
    >>> ranker = ranker_of(vr.MostPopular().fit(log), allowed=np.array([1]))
    >>> items, scores = ranker.top(ranker.user_rows(np.array([0])), 2, LeftOut.of([np.array([], int)]))
    >>> items.tolist(), scores.tolist()
    ([[1, -1]], [[1.0, -inf]])
    """

    block: int  # rows that make a block of bounded memory

    def __init__(self, model: Scorer, allowed: Array | None) -> None:
        self.model = model
        self.allowed = allowed

    @abstractmethod
    def user_rows(self, users: Array) -> Floats:
        """What is ranked for users of the log: queries or scores."""

    @abstractmethod
    def history_rows(self, histories: Sequence[Array]) -> Floats:
        """What is ranked for people who touched these items."""

    @abstractmethod
    def fill(self, rows: Floats, left_out: LeftOut, scores: Floats, items: NDArray[np.int64]) -> None:
        """Write the best positions among the ranked items and their scores, -1 and -inf where none is left."""

    def top(self, rows: Floats, n: int, left_out: LeftOut, threads: int | None = None) -> Top:
        """Internal ids and scores of the ``n`` best items of each row, best first; equal scores: lower id first."""
        items, scores = np.full((len(rows), n), -1, np.int64), np.full((len(rows), n), -np.inf, np.float32)
        if self.allowed is not None:
            positions = np.full(self.model.train.n_items, -1, np.int64)
            positions[self.allowed] = np.arange(len(self.allowed))
            left_out = left_out.among(positions)
        with limited(threads):
            self.fill(rows, left_out, scores, items)
        if self.allowed is not None:
            items = np.where(items < 0, -1, self.allowed[items])
        return items, scores


class DotRanker(Ranker):
    """Ranks by dot products: rows are queries (B, d). The item table is packed once."""

    block = _USERS
    model: DotScorer

    def __init__(self, model: DotScorer, allowed: Array | None) -> None:
        super().__init__(model, allowed)
        table = model.item_table if allowed is None else model.item_table[allowed]
        _check_finite(table, f"the item table of {type(model).__name__}")
        self._panels = kernels.pack(table)
        self._n_items, self._dim = table.shape

    def user_rows(self, users: Array) -> Floats:
        return self.model.queries(users)

    def history_rows(self, histories: Sequence[Array]) -> Floats:
        return np.stack([self.model.query_of(items) for items in histories])

    def fill(self, rows: Floats, left_out: LeftOut, scores: Floats, items: NDArray[np.int64]) -> None:
        shape = kernels.rounded_up(len(rows), kernels.ROWS), kernels.rounded_up(self._dim, kernels.STEP)
        queries = np.zeros(shape, np.float32)
        queries[: len(rows), : self._dim] = rows
        _check_finite(queries, f"the user vectors of {type(self.model).__name__}")
        sides = left_out.lists, left_out.indptr, left_out.items
        kernels.top_by_dot(queries, self._panels, self._n_items, *sides, scores, items)


class ScoreRanker(Ranker):
    """Ranks by whole rows of scores (B, I), for models that are no dot product."""

    def __init__(self, model: Scorer, allowed: Array | None) -> None:
        super().__init__(model, allowed)
        self.block = max(1, _CELLS // max(1, model.train.n_items))

    def user_rows(self, users: Array) -> Floats:
        return self.model.scores(users, 0, self.model.train.n_items)

    def history_rows(self, histories: Sequence[Array]) -> Floats:
        return np.stack([self.model.history_scores(items) for items in histories])

    def fill(self, rows: Floats, left_out: LeftOut, scores: Floats, items: NDArray[np.int64]) -> None:
        tile = rows if self.allowed is None else rows[:, self.allowed]
        tile = np.array(tile, np.float32, order="C")  # a copy to strike out in
        if np.isnan(tile).any():
            raise TrainingError(f"{type(self.model).__name__} gives scores that are not numbers; fit it again.")
        kernels.top_of_tile(tile, left_out.lists, left_out.indptr, left_out.items, scores, items)


def ranker_of(model: Scorer, allowed: Array | None = None) -> Ranker:
    """The ranker of a model on the CPU, of the whole catalogue or of the allowed items (sorted)."""
    is_dot = isinstance(model, DotScorer) and model.has_vectors
    return DotRanker(model, allowed) if is_dot else ScoreRanker(model, allowed)  # type: ignore[arg-type]


def _check_finite(values: Array, name: str) -> None:
    if not np.isfinite(values).all():
        raise TrainingError(f"{name} holds values that are not finite; fit it again with a smaller learning rate.")
