"""Optimizer steps on tables whose gradient was computed elsewhere: whole, or as places that touch some rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, prange

from vitalrank.kernels.compiling import FAST, LEAN
from vitalrank.kernels.cpu.training.coalescing import group_places
from vitalrank.kernels.cpu.training.optimizers import move_row

_ROWS = 64  # rows of one unit of parallel work


# Parallel loops, not the plain threads of parts.py: those would wait for torch's own to leave a core.
# Numba drops writes to a named tuple's arrays inside the body of a prange loop: every body is a call.


@njit(parallel=True, cache=True)
def move_touched(optimizer: Any, rate: Any, places: Any, pulls: Any, table: Any, state: Any, groups: Any) -> Any:
    """Move each row named in ``places`` (P,) once, by the sum of its ``pulls`` (P, d); returns the number of rows.

    ``table`` is (R, d), ``state`` (R, s, d). The sums are taken in the order of the places, so the result does
    not depend on the number of threads. The rows moved are left in ``groups.rows``.
    """
    found = _group(places, groups)
    width = table.shape[1]
    for chunk in prange((found + _ROWS - 1) // _ROWS):
        gradient = np.empty(width, np.float32)
        _move_groups(np.int64(chunk), found, gradient, optimizer, rate, pulls, table, state, groups)
    return found


@njit(parallel=True, cache=True)
def move_all(optimizer: Any, rate: Any, pulls: Any, table: Any, state: Any) -> None:
    """Move every row by its gradient ``pulls`` (R, d)."""
    count = len(table)
    for chunk in prange((count + _ROWS - 1) // _ROWS):
        _move_block(np.int64(chunk), count, optimizer, rate, pulls, table, state)


@njit(cache=True, **LEAN)
def _group(places: Any, groups: Any) -> Any:
    for place in range(len(places)):
        groups.touched[place] = places[place]
    return group_places(groups, len(places))


@njit(cache=True, fastmath=FAST, error_model="numpy", **LEAN)
def _move_groups(
    chunk: Any, found: Any, gradient: Any, optimizer: Any, rate: Any, pulls: Any, table: Any, state: Any, groups: Any
) -> None:
    width = table.shape[1]
    for group in range(chunk * _ROWS, min((chunk + 1) * _ROWS, found)):
        gradient[:] = 0.0
        for place in range(groups.starts[group], groups.starts[group + 1]):
            row = groups.order[place]
            for f in range(width):
                gradient[f] += pulls[row, f]
        row = groups.rows[group]
        move_row(optimizer, np.float32(rate), np.float32(0.0), gradient, table[row], state[row])


@njit(cache=True, error_model="numpy", **LEAN)
def _move_block(chunk: Any, count: Any, optimizer: Any, rate: Any, pulls: Any, table: Any, state: Any) -> None:
    for row in range(chunk * _ROWS, min((chunk + 1) * _ROWS, count)):
        move_row(optimizer, np.float32(rate), np.float32(0.0), pulls[row], table[row], state[row])
