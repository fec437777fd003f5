"""The base class of models whose score is one dot product."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vitalrank import serving
from vitalrank._util.typing import Array
from vitalrank.models.base import Recommender
from vitalrank.ranking.scorers import DotScorer

if TYPE_CHECKING:
    import torch


class DotRecommender(Recommender, DotScorer):
    """A model that scores with one dot product: ``score(u, i) = query(u) . item(i)``.

    A subclass gives ``queries`` and ``item_table`` and inherits the rest. A bias is one more column: its value in
    the item's row, the constant 1 at the end of every query.
    """

    constant_columns: int = 0  # trailing query coordinates that are 1 for every user
    normalize: bool = False  # whether scores are cosines: queries and items have length 1

    def vectors_on(self, device: str) -> tuple[Callable[[Any], Any], Any]:
        """The vectors as tensors of a device: queries (B, d) of given users, and the item table (I, d)."""
        import torch

        def queries(users: torch.Tensor) -> torch.Tensor:
            return torch.from_numpy(np.ascontiguousarray(self.queries(users.cpu().numpy()))).to(device)

        return queries, torch.from_numpy(np.ascontiguousarray(self.item_table)).to(device)

    def scores(self, users: Array, start: int, stop: int) -> NDArray[np.float32]:
        scores: NDArray[np.float32] = self.queries(users) @ self.item_table[start:stop].T
        return scores

    def history_scores(self, items: Array) -> NDArray[np.float32]:
        scores: NDArray[np.float32] = self.item_table @ self.query_of(items)
        return scores

    def query_of(self, items: Array) -> NDArray[np.float32]:
        """The query vector of someone who touched ``items``: see :func:`vitalrank.serving.solve_query`."""
        return self.unit(serving.solve_query(self.item_table, items, constant_columns=self.constant_columns))

    def unit(self, query: NDArray[np.float32]) -> NDArray[np.float32]:
        """A query at length 1 where scores are cosines."""
        length = np.float32(np.sqrt(query @ query)) if self.normalize else np.float32(0)
        return query / length if length > 0 else query

    def shares(self, items: Array) -> NDArray[np.float64]:
        """What each of the distinct ``items`` adds to the query of someone who touched them.

        One row for each, without the constant columns: see :func:`vitalrank.serving.vectors.query_shares`.
        """
        table, free = self.item_table, self._free
        query = serving.solve_query(table, items, constant_columns=self.constant_columns)
        return serving.query_shares(table[:, :free], items, query[:free], table[:, free:].sum(axis=1))

    def contributions(self, items: Array, item: int, query: NDArray[np.float32] | None = None) -> NDArray[np.float64]:
        shares = self.shares(items)
        solved = shares.sum(axis=0)
        square = float(solved @ solved)
        if query is not None:
            scale = max(0.0, float(query[: self._free] @ solved)) / square if square else 0.0
        else:
            scale = square**-0.5 if self.normalize and square else 1.0
        parts: NDArray[np.float64] = shares @ self.item_table[item, : self._free].astype(np.float64) * scale
        return parts

    def similarities(self, item: int) -> NDArray[np.float32]:
        return serving.cosines(self.item_table[:, : self._free], self.item_table[item, : self._free])

    def similar_users(self, user: int | str, n: int = 10) -> tuple[Array, Array]:
        """The users most like one user: see :func:`vitalrank.serving.similar_users`."""
        return serving.similar_users(self, user, n)

    def user_similarities(self, user: int) -> NDArray[np.float32]:
        """Cosine of each user's query to that of ``user``, as ``(U,)``."""
        queries = self.queries(np.arange(self.train.n_users))[:, : self._free]
        return serving.cosines(queries, queries[user])

    @property
    def _free(self) -> int:
        return int(self.item_table.shape[1]) - self.constant_columns
