"""The interaction log in compressed rows: users and items numbered, each user's items in time order."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import sparray, spmatrix

from vitalrank.errors import DataError
from vitalrank.interactions.cutoffs import Time, length_of_time, to_time
from vitalrank.interactions.encoding import Codes, Ids, as_times, encode
from vitalrank.interactions.growing import Rows, merge, on_ids_of
from vitalrank.interactions.ordering import find_repeats, renumber, row_order, starts
from vitalrank.interactions.splits import core_rows
from vitalrank.interactions.splitting import SplittableLog
from vitalrank.interactions.weighting import REPEATS, as_summed, as_weights, check_repeats, check_weights

logger = logging.getLogger(__name__)


class Interactions(SplittableLog):
    """Interactions of users with items, one row per distinct pair.

    Row ``p`` belongs to the user whose range ``indptr[u]:indptr[u + 1]`` holds it; a user's rows are in time
    order, equal times in input order. Internal ids are positions in ``user_ids`` and ``item_ids``. Rows may have
    ``weights``, which scale the loss of each positive in training; without them every row counts the same.

    Examples
    --------
    >>> log = Interactions.from_arrays(["ann", "bob", "ann"], [7, 7, 9], times=[20, 5, 10])
    >>> log
    Interactions(2 users, 2 items, 3 rows)
    >>> log.item_ids[log.items]
    array([9, 7, 7])
    """

    @classmethod
    def from_arrays(
        cls,
        users: ArrayLike,
        items: ArrayLike,
        times: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        *,
        repeats: str = "first",
    ) -> Self:
        """Number the ids, sort by user and time, keep one row of repeated pairs.

        Parameters
        ----------
        users, items
            Original ids, all ints or all strings on each side, one per interaction.
        times
            Numbers >= 0 or dates; None keeps the order given.
        weights
            Numbers >= 0, not all 0, one per interaction; None: every row counts the same.
        repeats
            What becomes of the rows of one (user, item) pair: ``"first"`` keeps the first by time, ``"last"`` the
            last. ``"sum"`` keeps the last and adds up the weights, ``"count"`` keeps the last, weighted by the number
            of rows. They keep the last one so that no weight knows of rows after its own time.

        Examples
        --------
        >>> Interactions.from_arrays([1, 1, 1], ["a", "b", "a"]).repeats
        1
        >>> Interactions.from_arrays([1, 1, 1], ["a", "b", "a"], repeats="count").weights
        array([1., 2.], dtype=float32)
        """
        check_repeats(repeats, REPEATS)
        user_ids, user = encode(users, "user")
        item_ids, item = encode(items, "item")
        when = None if times is None else as_times(times)
        weight = None if weights is None else as_weights(weights)
        given = {"users": user, "items": item, "times": when, "weights": weight}
        lengths = {name: len(array) for name, array in given.items() if array is not None}
        if len(set(lengths.values())) > 1:
            found = ", ".join(f"{count:,} {name}" for name, count in lengths.items())
            raise DataError(f"{found}: give arrays of one length.")
        return cls.from_codes(user, item, when, user_ids, item_ids, weights=weight, repeats=repeats)

    @classmethod
    def from_frame(
        cls,
        frame: object,
        user: str | int | None = None,
        item: str | int | None = None,
        time: str | int | None = None,
        weight: str | int | None = None,
        *,
        repeats: str = "first",
    ) -> Self:
        """Take the columns of a data frame: pandas, polars, pyarrow, or anything else that Arrow reads.

        Parameters
        ----------
        frame
            A table with one row per interaction.
        user, item, time
            Column names; None looks for a well-known name such as ``user_id``. ``time=False`` ignores times.
        weight
            The column of the weights; None has none, whatever the columns are called.
        repeats
            As for `from_arrays`.

        Examples
        --------
        >>> frame = {"user_id": [1, 2], "item_id": [5, 5], "rating": [4, 3]}
        >>> Interactions.from_frame(frame)
        Interactions(2 users, 1 item, 2 rows)
        >>> Interactions.from_frame(frame, weight="rating").weights
        array([4., 3.], dtype=float32)
        """
        from vitalrank.interactions.frames import columns_of

        return cls.from_arrays(*columns_of(frame, user, item, time, weight), repeats=repeats)

    @classmethod
    def from_rows(
        cls,
        rows: Iterable[Sequence[Any]],
        columns: Sequence[str] = ("user", "item", "time"),
        *,
        user: str | None = None,
        item: str | None = None,
        time: str | None = None,
        weight: str | None = None,
        repeats: str = "first",
    ) -> Self:
        """Take rows one by one, such as those of a database cursor.

        Parameters
        ----------
        rows
            Sequences of one value per column; read once, in chunks.
        columns
            The names of the columns. For a cursor of Python's database interface: ``[c[0] for c in
            cursor.description]``.
        user, item, time, weight, repeats
            As for `from_frame`.

        Examples
        --------
        >>> import sqlite3
        >>> cursor = sqlite3.connect(":memory:").execute("select 'ann', 7, 20 union all select 'bob', 7, 5")
        >>> Interactions.from_rows(cursor)
        Interactions(2 users, 1 item, 2 rows)
        """
        from vitalrank.interactions.frames import table_of_rows

        return cls.from_frame(table_of_rows(rows, columns), user, item, time, weight, repeats=repeats)

    @classmethod
    def from_csr(
        cls,
        matrix: sparray | spmatrix,
        user_ids: ArrayLike | None = None,
        item_ids: ArrayLike | None = None,
        *,
        weights: bool = False,
    ) -> Self:
        """Take the nonzero entries of a SciPy sparse matrix of users by items; they have no times.

        Parameters
        ----------
        matrix
            Any sparse format. Rows and columns without an entry get no id of the log.
        user_ids, item_ids
            Original ids of the rows and the columns; None takes their numbers.
        weights
            Whether the entries are the weights; else their values do not matter.

        Examples
        --------
        >>> from scipy.sparse import coo_matrix
        >>> log = Interactions.from_csr(coo_matrix([[0, 1, 1], [0, 0, 0], [1, 0, 0]]), item_ids=["a", "b", "c"])
        >>> log, log.user_ids
        (Interactions(2 users, 3 items, 3 rows), array([0, 2]))
        """
        from vitalrank.interactions.matrices import pairs_of

        users, items, values = pairs_of(matrix, user_ids, item_ids)
        return cls.from_arrays(users, items, weights=values if weights else None)

    @classmethod
    def from_codes(
        cls,
        users: Codes,
        items: Codes,
        times: NDArray[Any] | None,
        user_ids: Ids,
        item_ids: Ids,
        skipped: int = 0,
        weights: NDArray[np.float32] | None = None,
        repeats: str = "first",
    ) -> Self:
        """Build from internal ids, any order. The arrays may be stored without a copy."""
        if not len(users):
            raise DataError("The log has no rows; give at least one interaction.")
        log = cls.from_some_codes(users, items, times, user_ids, item_ids, weights, repeats)
        if log.weights is not None:  # of the rows that are kept
            check_weights(log.weights)
        if log.repeats:
            logger.info("%d repeated (user, item) rows: %s", log.repeats, REPEATS[repeats])
        return replace(log, skipped=skipped) if skipped else log

    @classmethod
    def from_some_codes(
        cls,
        users: Codes,
        items: Codes,
        times: NDArray[Any] | None,
        user_ids: Ids,
        item_ids: Ids,
        weights: NDArray[np.float32] | None = None,
        repeats: str = "first",
    ) -> Self:
        """The same for some users of a log, whose weights may all be 0."""
        indptr = starts(np.bincount(users, minlength=len(user_ids)))
        order = row_order(users, times)
        if order is not None:
            items, times = items.take(order), None if times is None else times.take(order)
            weights = None if weights is None else weights.take(order)
        pairs = find_repeats(indptr, items, len(item_ids))
        if repeats in ("sum", "count"):
            ones = np.ones(len(items), np.float32)
            given = ones if repeats == "count" or weights is None else weights
            weights = given if pairs is None else as_summed(pairs.sums(given))
        log = cls(indptr, items, times, user_ids, item_ids, weights=weights)
        if pairs is None:
            return log
        kept = pairs.kept(last=repeats != "first")
        count = len(kept) - int(np.count_nonzero(kept))
        return replace(log._rows(kept), repeats=count)

    @classmethod
    def concat(cls, logs: Sequence[Interactions], *, repeats: str = "first") -> Interactions:
        """One log of several, each later one extending those before: see `extend`.

        Examples
        --------
        >>> days = [Interactions.from_arrays(["bob"], [9]), Interactions.from_arrays(["ann", "bob"], [9, 7])]
        >>> log = Interactions.concat(days)
        >>> log.user_ids, log.item_ids
        (array(['bob', 'ann'], dtype=object), array([9, 7]))
        """
        check_repeats(repeats, ("first", "last", "sum"))
        if not isinstance(logs, Sequence) or not logs or not all(isinstance(log, Interactions) for log in logs):
            raise DataError("concat takes a list of at least one log; read the files first: vr.read(...).")
        if len(logs) == 1:
            return logs[0]
        rows = merge([_rows_of(log) for log in logs])
        skipped = sum(log.skipped for log in logs)
        log = cls.from_codes(
            rows.users, rows.items, rows.times, rows.user_ids, rows.item_ids, skipped, rows.weights, repeats
        )
        known = [log.negative_log for log in logs if log.negative_log is not None]
        log = replace(log, repeats=log.repeats + sum(one.repeats for one in logs))
        return log.with_negatives(cls.concat([_as_log(one) for one in known])) if known else log

    def extend(self, more: Interactions, *, repeats: str = "first") -> Interactions:
        """Add the rows of another log, such as a new day's.

        What was known keeps its internal ids. New users and items get the next numbers, in the order of their first
        time (equal times, or a log without them: by id), so that the ids of an extended log are not sorted. The rows
        of each user are put in the order of their times, those of this log first where times are equal. How many rows,
        users and items are new stands in the program's log.

        Parameters
        ----------
        more
            A log with ids of the same types, and with times if this one has them.
        repeats
            What becomes of a pair that both logs have: ``"first"`` or ``"last"`` keeps that row, ``"sum"`` keeps the
            last with the sum of the weights, where a log without weights counts 1 for each row.

        Examples
        --------
        >>> log = Interactions.from_arrays(["bob", "eve"], [7, 9], times=[1, 2])
        >>> grown = log.extend(Interactions.from_arrays(["ann", "bob"], [9, 8], times=[3, 4]))
        >>> grown.user_ids, grown.item_ids
        (array(['bob', 'eve', 'ann'], dtype=object), array([7, 9, 8]))
        """
        if not isinstance(more, Interactions):
            raise DataError(f"extend takes a log, not a {type(more).__name__}; read the rows first: vr.read(...).")
        grown = self.concat([self, more], repeats=repeats)
        logger.info(
            "%d rows, %d users and %d items are new",
            len(grown) - len(self), grown.n_users - self.n_users, grown.n_items - self.n_items,
        )  # fmt: skip
        return grown

    def decayed(self, half_life: str | float, now: Time | None = None) -> Self:
        """The same with weights that fall with age: a row of age ``a`` counts ``0.5 ** (a / half_life)`` times as much.

        Parameters
        ----------
        half_life
            A length such as ``"30d"`` (s, m, h, d, w or y), for times that are unix times in whatever unit; or a number
            in the unit of the times.
        now
            The time at which age is 0, no earlier than the last row; by default that of the last row. Split first: the
            default of a whole log is later than the training part's.

        Examples
        --------
        >>> log = Interactions.from_arrays([1, 1, 1], [5, 6, 7], times=[0, 10, 20])
        >>> log.decayed(10).weights
        array([0.25, 0.5 , 1.  ], dtype=float32)
        """
        times = self._known_times("decayed")
        length = length_of_time(half_life, times, "half_life")
        last = times.max() if now is None else to_time(now, times, "now")
        if last < times.max():
            raise DataError(f"now={now!r} is before the last row ({times.max()}); split the log there first.")
        weights = np.exp2((times - last) / length) * (1.0 if self.weights is None else self.weights)
        aged = as_weights(weights)
        check_weights(aged)  # all are 0 once the last row is more than 149 half-lives old
        return replace(self, weights=aged)

    def with_negatives(self, log: Interactions) -> Self:
        """The same with known negatives: dislikes, skips, or items that were shown and not taken.

        They are part of the log from then on: `negatives` holds them as a matrix, ``recommend(...,
        exclude_negatives=True)`` leaves them out, splits and saved models keep them. Where a pair is also a row of the
        log, it is a positive. A training part of `split_time` or `rolling_folds` keeps only those before its cutoff.

        Parameters
        ----------
        log
            The known negatives. Users and items that this log does not have are left out and counted in the program's
            log.

        Examples
        --------
        >>> log = Interactions.from_arrays(["ann", "bob"], [7, 9])
        >>> log.with_negatives(Interactions.from_arrays(["ann", "ann", "eve"], [7, 9, 9])).negatives.toarray()
        array([[0., 1.],
               [0., 0.]], dtype=float32)
        """
        return replace(self, negative_log=aligned(self, log, "negatives"))

    def k_core(self, user: int = 0, item: int = 0) -> Self:
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
        if core is None and self.negative_log is None and self.user_degree.all() and self.item_degree.all():
            return self
        if core is not None and not len(core):
            raise DataError(f"k_core(user={user}, item={item}) leaves nothing of {len(self):,} rows; ask for less.")
        users, items = (self.users, self.items) if core is None else (self.users[core], self.items[core])
        times = self.times if core is None or self.times is None else self.times[core]
        weights = self.weights if core is None or self.weights is None else self.weights[core]
        user_ids, users = renumber(self.user_ids, users)
        item_ids, items = renumber(self.item_ids, items)
        indptr = starts(np.bincount(users, minlength=len(user_ids)))
        log = type(self)(indptr, items, times, user_ids, item_ids, self.repeats, self.skipped, weights)
        known = None if self.negative_log is None else _aligned(log, _as_log(self.negative_log), "negatives")
        return log if known is None else replace(log, negative_log=known)


def split_like(train: Interactions, test_log: Interactions) -> Interactions:
    """A test log of one's own, on the internal ids of the training log.

    Rows of users or items that the training log does not have are left out, since no model has a vector for them; how
    many they are stands in the program's log. Rows of pairs that are in both logs stay: `evaluate` warns of them.

    Examples
    --------
    >>> train = Interactions.from_arrays(["ann", "bob"], [7, 9])
    >>> test = split_like(train, Interactions.from_arrays(["bob", "eve"], [7, 9]))
    >>> test.user_ids[test.users], test.item_ids[test.items]
    (array(['bob'], dtype=object), array([7]))
    """
    return aligned(train, test_log, "test_log")


def aligned(train: Interactions, other: Interactions, name: str) -> Interactions:
    """Another log on the ids of ``train``, without the rows that have others."""
    if not isinstance(other, Interactions):
        raise DataError(f"{name} is of type {type(other).__name__}; give a log, as vr.read makes it.")
    found = _aligned(train, other, name)
    if found is None:
        raise DataError(f"{name} shares no row of known users and items with the training log; check the id columns.")
    return found


def _aligned(train: Interactions, other: Interactions, name: str) -> Interactions | None:
    rows, unknown = on_ids_of(_rows_of(train), _rows_of(other), name)
    if unknown.rows:
        logger.info(
            "%s: %d rows left out, of %d users and %d items that the training log does not have",
            name, unknown.rows, unknown.users, unknown.items,
        )  # fmt: skip
    if not len(rows.users):
        return None
    log = Interactions.from_codes(
        rows.users, rows.items, rows.times, rows.user_ids, rows.item_ids, other.skipped, rows.weights
    )
    return replace(log, repeats=other.repeats)


def _rows_of(log: SplittableLog) -> Rows:
    return Rows(
        log.users, log.items, log.times, log.weights, log.user_ids, log.item_ids, log.user_lookup, log.item_lookup
    )


def _as_log(arrays: Any) -> Interactions:
    """A log of known negatives is one of this class."""
    assert isinstance(arrays, Interactions)
    return arrays
