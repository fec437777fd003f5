"""The log: who touched what, when; users and items numbered, each user's items in time order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix

from vitalrank.errors import DataError


@dataclass(frozen=True, eq=False)
class Interactions:
    """Interactions of users with items, one row per distinct pair.

    Row ``p`` belongs to the user whose range ``indptr[u]:indptr[u + 1]`` holds it; a user's rows are in time
    order, equal times in input order. Internal ids are positions in ``user_ids`` and ``item_ids``.
    """

    indptr: NDArray[np.int64]  # (U + 1,)
    items: NDArray[np.int32]  # (N,)
    times: NDArray[Any] | None  # (N,)
    user_ids: NDArray[Any]  # (U,) sorted
    item_ids: NDArray[Any]  # (I,) sorted

    @classmethod
    def from_arrays(cls, users: ArrayLike, items: ArrayLike, times: ArrayLike | None = None) -> Interactions:
        """Number the ids, sort by user and time, keep the first of repeated pairs."""
        user_ids, user = np.unique(np.asarray(users), return_inverse=True)
        item_ids, item = np.unique(np.asarray(items), return_inverse=True)
        if len(user) != len(item):
            raise DataError(f"{len(user)} users but {len(item)} items: give arrays of one length.")
        when = np.zeros(len(user), np.int64) if times is None else np.asarray(times)
        order = np.lexsort((when, user))
        pair = user[order].astype(np.int64) * len(item_ids) + item[order]
        first = np.sort(np.unique(pair, return_index=True)[1])
        order = order[first]
        counts = np.bincount(user[order], minlength=len(user_ids))
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return cls(indptr, item[order].astype(np.int32), None if times is None else when[order], user_ids, item_ids)

    def __len__(self) -> int:
        return len(self.items)

    @property
    def n_users(self) -> int:
        return len(self.user_ids)

    @property
    def n_items(self) -> int:
        return len(self.item_ids)

    @cached_property
    def users(self) -> NDArray[np.int32]:
        """The user of each row, aligned with ``items``."""  # (N,)
        return np.repeat(np.arange(self.n_users, dtype=np.int32), np.diff(self.indptr))

    @cached_property
    def csr(self) -> csr_matrix:
        """Users by items, float32 ones, sorted indices."""
        matrix = csr_matrix(
            (np.ones(len(self), np.float32), self.items.copy(), self.indptr), shape=(self.n_users, self.n_items)
        )
        matrix.sort_indices()
        return matrix

    @cached_property
    def item_degree(self) -> NDArray[np.int64]:
        """How many users touched each item."""  # (I,)
        return np.bincount(self.items, minlength=self.n_items)

    def user_index(self, ids: Sequence[Any]) -> NDArray[np.int64]:
        """Internal numbers of original user ids."""
        raise NotImplementedError

    def item_index(self, ids: Sequence[Any]) -> NDArray[np.int64]:
        """Internal numbers of original item ids."""
        raise NotImplementedError
