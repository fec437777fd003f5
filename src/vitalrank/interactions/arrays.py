"""The arrays of a log, and what follows from them: degrees, matrices, a fingerprint, places of original ids."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix

from vitalrank.interactions.encoding import Codes, Ids
from vitalrank.interactions.lookup import IdIndex, arrays_digest
from vitalrank.interactions.matrices import known_negatives
from vitalrank.interactions.ordering import starts
from vitalrank.interactions.stats import Statistics, summary_line, to_html


@dataclass(frozen=True, eq=False, repr=False)
class LogArrays:
    """The arrays of a log, users in compressed rows, each user's rows in time order."""

    indptr: NDArray[np.int64]  # (U + 1,)
    items: Codes  # (N,)
    times: NDArray[Any] | None  # (N,)
    user_ids: Ids  # (U,) sorted, but for those that `extend` appended
    item_ids: Ids  # (I,)
    repeats: int = 0  # rows of (user, item) pairs beyond one for each, dropped or merged
    skipped: int = 0  # unreadable lines left out, with on_bad="skip"
    weights: NDArray[np.float32] | None = None  # (N,) None: every row counts the same
    negative_log: LogArrays | None = None  # known negatives, on the same ids

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        line = summary_line(self.n_users, self.n_items, len(self), repeats=self.repeats, skipped=self.skipped)
        return line if self.weights is None else f"{line[:-1]}; weighted)"

    def _repr_html_(self) -> str:
        return to_html(repr(self), self.statistics)

    @property
    def n_users(self) -> int:
        return len(self.user_ids)

    @property
    def n_items(self) -> int:
        return len(self.item_ids)

    @cached_property
    def own_users(self) -> tuple[int, int]:
        """The first user whose rows may be read, and the one after the last: all, but in a rank's view of a log."""
        return 0, self.n_users

    @cached_property
    def users(self) -> Codes:
        """The user of each row, aligned with ``items``."""  # (N,)
        return np.repeat(np.arange(self.n_users, dtype=np.int32), np.diff(self.indptr))

    @cached_property
    def sorted_items(self) -> Codes:
        """The items of each user in ascending order, in rows as ``items``."""  # (N,)
        # Sorting works in place and would disturb the time order: scipy gets a copy, and small numbers to sort along.
        parts = np.zeros(len(self), np.int8), self.items.copy(), self.indptr
        matrix = csr_matrix(parts, shape=(self.n_users, self.n_items))
        matrix.sort_indices()
        return matrix.indices.astype(np.int32, copy=False)

    @cached_property
    def csr(self) -> csr_matrix:
        """Users by items, float32 ones, sorted indices."""
        parts = np.ones(len(self), np.float32), self.sorted_items, self.indptr
        matrix = csr_matrix(parts, shape=(self.n_users, self.n_items))
        matrix.has_sorted_indices = True
        return matrix

    @cached_property
    def negatives(self) -> csr_matrix:
        """Known negatives, users by items: the pairs given to `with_negatives` that are no rows of this log."""
        if self.negative_log is None:
            nothing = np.zeros(0, np.float32), np.zeros(0, np.int32), np.zeros(self.n_users + 1, np.int64)
            return csr_matrix(nothing, shape=(self.n_users, self.n_items))
        return known_negatives(self.negative_log.csr, self.csr)

    @cached_property
    def user_degree(self) -> NDArray[np.int64]:
        """Items per user."""  # (U,)
        return np.diff(self.indptr)

    @cached_property
    def item_degree(self) -> NDArray[np.int64]:
        """Users per item."""  # (I,)
        return np.bincount(self.items, minlength=self.n_items)

    @cached_property
    def statistics(self) -> Statistics:
        """Users, items, observations, sparsity, degree quantiles, Gini of item degree.

        Examples
        --------
        >>> import vitalrank as vr
        >>> vr.Interactions.from_arrays([1, 1, 2, 2], [1, 2, 1, 3]).statistics.sparsity
        0.33333333333333337
        """
        return Statistics.of(self.user_degree, self.item_degree, self.repeats, self.skipped)

    @cached_property
    def fingerprint(self) -> str:
        """Hex digest of ids and rows: equal logs have equal fingerprints, on any machine."""
        weights = () if self.weights is None else (self.weights,)
        known = () if self.negative_log is None else (self.negative_log.indptr, self.negative_log.items)
        return arrays_digest((self.user_ids, self.item_ids, self.indptr, self.items, self.times, *weights, *known))

    @cached_property
    def user_lookup(self) -> IdIndex:
        """Finds original user ids."""
        return IdIndex(self.user_ids, "user")

    @cached_property
    def item_lookup(self) -> IdIndex:
        """Finds original item ids."""
        return IdIndex(self.item_ids, "item")

    def user_index(self, ids: ArrayLike) -> NDArray[np.int64]:
        """Internal numbers of original user ids.

        Examples
        --------
        >>> import vitalrank as vr
        >>> vr.Interactions.from_arrays(["ann", "bob"], [7, 7]).user_index(["bob"])
        array([1])
        """
        return self.user_lookup.positions_of(ids)

    def item_index(self, ids: ArrayLike) -> NDArray[np.int64]:
        """Internal numbers of original item ids."""
        return self.item_lookup.positions_of(ids)

    def with_known(self, **derived: Any) -> Self:
        """Fill in properties that are computed when asked for, whose values are known already; the log itself."""
        self.__dict__.update(derived)
        return self

    def _rows(self, mask: NDArray[np.bool_]) -> Self:
        """The rows that the mask (N,) marks; all ids stay."""
        times = None if self.times is None else self.times[mask]
        weights = None if self.weights is None else self.weights[mask]
        indptr = starts(mask)[self.indptr]
        return replace(self, indptr=indptr, items=self.items[mask], times=times, weights=weights)
