"""The splits of a log: by each user's last rows, by time, at random, and folds that roll forward in time."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.checks import check_choice, to_int_below
from vitalrank._util.display import quoted
from vitalrank.errors import DataError
from vitalrank.interactions.arrays import LogArrays
from vitalrank.interactions.cutoffs import Time, cutoff_of_share, fold_cutoffs, to_cutoff
from vitalrank.interactions.splits import held_out, held_out_counts, last_of_users, random_order

logger = logging.getLogger(__name__)
UNSEEN = ("keep", "drop")


class Unseen(NamedTuple):
    """What a part of a split has and the training set has not."""

    users: int
    items: int
    rows: int  # of such users or items

    def __str__(self) -> str:
        return f"{self.rows:,} rows of {self.users:,} users and {self.items:,} items without training rows"


class SplittableLog(LogArrays):
    """A log that can be split; all parts share the ids."""

    def split_last(
        self, fraction: float | None = None, valid: float | None = None, *, count: int | None = None
    ) -> tuple[Self, ...]:
        """Hold out the last interactions of every user; all parts share the ids.

        The test set takes each user's last ``ceil(fraction * n)`` rows, or ``count`` of them, the validation set the
        last ``floor(valid * rest)`` before them, but at least one; a user always keeps one training row. Each user is
        cut at a time of their own, so training knows what other users did after that: the future of others leaks into
        it. `split_time` cuts all users at one time.

        Parameters
        ----------
        fraction
            Share of each user's rows for the test set, from 0 to below 1.
        valid
            Share of the remaining rows for a validation set, or with ``count`` the number of rows; None makes two
            parts, not three.
        count
            Rows of each user for the test set, instead of a share: 1 is leave-one-out.

        Returns
        -------
        tuple of Interactions
            ``(train, test)`` or ``(train, valid, test)``.

        Examples
        --------
        >>> import vitalrank as vr
        >>> log = vr.Interactions.from_arrays([1] * 10, range(10))
        >>> [len(part) for part in log.split_last(0.2, valid=0.1)]
        [7, 1, 2]
        >>> [len(part) for part in log.split_last(count=1, valid=1)]
        [8, 1, 1]
        """
        test, held = held_out_counts(self._full_degree(), fraction, valid, count)
        return self._parts(self._last(test, held), has_valid=valid is not None)

    def split_random(self, fraction: float, valid: float | None = None, *, seed: int = 0) -> tuple[Self, ...]:
        """Hold out as many interactions of every user as `split_last`, drawn at random; all parts share the ids.

        Training knows what the user did after the test rows: both their own future and that of others leak into it.

        Parameters
        ----------
        fraction, valid
            As for `split_last`.
        seed
            Of the draw.

        Examples
        --------
        >>> import vitalrank as vr
        >>> log = vr.Interactions.from_arrays([1] * 10, range(10))
        >>> [len(part) for part in log.split_random(0.2, valid=0.1, seed=7)]
        [7, 1, 2]
        """
        seed = to_int_below("seed", seed, 0, 1 << 64)
        test, held = held_out(self._full_degree(), fraction, valid, "split_random")
        parts = np.empty(len(self), np.int8)
        parts[random_order(self.users, seed)] = self._last(test, held)
        return self._parts(parts, has_valid=valid is not None)

    def split_time(
        self,
        cutoff: Time | None = None,
        *,
        share: float | None = None,
        valid: float | None = None,
        unseen: str = "keep",
    ) -> tuple[Self, ...]:
        """Cut all users at one time, so that nothing after it is trained on; all parts share the ids.

        Users and items that appear only after the cutoff have no training rows. They are counted in the program's log
        (and by `unseen_in`) and stay in the test set unless dropped: no model knows anything about them.

        Parameters
        ----------
        cutoff
            The first time of the test set: a number as in ``times``, or a date.
        share
            Instead of a cutoff, the share of all rows that the test set takes, the latest ones; rows at the time of
            the cut all go to the test set.
        valid
            Share of the remaining rows for a validation set, cut by time too; None makes two parts, not three.
        unseen
            ``"keep"`` or ``"drop"`` the rows, after the training set, of users or items that it has not.

        Examples
        --------
        >>> import vitalrank as vr
        >>> log = vr.Interactions.from_arrays([1, 1, 2, 2, 3], [5, 6, 5, 7, 6], times=[10, 40, 20, 50, 60])
        >>> train, test = log.split_time(45)
        >>> len(train), len(test), train.unseen_in(test)
        (3, 2, Unseen(users=1, items=1, rows=2))
        >>> [len(part) for part in log.split_time(share=0.4)]
        [3, 2]
        """
        check_choice("unseen", unseen, UNSEEN)
        times = self._known_times("split_time")
        if (cutoff is None) == (share is None):
            raise DataError("split_time takes either cutoff= or share=; give one of them.")
        at = to_cutoff(cutoff, times, "cutoff") if share is None else cutoff_of_share(times, share, "share")
        parts = np.where(times >= at, 2, 0).astype(np.int8)
        if valid is not None:
            before = cutoff_of_share(times[times < at], valid, "valid")
            parts[(times < at) & (times >= before)] = 1
            at = min(at, before)
        train, *others = self._parts(parts, has_valid=valid is not None)
        return train._until(at), *(train._report_unseen(part, unseen) for part in others)

    def rolling_folds(
        self, folds: int = 5, *, share: float = 0.5, cutoffs: Sequence[Time] | None = None, unseen: str = "keep"
    ) -> Iterator[tuple[Self, Self]]:
        """Folds for back-testing: train on all that came before a time, test on what came between it and the next.

        Parameters
        ----------
        folds
            How many, with equally many test rows but for equal times.
        share
            Share of all rows, the latest ones, that the test sets take together.
        cutoffs
            Instead, the first time of each test set, ascending; the last one goes on to the end of the log.
        unseen
            As for `split_time`.

        Yields
        ------
        tuple of Interactions
            ``(train, test)``, oldest first; all parts share the ids.

        Examples
        --------
        >>> import vitalrank as vr
        >>> log = vr.Interactions.from_arrays([1, 2] * 5, range(10), times=range(10))
        >>> [(len(train), len(test)) for train, test in log.rolling_folds(2, share=0.4)]
        [(6, 2), (8, 2)]
        """
        check_choice("unseen", unseen, UNSEEN)
        times = self._known_times("rolling_folds")
        begins = fold_cutoffs(times, folds, share, cutoffs)
        for begin, end in zip(begins, [*begins[1:], None], strict=True):
            train = self._rows(times < begin)._until(begin)
            is_tested = (times >= begin) if end is None else (times >= begin) & (times < end)
            yield train, train._report_unseen(self._rows(is_tested), unseen)

    def unseen_in(self, part: LogArrays) -> Unseen:
        """Users, items and rows of another part about which this one, the training set, knows nothing."""
        if self.user_degree.all() and self.item_degree.all():  # known without a look at the other part
            return Unseen(0, 0, 0)
        users, items, rows = self._unseen(part)
        return Unseen(len(np.unique(part.users[users])), len(np.unique(part.items[items])), int(np.count_nonzero(rows)))

    def _unseen(self, part: LogArrays) -> tuple[NDArray[np.bool_], ...]:
        """Marks the rows of another part whose user, item, or either is not in this one."""
        users, items = (self.user_degree == 0)[part.users], (self.item_degree == 0)[part.items]
        return users, items, users | items

    def _report_unseen(self, part: Self, unseen: str) -> Self:
        found = self.unseen_in(part)
        if not found.rows:
            return part
        logger.info("%s: %s", found, "dropped" if unseen == "drop" else "kept in the test set")
        return part._rows(~self._unseen(part)[2]) if unseen == "drop" else part

    def _full_degree(self) -> NDArray[np.int64]:
        degree = self.user_degree
        if not degree.all():
            lost = self.user_ids.tolist()[int(np.argmin(degree))]
            raise DataError(
                f"User {quoted(lost)} has no rows, so none for training; drop such users first: k_core(user=1)."
            )
        return degree

    def _known_times(self, name: str) -> NDArray[Any]:
        if self.times is None:
            raise DataError(f"{name} needs times and this log has none; read them (time=...) or use split_last.")
        return self.times

    def _last(self, test: NDArray[np.int64], held: NDArray[np.int64]) -> NDArray[np.int8]:
        """0 for each user's training rows, 1 for the ``held`` after them, 2 for the last, ``test`` of them."""  # (N,)
        parts = last_of_users(self.indptr, test + held).view(np.int8)
        parts += last_of_users(self.indptr, test)
        return parts

    def _parts(self, parts: NDArray[np.int8], has_valid: bool) -> tuple[Self, ...]:
        return tuple(self._rows(parts == part) for part in ((0, 1, 2) if has_valid else (0, 2)))

    def _until(self, cutoff: float) -> Self:
        """The same without known negatives of the cutoff's time or later."""
        known = self.negative_log
        if known is None or known.times is None:
            return self
        return replace(self, negative_log=known._rows(known.times < cutoff))
