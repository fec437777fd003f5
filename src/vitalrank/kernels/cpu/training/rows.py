"""Optimizer updates of tables whose gradient was computed elsewhere: a dense gradient, or a sparse one to coalesce."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

from vitalrank.kernels.compiling import FAST, LEAN, njit
from vitalrank.kernels.cpu.training.coalescing import coalesce
from vitalrank.kernels.cpu.training.optimizers import update_row

_ROWS = 64  # of one iteration of a parallel loop


# Numba's parallel loops, not the plain threads of runtime/parallel.py: those would wait for torch's to leave a core.
# Numba drops writes to a named tuple's arrays inside the body of a prange loop: every body is a call.


@njit(parallel=True, cache=True)
def update_sparse(
    optimizer: Any, rate: Any, occurrences: Any, grads: Any, table: Any, state: Any, coalesced: Any
) -> Any:
    """Update each row named in ``occurrences`` (P,) once, by the sum of its ``grads`` (P, d); returns how many rows.

    ``table`` is (R, d), ``state`` (R, s, d). Sums are taken in the order of the occurrences, so the result does not
    depend on the number of threads. The updated rows are left in ``coalesced.rows``.
    """
    found = _coalesce(occurrences, coalesced)
    width = table.shape[1]
    for chunk in prange((found + _ROWS - 1) // _ROWS):
        gradient = np.empty(width, np.float32)
        _update_groups(np.int64(chunk), found, gradient, optimizer, rate, grads, table, state, coalesced)
    return found


@njit(parallel=True, cache=True)
def update_dense(optimizer: Any, rate: Any, grads: Any, table: Any, state: Any) -> None:
    """Update every row by its gradient ``grads`` (R, d)."""
    count = len(table)
    for chunk in prange((count + _ROWS - 1) // _ROWS):
        _update_block(np.int64(chunk), count, optimizer, rate, grads, table, state)


@njit(cache=True, **LEAN)
def _coalesce(occurrences: Any, coalesced: Any) -> Any:
    for occurrence in range(len(occurrences)):
        coalesced.row_of[occurrence] = occurrences[occurrence]
    return coalesce(coalesced, len(occurrences))


@njit(cache=True, fastmath=FAST, error_model="numpy", **LEAN)
def _update_groups(
    chunk: Any,
    found: Any,
    gradient: Any,
    optimizer: Any,
    rate: Any,
    grads: Any,
    table: Any,
    state: Any,
    coalesced: Any,
) -> None:
    width = table.shape[1]
    for g in range(chunk * _ROWS, min((chunk + 1) * _ROWS, found)):
        gradient[:] = 0.0
        for occurrence in range(coalesced.starts[g], coalesced.starts[g + 1]):
            row = coalesced.order[occurrence]
            for f in range(width):
                gradient[f] += grads[row, f]
        row = coalesced.rows[g]
        update_row(optimizer, np.float32(rate), np.float32(0.0), gradient, table[row], state[row])


@njit(cache=True, error_model="numpy", **LEAN)
def _update_block(chunk: Any, count: Any, optimizer: Any, rate: Any, grads: Any, table: Any, state: Any) -> None:
    for row in range(chunk * _ROWS, min((chunk + 1) * _ROWS, count)):
        update_row(optimizer, np.float32(rate), np.float32(0.0), grads[row], table[row], state[row])
