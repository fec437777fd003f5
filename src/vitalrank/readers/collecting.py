"""Columns as they grow: ids encoded batch by batch, times as numbers, bad lines raised or counted."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vitalrank._util.display import printable
from vitalrank.errors import DataError
from vitalrank.interactions import Interactions
from vitalrank.interactions.encoding import Codes, Ids
from vitalrank.readers.ids import LONGEST_ID, Batch, IdColumn
from vitalrank.readers.lines import ROLES, Layout, LogRow
from vitalrank.readers.times import TimeReader
from vitalrank.readers.weights import read_weight, read_weights

logger = logging.getLogger(__name__)
NAMED_IN_LOG = 5


class Chunk(NamedTuple):
    """Some rows of a log: sorted ids of both sides, text as an Arrow array, and codes, times and weights by row."""

    user_ids: Ids | pa.Array
    users: Codes  # (N,)
    item_ids: Ids | pa.Array
    items: Codes  # (N,)
    times: NDArray[Any] | None  # (N,)
    weights: NDArray[np.float32] | None  # (N,)


class Collector:
    """Takes batches in file order, of one file or several, and builds a log of them."""

    def __init__(self, skip: bool, repeats: str = "first", like: Interactions | None = None) -> None:
        self.repeats = repeats
        self.source = ""  # the present file, for messages
        self.skip = skip
        self.skipped = 0
        self.rows = 0
        self.layout: Layout | None = None
        self._first = ""
        self._time_reader = TimeReader()
        ids = (None, None) if like is None else (like.user_ids, like.item_ids)
        self._users, self._items = (IdColumn(is_text=known is not None and known.dtype == object) for known in ids)
        self._times: list[NDArray[Any]] = []
        self._weights: list[NDArray[np.float64]] = []

    @property
    def _untyped(self) -> bool:
        return self.layout is not None and self.layout.user_type == "untyped"

    def open(self, source: object) -> None:
        """Name the file that the next batches come from."""
        self.source = printable(source)

    def expect(self, layout: Layout) -> None:
        """Hold every file to the format and the types of the first one."""
        if self.layout is None:
            self.layout, self._first = layout, self.source
        elif layout != self.layout:
            one, other = next((a, b) for a, b in zip(_words(layout), _words(self.layout), strict=True) if a != b)
            raise DataError(
                f"{self.source} has {one} and {self._first} has {other}; read files of one format together."
            )

    def add(self, table: pa.Table) -> None:
        """Append columns user, item and perhaps time; `SlowPathNeeded`, and nothing appended, when in doubt."""
        if not table.num_rows:  # a block of blank lines
            return
        users = self._users.prepare(table["user"].combine_chunks(), self._untyped)
        items = self._items.prepare(table["item"].combine_chunks(), self._untyped)
        times = self._time_reader.column(table["time"].combine_chunks()) if "time" in table.column_names else None
        weights = read_weights(table["weight"].combine_chunks()) if "weight" in table.column_names else None
        self._append(users, items, times, weights)

    def add_rows(self, rows: Iterable[LogRow], place: str = "line") -> None:
        """Append rows one by one; those with a problem go to `bad`."""
        has_time = self.layout is not None and self.layout.has_time
        good: list[tuple[Any, Any, Any, float | None]] = []
        for row in rows:
            problem, time, weight = row.problem or _id_problem(row), None, None
            if has_time and not problem:
                try:
                    time = self._time_reader.single(row.time)
                except ValueError as error:
                    problem = str(error)
            if row.weight is not None and not problem:
                try:
                    weight = read_weight(row.weight)
                except ValueError as error:
                    problem = str(error)
            if problem:
                self.bad(f"{place} {row.line}", problem)
            else:
                good.append((row.user, row.item, time, weight))
        if good:
            users, items, times, weights = zip(*good, strict=True)
            self._append(
                self._users.prepare(pa.array(users), self._untyped),
                self._items.prepare(pa.array(items), self._untyped),
                np.array(times) if has_time else None,
                None if None in weights else np.array(weights, np.float64),
            )

    def _append(
        self, users: Batch, items: Batch, times: NDArray[Any] | None, weights: NDArray[np.float64] | None
    ) -> None:
        self._users.append(users)
        self._items.append(items)
        if times is not None:
            self._times.append(times)
        if weights is not None:
            self._weights.append(weights)
        self.rows += len(users)

    def bad(self, place: str, reason: str) -> None:
        """An unusable line: an error, or one more skipped."""
        message = f"{self.source}, {place}: {reason}"
        if not self.skip:
            raise DataError(f"{message}; mend it, or leave such lines out with on_bad='skip' (--on-bad skip).")
        self.skipped += 1
        if self.skipped <= NAMED_IN_LOG:
            logger.warning("skipped %s", message)

    def finish(self, source: str) -> Interactions:
        """The log of all rows."""
        self.report(source)
        # Parsing is over: free what the allocator still holds for it before the rows are sorted.
        pa.default_memory_pool().release_unused()
        user_ids, users = self._users.finish()
        item_ids, items = self._items.finish()
        times, weights = self._take_numbers()
        return Interactions.from_codes(users, items, times, user_ids, item_ids, self.skipped, weights, self.repeats)

    def take(self) -> Chunk:
        """The rows added since the last time, their ids numbered among themselves; at least one."""
        user_ids, users = self._users.take()
        item_ids, items = self._items.take()
        return Chunk(user_ids, users, item_ids, items, *self._take_numbers())

    def _take_numbers(self) -> tuple[NDArray[Any] | None, NDArray[np.float32] | None]:
        times = np.concatenate(self._times) if self._times else None
        weights = np.concatenate(self._weights).astype(np.float32) if self._weights else None
        self._times, self._weights = [], []
        return times, weights

    def report(self, source: str) -> None:
        """Say in the program's log what was skipped; a source without rows is an error."""
        if not self.rows:
            raise DataError(f"{source}: no rows" + (f", {self.skipped:,} lines skipped." if self.skipped else "."))
        if self.skipped:
            logger.warning("%s: %d unreadable lines skipped, %d rows read", source, self.skipped, self.rows)


def _words(layout: Layout) -> tuple[str, ...]:
    time = "a time column" if layout.has_time else "no time column"
    return layout.format, time, f"users of type {layout.user_type}", f"items of type {layout.item_type}"


def _id_problem(row: LogRow) -> str | None:
    for role, value in zip(ROLES, (row.user, row.item), strict=False):
        if value is None or value == "":
            return f"no {role}"
        if isinstance(value, str) and len(value.encode(errors="replace")) > LONGEST_ID:
            return f"the {role} has {len(value):,} characters; an id may take {LONGEST_ID:,} bytes"
    return None
