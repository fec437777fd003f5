"""Gradients of scores ``queries[b] . table[ids[b, x]]``, without a copy of the row that each id names."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitalrank.kernels.compiling import FAST, LEAN, njit
from vitalrank.kernels.cpu.runtime.parallel import parallel_for, run_parallel, threads_for

Array = NDArray[Any]
_NUMBERS = 2048  # multiplications in a unit of cost, 0.1 us, times 4 of the memory they wait for


def query_gradients(score_grads: Array, table: Array, ids: Array) -> Array:
    """``sum_x score_grads[b, x] table[ids[b, x]]`` of each row."""  # (B, d)
    grads = np.empty((len(ids), table.shape[1]), np.float32)
    cost = max(ids.shape[1] * table.shape[1] // _NUMBERS, 1)
    parallel_for(len(ids), lambda begin, end: _query_gradients(begin, end, score_grads, table, ids, grads), cost)
    return grads


def row_gradients(score_grads: Array, queries: Array, ids: Array, table: Array, decay: float) -> tuple[Array, Array]:
    """The rows that ``ids`` (B, C) name, each once, and the sum of their gradients.

    Each id adds ``score_grads[b, x] queries[b] + decay table[id]``. The sums are taken in the order of the ids, so the
    number of threads does not change them.

    Examples
    --------
    >>> queries, table = np.array([[1.0], [10.0]], np.float32), np.ones((5, 1), np.float32)
    >>> slopes, ids = np.array([[1, 2], [3, 4]], np.float32), np.array([[4, 2], [2, 4]])
    >>> rows, grads = row_gradients(slopes, queries, ids, table, decay=0.0)
    >>> rows.tolist(), grads[:, 0].tolist()
    ([4, 2], [41.0, 32.0])
    """
    slots = np.full(len(table), -1, np.int32)
    rows = np.empty(min(ids.size, len(table)), np.int64)
    found = _distinct(ids, slots, rows)
    grads = np.zeros((found, queries.shape[1]), np.float32)
    shards = threads_for(max(ids.size * queries.shape[1] // _NUMBERS, 1))

    def work(shard: int) -> None:
        _row_gradients(shard, shards, score_grads, queries, ids, slots, table, np.float32(decay), grads)

    run_parallel(*(lambda shard=shard: work(shard) for shard in range(shards)))
    return rows[:found], grads


@njit(nogil=True, cache=True, fastmath=FAST, **LEAN)
def _query_gradients(begin: Any, end: Any, score_grads: Any, table: Any, ids: Any, grads: Any) -> None:
    for b in range(begin, end):
        grads[b] = 0.0
        for x in range(ids.shape[1]):
            slope, row = score_grads[b, x], ids[b, x]
            for f in range(table.shape[1]):
                grads[b, f] += slope * table[row, f]


@njit(nogil=True, cache=True, **LEAN)
def _distinct(ids: Any, slots: Any, rows: Any) -> Any:
    """Number the rows that ids name in the order of their first occurrence."""
    found = 0
    for b in range(ids.shape[0]):
        for x in range(ids.shape[1]):
            row = ids[b, x]
            if slots[row] < 0:
                slots[row] = found
                rows[found] = row
                found += 1
    return found


@njit(nogil=True, cache=True, fastmath=FAST, **LEAN)
def _row_gradients(
    shard: Any, shards: Any, score_grads: Any, queries: Any, ids: Any, slots: Any, table: Any, decay: Any, grads: Any
) -> None:
    """The sums of every ``shards``-th slot."""
    for b in range(ids.shape[0]):
        for x in range(ids.shape[1]):
            row = ids[b, x]
            slot = slots[row]
            if slot % shards != shard:
                continue
            slope = score_grads[b, x]
            if decay > 0.0:
                for f in range(queries.shape[1]):
                    grads[slot, f] += slope * queries[b, f] + decay * table[row, f]
            else:
                for f in range(queries.shape[1]):
                    grads[slot, f] += slope * queries[b, f]
