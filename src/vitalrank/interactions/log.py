"""The interaction log in compressed rows: users and items numbered, each user's items in time order."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix, sparray, spmatrix

from vitalrank._util.display import quoted
from vitalrank.errors import DataError
from vitalrank.interactions.encoding import Codes, Ids, as_times, encode
from vitalrank.interactions.lookup import digest_of, positions_of
from vitalrank.interactions.ordering import first_of_pairs, renumber, row_order, starts
from vitalrank.interactions.splits import core_rows, held_out, rows_between
from vitalrank.interactions.stats import Statistics, summary_line, to_html

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False, repr=False)
class Interactions:
    """Interactions of users with items, one row per distinct pair.

    Row ``p`` belongs to the user whose range ``indptr[u]:indptr[u + 1]`` holds it; a user's rows are in time
    order, equal times in input order. Internal ids are positions in ``user_ids`` and ``item_ids``.

    Examples
    --------
    >>> log = Interactions.from_arrays(["ann", "bob", "ann"], [7, 7, 9], times=[20, 5, 10])
    >>> log
    Interactions(2 users, 2 items, 3 rows)
    >>> log.item_ids[log.items]
    array([9, 7, 7])
    """

    indptr: NDArray[np.int64]  # (U + 1,)
    items: Codes  # (N,)
    times: NDArray[Any] | None  # (N,)
    user_ids: Ids  # (U,) sorted
    item_ids: Ids  # (I,) sorted
    repeats: int = 0  # later rows of a (user, item) pair, dropped
    skipped: int = 0  # unreadable lines left out, with on_bad="skip"

    @classmethod
    def from_arrays(cls, users: ArrayLike, items: ArrayLike, times: ArrayLike | None = None) -> Interactions:
        """Number the ids, sort by user and time, keep the first of repeated pairs.

        Parameters
        ----------
        users, items
            Original ids, all ints or all strings on each side, one per interaction.
        times
            Numbers >= 0 or dates; None keeps the order given.

        Examples
        --------
        >>> Interactions.from_arrays([1, 1, 1], ["a", "b", "a"]).repeats
        1
        """
        user_ids, user = encode(users, "user")
        item_ids, item = encode(items, "item")
        when = None if times is None else as_times(times)
        lengths = {"users": len(user), "items": len(item)} | ({} if when is None else {"times": len(when)})
        if len(set(lengths.values())) > 1:
            found = ", ".join(f"{count:,} {name}" for name, count in lengths.items())
            raise DataError(f"{found}: give arrays of one length.")
        return cls.from_codes(user, item, when, user_ids, item_ids)

    @classmethod
    def from_frame(
        cls, frame: Any, user: str | int | None = None, item: str | int | None = None, time: str | int | None = None
    ) -> Interactions:
        """Take the columns of a data frame: pandas, polars, pyarrow, or anything else that Arrow reads.

        Parameters
        ----------
        frame
            A table with one row per interaction.
        user, item, time
            Column names; None looks for a well-known name such as ``user_id``. ``time=False`` ignores times.

        Examples
        --------
        >>> Interactions.from_frame({"user_id": [1, 2], "item_id": [5, 5], "rating": [4, 3]})
        Interactions(2 users, 1 item, 2 rows)
        """
        from vitalrank.interactions.frames import columns_of

        return cls.from_arrays(*columns_of(frame, user, item, time))

    @classmethod
    def from_csr(
        cls, matrix: sparray | spmatrix, user_ids: ArrayLike | None = None, item_ids: ArrayLike | None = None
    ) -> Interactions:
        """Take the nonzero entries of a SciPy sparse matrix of users by items; they have no times.

        Parameters
        ----------
        matrix
            Any sparse format. Rows and columns without an entry get no id of the log.
        user_ids, item_ids
            Original ids of the rows and the columns; None takes their numbers.

        Examples
        --------
        >>> from scipy.sparse import coo_matrix
        >>> log = Interactions.from_csr(coo_matrix([[0, 1, 1], [0, 0, 0], [1, 0, 0]]), item_ids=["a", "b", "c"])
        >>> log, log.user_ids
        (Interactions(2 users, 3 items, 3 rows), array([0, 2]))
        """
        from vitalrank.interactions.matrices import pairs_of

        return cls.from_arrays(*pairs_of(matrix, user_ids, item_ids))

    @classmethod
    def from_codes(
        cls, users: Codes, items: Codes, times: NDArray[Any] | None, user_ids: Ids, item_ids: Ids, skipped: int = 0
    ) -> Interactions:
        """Build from internal ids, any order; every id must occur. The arrays may be stored without a copy."""
        if not len(users):
            raise DataError("The log has no rows; give at least one interaction.")
        indptr = starts(np.bincount(users, minlength=len(user_ids)))
        order = row_order(users, times)
        if order is not None:
            items, times = items.take(order), None if times is None else times.take(order)
        first = first_of_pairs(indptr, items, len(item_ids))
        if first is None:
            return cls(indptr, items, times, user_ids, item_ids, 0, skipped)
        indptr = starts(first)[indptr]
        repeats = len(items) - int(indptr[-1])
        logger.info("%d repeated (user, item) rows dropped, the first of each pair kept", repeats)
        times = None if times is None else times[first]
        return cls(indptr, items[first], times, user_ids, item_ids, repeats, skipped)

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        return summary_line(self.n_users, self.n_items, len(self), repeats=self.repeats, skipped=self.skipped)

    def _repr_html_(self) -> str:
        return to_html(repr(self), self.statistics)

    @property
    def n_users(self) -> int:
        return len(self.user_ids)

    @property
    def n_items(self) -> int:
        return len(self.item_ids)

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
        >>> Interactions.from_arrays([1, 1, 2, 2], [1, 2, 1, 3]).statistics.sparsity
        0.33333333333333337
        """
        return Statistics.of(self.user_degree, self.item_degree, self.repeats, self.skipped)

    @cached_property
    def fingerprint(self) -> str:
        """Hex digest of ids and rows: equal logs have equal fingerprints, on any machine."""
        return digest_of((self.user_ids, self.item_ids, self.indptr, self.items, self.times))

    def user_index(self, ids: ArrayLike) -> NDArray[np.int64]:
        """Internal numbers of original user ids.

        Examples
        --------
        >>> Interactions.from_arrays(["ann", "bob"], [7, 7]).user_index(["bob"])
        array([1])
        """
        return positions_of(self.user_ids, ids, "user")

    def item_index(self, ids: ArrayLike) -> NDArray[np.int64]:
        """Internal numbers of original item ids."""
        return positions_of(self.item_ids, ids, "item")

    def k_core(self, user: int = 0, item: int = 0) -> Interactions:
        """Drop users and items with too few rows, again and again until none is left; ids without rows go too.

        Parameters
        ----------
        user, item
            The least number of rows a user or an item must keep; 0 asks for nothing on that side.

        Examples
        --------
        >>> Interactions.from_arrays([1, 1, 2, 2, 3], [1, 2, 1, 2, 9]).k_core(user=2, item=2)
        Interactions(2 users, 2 items, 4 rows)
        """
        core = core_rows(self.users, self.items, user, item)
        if core is not None and not len(core):
            raise DataError(f"k_core(user={user}, item={item}) leaves nothing of {len(self):,} rows; ask for less.")
        users, items = (self.users, self.items) if core is None else (self.users[core], self.items[core])
        times = self.times if core is None or self.times is None else self.times[core]
        user_ids, users = renumber(self.user_ids, users)
        item_ids, items = renumber(self.item_ids, items)
        indptr = starts(np.bincount(users, minlength=len(user_ids)))
        return replace(self, indptr=indptr, items=items, times=times, user_ids=user_ids, item_ids=item_ids)

    def split_last(self, fraction: float, valid: float | None = None) -> tuple[Interactions, ...]:
        """Hold out the last interactions of every user; all parts share the ids.

        The test part takes each user's last ``ceil(fraction * n)`` rows, the validation part the last
        ``floor(valid * rest)`` before them, but at least one; a user always keeps one training row.

        Parameters
        ----------
        fraction
            Share of each user's rows for the test part, from 0 to below 1.
        valid
            Share of the remaining rows for a validation part; None makes two parts, not three.

        Returns
        -------
        tuple of Interactions
            ``(train, test)`` or ``(train, valid, test)``.

        Examples
        --------
        >>> log = Interactions.from_arrays([1] * 10, range(10))
        >>> [len(part) for part in log.split_last(0.2, valid=0.1)]
        [7, 1, 2]
        """
        degree = self.user_degree
        if not degree.all():
            lost = self.user_ids.tolist()[int(np.argmin(degree))]
            raise DataError(
                f"User {quoted(lost)} has no rows, so none for training; drop such users first: k_core(user=1)."
            )
        test, held = held_out(degree, fraction, valid)
        train_end, valid_end = self.indptr[1:] - test - held, self.indptr[1:] - test
        parts = [self._part(self.indptr[:-1], train_end)]
        if valid is not None:
            parts.append(self._part(train_end, valid_end))
        parts.append(self._part(valid_end, self.indptr[1:]))
        return tuple(parts)

    def _part(self, begin: NDArray[np.int64], end: NDArray[np.int64]) -> Interactions:
        """Rows ``begin[u]:end[u]`` of every user."""
        indptr, mask = starts(end - begin), rows_between(begin, end, len(self))
        times = None if self.times is None else self.times[mask]
        return replace(self, indptr=indptr, items=self.items[mask], times=times)
