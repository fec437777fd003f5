"""How a log is made: from arrays, frames, rows, a matrix, or internal ids."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import sparray, spmatrix

from vitalrank.errors import DataError
from vitalrank.interactions.encoding import Codes, Ids, as_times, encode
from vitalrank.interactions.ordering import find_repeats, row_order, starts
from vitalrank.interactions.splitting import SplittableLog
from vitalrank.interactions.weighting import REPEATS, as_summed, as_weights, check_repeats, check_weights

logger = logging.getLogger(__name__)


class BuildableLog(SplittableLog):
    """A log with its constructors."""

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
        >>> import vitalrank as vr
        >>> vr.Interactions.from_arrays([1, 1, 1], ["a", "b", "a"]).repeats
        1
        >>> vr.Interactions.from_arrays([1, 1, 1], ["a", "b", "a"], repeats="count").weights
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
        >>> import vitalrank as vr
        >>> frame = {"user_id": [1, 2], "item_id": [5, 5], "rating": [4, 3]}
        >>> vr.Interactions.from_frame(frame)
        Interactions(2 users, 1 item, 2 rows)
        >>> vr.Interactions.from_frame(frame, weight="rating").weights
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
        >>> import vitalrank as vr
        >>> import sqlite3
        >>> cursor = sqlite3.connect(":memory:").execute("select 'ann', 7, 20 union all select 'bob', 7, 5")
        >>> vr.Interactions.from_rows(cursor)
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
        >>> import vitalrank as vr
        >>> from scipy.sparse import coo_matrix
        >>> log = vr.Interactions.from_csr(coo_matrix([[0, 1, 1], [0, 0, 0], [1, 0, 0]]), item_ids=["a", "b", "c"])
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
