"""Neighbours among items: what was touched by the same users."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_matrix

from vitalrank._util.checks import check_choice, to_float, to_int
from vitalrank._util.typing import Array, Values
from vitalrank.checkpoint import Saved
from vitalrank.errors import SettingError
from vitalrank.interactions import Interactions, check_log
from vitalrank.kernels.cpu.ranking.neighbours import nearest_neighbours
from vitalrank.models.item_weights import ItemWeightModel, sparse_columns, to_decay


class ItemKNN(ItemWeightModel):
    r"""Score of an item: how alike it is to the user's items, over its nearest neighbours.

    .. math::

        s(u, i) = \sum_{j \in I_u \cap N_k(i)} \delta^{a_{uj}} c_{ji}, \qquad
        c_{ji} = \frac{\sum_{v \in U_j \cap U_i} w_v}{n_j n_i + \lambda}

    ``N_k(i)`` are the ``k`` items most like the predicted item ``i`` (equal ones: lower internal id first),
    without ``i`` itself. ``a_uj`` is the number of the user's items after ``j``: with ``delta`` below 1 old items say
    less. The similarity gives the weight ``w`` of a user and the norm ``n`` of an item:

    - ``"cosine"``: ``w = 1`` and ``n_i = sqrt(|U_i|)``.
    - ``"tfidf"``: ``w_v = ln(1 + I / |I_v|)^2``, so that users with many items say less, and
      ``n_i = sqrt(sum_{v in U_i} w_v)``.
    - ``"bm25"``: the same ``w``, and ``n_i = (1 + k1 l_i) / (1 + k1)`` with ``l_i = 1 - b + b |U_i| / mean |U|``.

    Parameters
    ----------
    neighbours
        ``k``.
    shrinkage
        ``lambda``: shrinks similarities that rest on few users.
    similarity
        ``"cosine"``, ``"tfidf"`` or ``"bm25"``.
    k1, b
        Of ``"bm25"`` alone: how soon the norm grows with the number of users, and how much of it depends on that
        number at all (0: nothing, so that popular items are the nearest; 1: everything).

    neighbours_of
        Whose ``k`` nearest count: those of the ``"predicted"`` item, as above, or those of each item of the user's
        ``"history"`` (``i in N_k(j)``), which favours popular items.
    decay
        ``delta``: the weight of an item falls by this factor with each later one of the user; 1: all count the same.

    References
    ----------
    Deshpande and Karypis, "Item-based top-N recommendation algorithms", TOIS 2004. Robertson and Zaragoza, "The
    probabilistic relevance framework: BM25 and beyond", 2009.

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.Interactions.from_arrays([1, 1, 2, 2, 3], ["x", "y", "x", "y", "x"])
    >>> ids, scores = vr.ItemKNN(neighbours=10, similarity="cosine").fit(log).recommend(3, n=1)
    >>> ids.tolist(), round(float(scores[0]), 2)
    (['y'], 0.82)
    """

    def __init__(
        self,
        neighbours: int = 100,
        shrinkage: float = 0.0,
        similarity: str = "bm25",
        k1: float = 1.2,
        b: float = 0.3,
        neighbours_of: str = "predicted",
        decay: float = 1.0,
    ) -> None:
        check_choice("similarity", similarity, SIMILARITIES)
        check_choice("neighbours_of", neighbours_of, ("predicted", "history"))
        self.neighbours = to_int("neighbours", neighbours)
        self.shrinkage = to_float("shrinkage", shrinkage, least=0)
        self.similarity = similarity
        self.neighbours_of = neighbours_of
        self.decay = to_decay(decay)
        self.k1 = to_float("k1", k1, least=0)
        self.b = to_float("b", b, least=0)
        if self.b > 1:
            raise SettingError(f"b is {b!r}; it must be a number from 0 to 1.")

    def fit(self, train: Interactions) -> Self:
        """Find each item's neighbours."""
        check_log("train", train)
        seen, columns = train.csr, train.csr.tocsc()
        user_weight, squared_norm = SIMILARITIES[self.similarity](self, train)
        shape = train.n_items, min(self.neighbours, train.n_items)
        scores, nearest = np.empty(shape, np.float32), np.empty(shape, np.int32)
        nearest_neighbours(
            columns.indptr, columns.indices, seen.indptr, seen.indices, user_weight, squared_norm, self.shrinkage,
            scores, nearest,
        )  # fmt: skip
        self.train = train
        values, rows, bounds = sparse_columns(nearest, scores)
        if self.neighbours_of == "history":  # the similarity is symmetric: row j, not column i, holds the k nearest
            kept = csr_matrix((values, rows, bounds), shape=(train.n_items,) * 2).tocsc()
            values, rows, bounds = kept.data, kept.indices, kept.indptr
        self._set_sparse(values, rows, bounds)
        return self

    def settings(self) -> dict[str, Any]:
        names = ("neighbours", "shrinkage", "similarity", "k1", "b", "neighbours_of", "decay")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_saved(cls, saved: Saved, path: str | os.PathLike[str]) -> Self:
        settings = saved.meta.get("settings")
        if isinstance(settings, dict):
            settings.setdefault("similarity", "cosine")  # version 0.1 had no other
        return super().from_saved(saved, path)

    def restore(self, tensors: Mapping[str, Array], record: Mapping[str, Any]) -> None:
        self.restore_sparse(tensors)


def _cosine(model: ItemKNN, train: Interactions) -> tuple[Values, Values]:
    return np.ones(train.n_users), train.item_degree.astype(np.float64)


def _tfidf(model: ItemKNN, train: Interactions) -> tuple[Values, Values]:
    weight = _rarity(train)
    return weight, train.csr.T.astype(np.float64) @ weight


def _bm25(model: ItemKNN, train: Interactions) -> tuple[Values, Values]:
    length = 1 - model.b + model.b * train.item_degree / train.item_degree.mean()
    norm: Values = (1 + model.k1 * length) / (1 + model.k1)
    return _rarity(train), norm**2


def _rarity(train: Interactions) -> Values:
    """``ln(1 + I / |I_v|)^2`` of each user; 1 item for those without any, who are in no sum."""
    weight: Values = np.log1p(train.n_items / np.maximum(train.user_degree, 1)) ** 2
    return weight


# By name: the weight of each user (U,) above 0, and the squared norm of each item (I,).
SIMILARITIES: Mapping[str, Callable[[ItemKNN, Interactions], tuple[Values, Values]]] = {
    "cosine": _cosine,
    "tfidf": _tfidf,
    "bm25": _bm25,
}
