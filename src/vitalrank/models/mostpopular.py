"""The same list for everyone: the items that most users touched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.typing import Array
from vitalrank.interactions import Interactions, check_log
from vitalrank.models.base import Recommender


class MostPopular(Recommender):
    """Score of an item: the number of users who touched it in the training log. The floor any model must pass.

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.Interactions.from_arrays(["a", "a", "b"], ["x", "y", "x"])
    >>> ids, scores = vr.MostPopular().fit(log).recommend("b", n=1)
    >>> ids.tolist(), scores.tolist()
    (['y'], [1.0])
    """

    reads_weights: ClassVar[bool] = False

    def fit(self, train: Interactions) -> Self:
        """Count the users of each item."""
        check_log("train", train)
        self.train = train
        return self

    def scores(self, users: Array, start: int, stop: int) -> NDArray[np.float32]:
        degree = self.train.item_degree[start:stop].astype(np.float32)
        return np.tile(degree, (len(users), 1))  # (B, stop - start)

    def history_scores(self, items: Array) -> NDArray[np.float32]:
        return self.train.item_degree.astype(np.float32)

    def similarities(self, item: int) -> NDArray[np.float32]:
        """Minus the distance in popularity, the only thing this model knows of an item."""
        degree = self.train.item_degree.astype(np.float32)
        closeness: NDArray[np.float32] = -np.abs(degree - degree[item])
        return closeness

    def settings(self) -> dict[str, Any]:
        return {}

    def tensors(self) -> dict[str, Array]:
        return {}  # the training log, which every model keeps, says it all

    def restore(self, tensors: Mapping[str, Array], record: Mapping[str, Any]) -> None:
        pass
