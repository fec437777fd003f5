"""The positives of a batch, from the log and the users' table."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from vitalrank.kernels.compiling import LEAN
from vitalrank.kernels.cpu.runtime.intrinsics import prefetch_columns, prefetch_line
from vitalrank.kernels.cpu.runtime.parallel import parallel_for
from vitalrank.kernels.cpu.training.permutation import fill_rows

_ROWS = 64  # rows worked on together: few enough to stay in the cache
_INT = 4  # bytes


class Batch(NamedTuple):
    """Positives of one batch."""

    users: NDArray[np.int32]  # (B,)
    positives: NDArray[np.int32]  # (B,)
    queries: NDArray[np.float32]  # (B, d) the users' values when the batch began
    eager_queries: (
        bool  # whether the queries are filled as the batch is loaded, for a sampler that reads them; else later
    )


def load_batch(order: Any, start: int, log_users: Any, log_items: Any, table: Any, batch: Batch) -> None:
    """Fill the batch that begins at position ``start`` of the order: users and positives, queries if they are early.

    ``table`` is the users', (U, 1 + s, d).
    """

    def part(begin: int, end: int) -> None:
        rows = np.empty(_ROWS, np.int64)
        _load_rows(begin, end, rows, order, start, log_users, log_items, table, batch)

    parallel_for(len(batch.users), part)


@njit(nogil=True, cache=True, **LEAN)
def _load_rows(
    begin: Any, end: Any, rows: Any, order: Any, start: Any, log_users: Any, log_items: Any, table: Any, batch: Any
) -> None:
    for first in range(begin, end, _ROWS):
        last = min(first + _ROWS, end)
        fill_rows(order, start + first, rows[: last - first])
        for b in range(first, last):
            prefetch_line(log_users, rows[b - first] * _INT)
            prefetch_line(log_items, rows[b - first] * _INT)
        for b in range(first, last):
            batch.users[b] = log_users[rows[b - first]]
            batch.positives[b] = log_items[rows[b - first]]
            if batch.eager_queries:
                prefetch_columns(table, batch.users[b], table.shape[2], False)
        if batch.eager_queries:
            for b in range(first, last):
                copy_query(b, batch.users[b], table, batch.queries)


@njit(inline="always", cache=True, **LEAN)
def copy_query(b: Any, user: Any, table: Any, queries: Any) -> None:
    """Fill a query with the user's values."""
    for f in range(queries.shape[1]):
        queries[b, f] = table[user, 0, f]
