"""What models of one weight per pair of items share: the score is the sum of the weights of the user's items."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_matrix, csr_matrix

from vitalrank._util.checks import to_float
from vitalrank._util.typing import Array
from vitalrank.errors import SettingError
from vitalrank.interactions import Interactions, check_rows
from vitalrank.models.base import Recommender
from vitalrank.models.saved import check_finite_table


class ItemWeightModel(Recommender):
    """``s(u, i) = sum_j decay^(a_uj) W_ji`` over the user's items ``j``, with sparse or dense ``W``.

    ``a_uj`` is the number of the user's items after ``j``: with ``decay`` below 1 old items say less. A subclass gives
    ``fit``, which calls ``_set_sparse`` or ``_set_dense``, and ``settings``.
    """

    scoring_settings: ClassVar[frozenset[str]] = frozenset({"decay"})
    reads_weights: ClassVar[bool] = False
    _weights: Any = None
    decay: float = 1.0

    @property
    def weights(self) -> Any:
        """``W`` (I, I), a SciPy csc_matrix or a NumPy array: column ``i`` holds the weights that predict item ``i``."""
        if self._weights is None:
            raise SettingError(f"{type(self).__name__} is not fitted yet: call fit(train) first.")
        return self._weights

    def _set_sparse(self, values: Array, indices: Array, indptr: Array) -> None:
        """``W`` by its columns."""
        self._weights = csc_matrix((values, indices, indptr), shape=(self.train.n_items,) * 2)
        self._by_row: Any = self._weights.tocsr()  # a user's score is a sum of rows
        self._histories = self._history_rows(self.train)

    def _set_dense(self, weights: NDArray[np.float32]) -> None:
        self._weights = self._by_row = weights
        self._histories = self._history_rows(self.train)

    def _history_rows(self, train: Interactions) -> csr_matrix:
        """The items of each user (U, I), weighted by their age."""
        if self.decay == 1.0:
            return train.csr
        ages = train.indptr[train.users + 1] - 1 - np.arange(len(train))  # rows of a user are in order of time
        # Sorted in place: the log's own items must stay in order of time.
        parts = self._by_age(ages), train.items.copy(), train.indptr
        rows = csr_matrix(parts, shape=(train.n_users, train.n_items))
        rows.sort_indices()
        return rows

    def _by_age(self, ages: Array) -> NDArray[np.float32]:
        """``decay^a``; one too small for float32 is 0."""
        weights: NDArray[np.float32] = np.power(self.decay, ages.astype(np.float64)).astype(np.float32)
        return weights

    def _in_history(self, items: Array) -> tuple[Array, NDArray[np.float32]]:
        """The distinct items of a history that is oldest first, sorted, and the weight of each by its age."""
        once, first = np.unique(items, return_index=True)
        places = np.argsort(np.argsort(first))  # a repeated item counts once, where it was first, as in a log
        return once, self._by_age(len(once) - 1 - places)

    def scores(self, users: Array, start: int, stop: int) -> NDArray[np.float32]:
        weights = self._by_row if stop - start == self.train.n_items else self._by_row[:, start:stop]
        return _dense(self._histories[users] @ weights)

    def history_scores(self, items: Array) -> NDArray[np.float32]:
        once, weights = self._in_history(items)
        row = csr_matrix((weights, once, [0, len(once)]), shape=(1, self.train.n_items))
        scores: NDArray[np.float32] = _dense(row @ self._by_row)[0]
        return scores

    def similarities(self, item: int) -> NDArray[np.float32]:
        column: NDArray[np.float32] = _dense(self.weights[:, [item]])[:, 0]
        return column

    def contributions(self, items: Array, item: int) -> NDArray[np.float64]:
        """The terms of the score of ``item``, of distinct items that are oldest first."""
        ages = len(items) - 1 - np.arange(len(items))
        return (self._by_age(ages) * self.similarities(item)[items]).astype(np.float64)

    def tensors(self) -> dict[str, Array]:
        weights = self.weights
        if isinstance(weights, np.ndarray):
            return {"weights": weights}
        return {"indptr": weights.indptr, "indices": weights.indices, "values": weights.data}

    def restore_sparse(self, tensors: Mapping[str, Array]) -> None:
        """Take back sparse weights that ``tensors`` gave; ValueError if they are none."""
        values, indices, indptr = tensors["values"], tensors["indices"], tensors["indptr"]
        check_rows(indptr, indices, self.train.n_items, self.train.n_items)
        check_finite_table("values", values, indices.shape)
        self._set_sparse(values, indices, indptr)
        if not self.weights.has_canonical_format:
            raise ValueError("the neighbours of an item are not in order, or repeat")

    def restore_dense(self, tensors: Mapping[str, Array]) -> None:
        """Take back dense weights that ``tensors`` gave; ValueError if they are none."""
        check_finite_table("weights", tensors["weights"], (self.train.n_items,) * 2)
        self._set_dense(tensors["weights"])


def to_decay(decay: float) -> float:
    """A decay that was checked: above 0, at most 1.

    Examples
    --------
    >>> to_decay(1)
    1.0
    """
    value = to_float("decay", decay)
    if not 0 < value <= 1:
        raise SettingError(f"decay is {decay!r}; it must be above 0 and at most 1, which counts all items the same.")
    return value


def sparse_columns(rows: NDArray[np.int32], values: NDArray[np.float32]) -> tuple[Array, Array, Array]:
    """Values, rows and bounds of sparse columns, from ``(I, k)`` rows of each column; -1 stands for none.

    Examples
    --------
    >>> sparse_columns(np.array([[2, 1], [-1, 0]]), np.array([[0.5, 0.7], [0.0, 0.7]]))
    (array([0.7, 0.5, 0.7]), array([1, 2, 0]), array([0, 2, 3]))
    """
    order = np.argsort(rows, axis=1)  # sparse columns want their rows in order
    values, rows = np.take_along_axis(values, order, axis=1), np.take_along_axis(rows, order, axis=1)
    found = rows >= 0
    return values[found], rows[found], np.concatenate([[0], np.cumsum(found.sum(axis=1))])


def _dense(block: Array | csc_matrix | csr_matrix) -> NDArray[np.float32]:
    found: NDArray[np.float32] = block if isinstance(block, np.ndarray) else block.toarray()
    return found
