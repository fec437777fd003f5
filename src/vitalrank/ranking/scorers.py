"""What ranking, evaluation and serving need of a model; :mod:`vitalrank.models` implements it."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.typing import Array
from vitalrank.errors import SettingError
from vitalrank.interactions import Interactions


class Scorer(ABC):
    """A model that scores every item for every user of its training log; users and items are internal ids."""

    device: str = "cpu"  # where its vectors lie

    @property
    def has_vectors(self) -> bool:
        """Whether its score is one dot product of vectors that it can give; see :class:`DotScorer`."""
        return False

    @property
    @abstractmethod
    def train(self) -> Interactions:
        """The log the model was fitted on."""

    @abstractmethod
    def scores(self, users: Array, start: int, stop: int) -> NDArray[np.float32]:
        """Scores of items ``start..stop-1`` for each user, as float32 ``(B, stop - start)``."""

    @abstractmethod
    def history_scores(self, items: Array) -> NDArray[np.float32]:
        """Scores of all items for someone who touched ``items`` and is not in the log, as ``(I,)``."""

    @abstractmethod
    def similarities(self, item: int) -> NDArray[np.float32]:
        """Similarity of each item to ``item``, as ``(I,)``."""

    @abstractmethod
    def contributions(self, items: Array, item: int) -> NDArray[np.float64]:
        """What each of the distinct ``items`` someone touched adds to their score of ``item``, as ``(len(items),)``.

        They come oldest first.
        """


class DotScorer(Scorer):
    """A model whose score is one dot product: ``score(u, i) = query(u) . item(i)``."""

    @property
    def has_vectors(self) -> bool:
        return True

    @abstractmethod
    def queries(self, users: Array) -> NDArray[np.float32]:
        """The query vector of each user, as float32 ``(B, d)``."""

    @abstractmethod
    def contributions(self, items: Array, item: int, query: NDArray[np.float32] | None = None) -> NDArray[np.float64]:
        """For the query that is solved from ``items``; with ``query``, for the multiple of it nearest to that."""

    @abstractmethod
    def query_of(self, items: Array) -> NDArray[np.float32]:
        """The query vector of someone who touched ``items`` and is not in the log, as ``(d,)``."""

    @property
    @abstractmethod
    def item_table(self) -> NDArray[np.float32]:
        """The item vectors, as C-contiguous float32 ``(I, d)``."""

    @abstractmethod
    def vectors_on(self, device: str) -> tuple[Callable[[Any], Any], Any]:
        """The vectors as tensors of a device: queries (B, d) of given users, and the item table (I, d)."""

    @abstractmethod
    def user_similarities(self, user: int) -> NDArray[np.float32]:
        """Cosine of each user's query to that of ``user``, as ``(U,)``."""


def check_scorer(model: object) -> None:
    """Refuse what cannot be measured, with the way out."""
    if isinstance(model, type):
        raise SettingError(f"model is the class {model.__name__}; give a fitted model: {model.__name__}().fit(train).")
    if isinstance(model, str | os.PathLike):
        raise SettingError(f"model is a path; load it first: evaluate(vr.load({str(model)!r}), test).")
    if not isinstance(model, Scorer):
        raise SettingError(f"model is of type {type(model).__name__}; give the model first: evaluate(model, test).")
