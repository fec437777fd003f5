"""The log: who touched what, when; users and items numbered, each user's items in time order."""

from __future__ import annotations

import hashlib
import html
import logging
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix

from vitalrank.errors import DataError, UnknownIdError
from vitalrank.interactions.encoding import Codes, Ids, as_times, encode
from vitalrank.interactions.ordering import first_of_pairs, renumber, row_order, starts
from vitalrank.interactions.splits import core_rows, held_out
from vitalrank.interactions.stats import Statistics

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
    def from_codes(
        cls, users: Codes, items: Codes, times: NDArray[Any] | None, user_ids: Ids, item_ids: Ids, skipped: int = 0
    ) -> Interactions:
        """Build from internal ids, any order; every id must occur. The arrays may be kept."""
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
        notes = [f"{count:,} {name}" for name, count in (("repeats", self.repeats), ("skipped", self.skipped)) if count]
        dropped = f"; dropped: {', '.join(notes)}" if notes else ""
        counts = (_count(self.n_users, "user"), _count(self.n_items, "item"), _count(len(self), "row"))
        return f"Interactions({', '.join(counts)}{dropped})"

    def _repr_html_(self) -> str:
        cells = "".join(
            f"<tr><th style='text-align:left'>{html.escape(label)}</th><td>{html.escape(value)}</td></tr>"
            for label, value in self.statistics.rows()
        )
        return f"<table><caption>{html.escape(repr(self))}</caption>{cells}</table>"

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
        """How many items each user touched."""  # (U,)
        return np.diff(self.indptr)

    @cached_property
    def item_degree(self) -> NDArray[np.int64]:
        """How many users touched each item."""  # (I,)
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
        digest = hashlib.blake2b(digest_size=16)
        for array in (self.user_ids, self.item_ids, self.indptr, self.items, self.times):
            digest.update(_bytes_of(array))
        return digest.hexdigest()

    def user_index(self, ids: ArrayLike) -> NDArray[np.int64]:
        """Internal numbers of original user ids.

        Examples
        --------
        >>> Interactions.from_arrays(["ann", "bob"], [7, 7]).user_index(["bob"])
        array([1])
        """
        return _positions(self.user_ids, ids, "user")

    def item_index(self, ids: ArrayLike) -> NDArray[np.int64]:
        """Internal numbers of original item ids."""
        return _positions(self.item_ids, ids, "item")

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
        kept = core_rows(self.users, self.items, user, item)
        if kept is not None and not len(kept):
            raise DataError(f"k_core(user={user}, item={item}) leaves nothing of {len(self):,} rows; ask for less.")
        users, items = (self.users, self.items) if kept is None else (self.users[kept], self.items[kept])
        times = self.times if kept is None or self.times is None else self.times[kept]
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
            raise DataError(f"User {lost!r} has no rows, so none for training; drop such users first: k_core(user=1).")
        test, held = held_out(degree, fraction, valid)
        train_end, valid_end = self.indptr[1:] - test - held, self.indptr[1:] - test
        parts = [self._part(self.indptr[:-1], train_end)]
        if valid is not None:
            parts.append(self._part(train_end, valid_end))
        parts.append(self._part(valid_end, self.indptr[1:]))
        return tuple(parts)

    def _part(self, begin: NDArray[np.int64], end: NDArray[np.int64]) -> Interactions:
        """Rows ``begin[u]:end[u]`` of every user."""
        indptr = starts(end - begin)
        # +1 where a user's range begins, -1 where it ends: the running sum is the mask.
        marks = np.zeros(len(self) + 1, np.int8)
        np.add.at(marks, begin, 1)
        np.add.at(marks, end, -1)
        mask = np.cumsum(marks[:-1], dtype=np.int8).view(np.bool_)
        times = None if self.times is None else self.times[mask]
        return replace(self, indptr=indptr, items=self.items[mask], times=times)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _positions(ids: Ids, wanted: ArrayLike, side: str) -> NDArray[np.int64]:
    """Where each wanted id lies among the sorted ids; ints never match strings."""
    values = np.array(wanted, dtype=object, ndmin=1)
    kind: tuple[type, ...] = (str,) if ids.dtype == object else (int, np.integer)
    for value in values:
        if not isinstance(value, kind) or isinstance(value, bool):
            raise UnknownIdError(f"No {side} {value!r}: the {side} ids of this log are {kind[0].__name__}s.")
    try:
        values = values.astype(ids.dtype)
    except OverflowError:
        raise UnknownIdError(f"No {side} {max(values, key=abs)!r}: the {side} ids of this log fit 64 bits.") from None
    positions = np.searchsorted(ids, values)
    found = ids[np.minimum(positions, len(ids) - 1)] == values
    if not found.all():
        missing = values.tolist()[int(np.argmin(found))]
        raise UnknownIdError(f"No {side} {missing!r} in this log of {len(ids):,} {side}s; give one of them.")
    return positions


def _bytes_of(array: NDArray[Any] | None) -> bytes:
    """Type and content, the same on every machine."""
    if array is None:
        return b"none"
    head = f"{array.dtype.str}{len(array)}".encode()
    if array.dtype != object:
        return head + np.ascontiguousarray(array).tobytes()
    offsets, text = pa.array(array, pa.large_string()).buffers()[1:]
    return b"".join([head, *(buffer.to_pybytes() for buffer in (offsets, text) if buffer is not None)])
