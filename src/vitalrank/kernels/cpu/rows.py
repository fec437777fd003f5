"""Optimizer steps on tables whose gradient was computed elsewhere: whole, or as places that touch some rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from vitalrank.kernels.cpu.groups import Groups, group_places
from vitalrank.kernels.cpu.moves import move_row
from vitalrank.kernels.cpu.parts import in_parts
from vitalrank.kernels.cpu.proposing import FAST
from vitalrank.kernels.rng import LEAN


class Move(NamedTuple):
    """Which optimizer moves a table."""

    optimizer: int


def move_touched(move: Move, rate: Any, places: Any, pulls: Any, table: Any, state: Any, groups: Groups) -> int:
    """Move each row named in ``places`` (P,) once, by the sum of its ``pulls`` (P, d); returns the number of rows.

    ``table`` is (R, 1, d), ``state`` (R, s, d). The sums are taken in the order of the places, so the result does
    not depend on the number of threads. The rows moved are left in ``groups.rows``.
    """

    def part(begin: int, end: int) -> None:
        gradient = np.empty(table.shape[2], np.float32)
        _move_groups(begin, end, gradient, move, rate, pulls, table, state, groups)

    found: int = _group(places, groups)
    in_parts(found, part, cost=4)
    return found


def move_all(move: Move, rate: Any, pulls: Any, table: Any, state: Any) -> None:
    """Move every row by its gradient ``pulls`` (R, d)."""
    in_parts(len(table), lambda begin, end: _move_block(begin, end, move, rate, pulls, table, state))


@njit(cache=True, **LEAN)
def _group(places: Any, groups: Any) -> Any:
    for place in range(len(places)):
        groups.touched[place] = places[place]
    return group_places(groups, len(places))


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy", **LEAN)
def _move_groups(
    begin: Any, end: Any, gradient: Any, move: Any, rate: Any, pulls: Any, table: Any, state: Any, groups: Any
) -> None:
    width = table.shape[2]
    for group in range(begin, end):
        gradient[:] = 0.0
        for place in range(groups.starts[group], groups.starts[group + 1]):
            row = groups.order[place]
            for f in range(width):
                gradient[f] += pulls[row, f]
        move_row(move, np.float32(rate), np.float32(0.0), gradient, table, state, 0, groups.rows[group], width)


@njit(nogil=True, cache=True, error_model="numpy", **LEAN)
def _move_block(begin: Any, end: Any, move: Any, rate: Any, pulls: Any, table: Any, state: Any) -> None:
    for row in range(begin, end):
        move_row(move, np.float32(rate), np.float32(0.0), pulls[row], table, state, 0, row, table.shape[2])
