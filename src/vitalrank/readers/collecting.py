"""Columns as they grow: ids numbered batch by batch, times as numbers, bad lines raised or counted."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vitalrank.errors import DataError
from vitalrank.interactions import Interactions
from vitalrank.readers.ids import Batch, IdColumn
from vitalrank.readers.lines import Row
from vitalrank.readers.times import TimeReader

logger = logging.getLogger(__name__)
NAMED_IN_LOG = 5


class Collector:
    """Takes batches in file order and ends as a log."""

    def __init__(self, source: str, skip: bool) -> None:
        self.source = source
        self.skip = skip
        self.skipped = 0
        self.rows = 0
        self.time_reader = TimeReader()
        self._users, self._items = IdColumn(), IdColumn()
        self._times: list[NDArray[Any]] = []

    def add(self, table: pa.Table, text_ids: bool = False) -> None:
        """Append columns user, item and perhaps time; `Suspect`, and nothing appended, when any value is in doubt."""
        if not table.num_rows:  # a block of blank lines
            return
        users = self._users.prepared(table["user"].combine_chunks(), text_ids)
        items = self._items.prepared(table["item"].combine_chunks(), text_ids)
        times = self.time_reader.column(table["time"].combine_chunks()) if "time" in table.column_names else None
        self._append(users, items, times)

    def add_rows(self, rows: Iterable[Row], timed: bool, text_ids: bool = False, place: str = "line") -> None:
        """Append rows one by one; those with a problem go to `bad`."""
        good: list[tuple[Any, Any, Any]] = []
        for row in rows:
            problem, time = row.problem, None
            for side, value in (("user", row.user), ("item", row.item)):
                problem = problem or (f"no {side}" if value is None or value == "" else None)
            if timed and not problem:
                try:
                    time = self.time_reader.single(row.time)
                except ValueError as error:
                    problem = str(error)
            if problem:
                self.bad(f"{place} {row.line}", problem)
            else:
                good.append((row.user, row.item, time))
        if good:
            users, items, times = zip(*good, strict=True)
            self._append(
                self._users.prepared(pa.array(users), text_ids),
                self._items.prepared(pa.array(items), text_ids),
                np.array(times) if timed else None,
            )

    def _append(self, users: Batch, items: Batch, times: NDArray[Any] | None) -> None:
        self._users.append(users)
        self._items.append(items)
        if times is not None:
            self._times.append(times)
        self.rows += len(users)

    def bad(self, place: str, reason: str) -> None:
        """A line that cannot be used: the end, or one more skipped."""
        message = f"{self.source}, {place}: {reason}"
        if not self.skip:
            raise DataError(f"{message}; mend it, or leave such lines out with on_bad='skip'.")
        self.skipped += 1
        if self.skipped <= NAMED_IN_LOG:
            logger.warning("skipped %s", message)

    def finish(self) -> Interactions:
        if self.skipped:
            logger.warning("%s: %d unreadable lines skipped, %d rows read", self.source, self.skipped, self.rows)
        # Parsing is over: what the allocator still holds for it goes back before the rows are sorted.
        pa.default_memory_pool().release_unused()
        user_ids, users = self._users.finish()
        item_ids, items = self._items.finish()
        times = np.concatenate(self._times) if self._times else None
        self._times = []
        return Interactions.from_codes(users, items, times, user_ids, item_ids, self.skipped)
