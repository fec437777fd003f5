"""Neighbours among items: what was touched by the same users."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_matrix, csr_matrix

from vitalrank._util.checks import to_float, to_int
from vitalrank.errors import SettingError
from vitalrank.interactions import Interactions, check_rows
from vitalrank.kernels.cpu.ranking.neighbours import nearest_by_cosine
from vitalrank.models.base import Array, Recommender, check_finite_table


class ItemKNN(Recommender):
    r"""Score of an item: how alike it is to the user's items, over its nearest neighbours.

    .. math::

        s(u, i) = \sum_{j \in I_u \cap N_k(i)} c_{ji}, \qquad
        c_{ji} = \frac{|U_j \cap U_i|}{\sqrt{|U_j|\,|U_i|} + \lambda}

    ``N_k(i)`` are the ``k`` items most like the predicted item ``i`` (equal ones: lower internal id first),
    without ``i`` itself.

    Parameters
    ----------
    neighbours
        ``k``.
    shrinkage
        ``lambda``: pulls down similarities that rest on few users.

    References
    ----------
    Deshpande and Karypis, "Item-based top-N recommendation algorithms", TOIS 2004.

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.Interactions.from_arrays([1, 1, 2, 2, 3], ["x", "y", "x", "y", "x"])
    >>> ids, scores = vr.ItemKNN(neighbours=10).fit(log).recommend(3, n=1)
    >>> ids.tolist(), round(float(scores[0]), 2)
    (['y'], 0.82)
    """

    def __init__(self, neighbours: int = 100, shrinkage: float = 0.0) -> None:
        self.neighbours = to_int("neighbours", neighbours)
        self.shrinkage = to_float("shrinkage", shrinkage, least=0)
        self._weights: csc_matrix | None = None

    @property
    def weights(self) -> csc_matrix:
        """Similarities ``c_ji``: column ``i`` holds the neighbours that predict item ``i``."""  # (I, I) sparse
        if self._weights is None:
            raise SettingError("ItemKNN is not fitted yet: call fit(train) first.")
        return self._weights

    def fit(self, train: Interactions) -> Self:
        """Find each item's neighbours."""
        seen, columns = train.csr, train.csr.tocsc()
        shape = train.n_items, min(self.neighbours, train.n_items)
        scores, nearest = np.empty(shape, np.float32), np.empty(shape, np.int32)
        nearest_by_cosine(columns.indptr, columns.indices, seen.indptr, seen.indices, self.shrinkage, scores, nearest)
        order = np.argsort(nearest, axis=1)  # sparse columns want their rows in order
        scores, nearest = np.take_along_axis(scores, order, axis=1), np.take_along_axis(nearest, order, axis=1)
        found = nearest >= 0
        self.train = train
        self._set_weights(scores[found], nearest[found], np.concatenate([[0], np.cumsum(found.sum(axis=1))]))
        return self

    def _set_weights(self, values: Array, indices: Array, indptr: Array) -> None:
        self._weights = csc_matrix((values, indices, indptr), shape=(self.train.n_items,) * 2)
        self._by_row = self._weights.tocsr()  # a user's score is a sum of rows

    def scores(self, users: Array, start: int, stop: int) -> NDArray[np.float32]:
        weights = self._by_row if stop - start == self.train.n_items else self._by_row[:, start:stop]
        block: NDArray[np.float32] = (self.train.csr[users] @ weights).toarray()
        return block

    def history_scores(self, items: Array) -> NDArray[np.float32]:
        once = np.unique(items)
        row = csr_matrix((np.ones(len(once), np.float32), once, [0, len(once)]), shape=(1, self.train.n_items))
        scores: NDArray[np.float32] = (row @ self._by_row).toarray()[0]
        return scores

    def similarities(self, item: int) -> NDArray[np.float32]:
        column: NDArray[np.float32] = self.weights[:, [item]].toarray()[:, 0]
        return column

    def settings(self) -> dict[str, Any]:
        return {"neighbours": self.neighbours, "shrinkage": self.shrinkage}

    def tensors(self) -> dict[str, Array]:
        weights = self.weights
        return {"indptr": weights.indptr, "indices": weights.indices, "values": weights.data}

    def restore(self, tensors: Mapping[str, Array], record: Mapping[str, Any]) -> None:
        values, indices, indptr = tensors["values"], tensors["indices"], tensors["indptr"]
        check_rows(indptr, indices, self.train.n_items, self.train.n_items)
        check_finite_table("values", values, indices.shape)
        self._set_weights(values, indices, indptr)
        if not self.weights.has_canonical_format:
            raise ValueError("the neighbours of an item are not in order, or repeat")
