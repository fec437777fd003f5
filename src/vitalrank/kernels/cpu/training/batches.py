"""The positives of a batch, from the log and the users' table."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba.core.types import NoneType
from numba.extending import overload
from numpy.typing import NDArray

from vitalrank.kernels.compiling import LEAN, PICKED, njit
from vitalrank.kernels.cpu.runtime.intrinsics import prefetch_columns, prefetch_line
from vitalrank.kernels.cpu.runtime.parallel import parallel_for
from vitalrank.kernels.cpu.training.permutation import fill_rows

_ROWS = 64  # of a block that stays in the cache
_INT = 4  # bytes


class Batch(NamedTuple):
    """The positives of one batch."""

    users: NDArray[np.int32]  # (B,)
    positives: NDArray[np.int32]  # (B,)
    queries: NDArray[np.float32]  # (B, d) the users' vectors at the start of the batch
    eager_queries: bool  # filled as the batch is loaded, for a sampler that reads them; else in the step
    weights: NDArray[np.float32] | None = None  # (B,) of the positives; kernels are compiled apart for a log without


def load_batch(
    permutation: Any, start: int, log_users: Any, log_items: Any, log_weights: Any, table: Any, batch: Batch
) -> None:
    """Fill the batch at position ``start`` of the permutation: users, positives, weights, and queries if eager.

    ``table`` is the users', (U, 1 + s, d).
    """

    def shard(begin: int, end: int) -> None:
        rows = np.empty(_ROWS, np.int64)
        _load_rows(begin, end, rows, permutation, start, log_users, log_items, log_weights, table, batch)

    parallel_for(len(batch.users), shard)


@njit(nogil=True, cache=True, **LEAN)
def _load_rows(
    begin: Any,
    end: Any,
    rows: Any,
    permutation: Any,
    start: Any,
    log_users: Any,
    log_items: Any,
    log_weights: Any,
    table: Any,
    batch: Any,
) -> None:
    for first in range(begin, end, _ROWS):
        last = min(first + _ROWS, end)
        fill_rows(permutation, start + first, rows[: last - first])
        for b in range(first, last):
            prefetch_line(log_users, rows[b - first] * _INT)
            prefetch_line(log_items, rows[b - first] * _INT)
        for b in range(first, last):
            batch.users[b] = log_users[rows[b - first]]
            batch.positives[b] = log_items[rows[b - first]]
            copy_weight(b, rows[b - first], log_weights, batch.weights)
            if batch.eager_queries:
                prefetch_columns(table, batch.users[b], table.shape[2], False)
        if batch.eager_queries:
            for b in range(first, last):
                copy_query(b, batch.users[b], table, batch.queries)


def copy_weight(b: int, row: int, log_weights: Any, weights: Any) -> None:
    """Fill the weight of a positive, where the log has weights."""
    if weights is not None:
        weights[b] = log_weights[row]


@overload(copy_weight, jit_options=PICKED)
def _compiled(b: Any, row: Any, log_weights: Any, weights: Any) -> Any:
    return _copy_no_weight if isinstance(weights, NoneType) else _copy_weight


def _copy_no_weight(b: Any, row: Any, log_weights: Any, weights: Any) -> None:
    pass


def _copy_weight(b: Any, row: Any, log_weights: Any, weights: Any) -> None:
    weights[b] = log_weights[row]


@njit(inline="always", cache=True, **LEAN)
def copy_query(b: Any, user: Any, table: Any, queries: Any) -> None:
    """Fill a query with the user's vector."""
    for f in range(queries.shape[1]):
        queries[b, f] = table[user, 0, f]
