"""The interaction log in compressed rows: users and items numbered, each user's items in time order."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Self

import numpy as np

from vitalrank.errors import DataError
from vitalrank.interactions.aligning import aligned, aligned_or_none, rows_of
from vitalrank.interactions.building import BuildableLog
from vitalrank.interactions.cutoffs import Time, length_of_time, to_time
from vitalrank.interactions.growing import merge
from vitalrank.interactions.ordering import renumber, starts
from vitalrank.interactions.splits import core_rows
from vitalrank.interactions.weighting import as_weights, check_repeats, check_weights

logger = logging.getLogger(__name__)


class Interactions(BuildableLog):
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
        rows = merge([rows_of(log) for log in logs])
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
            default of a whole log is later than the training set's.

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
        log, it is a positive. A training set of `split_time` or `rolling_folds` keeps only those before its cutoff.

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
        known = None if self.negative_log is None else aligned_or_none(log, _as_log(self.negative_log), "negatives")
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


def _as_log(arrays: object) -> Interactions:
    """A log of known negatives is one of this class."""
    assert isinstance(arrays, Interactions)
    return arrays
