"""Initial values: normal variates by counter, so that a table depends neither on other tables nor on threads."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vitalrank.kernels.compiling import LEAN, njit
from vitalrank.kernels.cpu.runtime.parallel import parallel_for
from vitalrank.kernels.rng import INITIAL, STREAMS, philox

_UNIT = 2.0**-32


def fill_normal(table: Any, columns: int, seed: Any, number: int, deviation: float, first: int = 0) -> None:
    """Fill the first ``columns`` of ``table[:, 0]`` (n, s, d) with normal variates; ``number`` identifies the table.

    Its rows are those from ``first`` on of the whole table.
    """
    key = np.uint64(seed)  # the type of a Python int would depend on its size
    parallel_for(len(table), lambda begin, end: _fill_rows(begin, end, first, table, columns, key, number, deviation))


@njit(nogil=True, cache=True, **LEAN)
def _fill_rows(
    begin: Any, end: Any, first_row: Any, table: Any, columns: Any, seed: Any, number: Any, deviation: Any
) -> None:
    for row in range(begin, end):
        for block in range((columns + 3) // 4):
            a, b, c, d = philox(seed, 0, first_row + row, block, INITIAL + STREAMS * number)
            for half in range(2):
                # Box-Muller transform: two words give two independent normal variates.
                first, second = (a, b) if half == 0 else (c, d)
                radius = deviation * math.sqrt(-2.0 * math.log((np.float64(first) + 1.0) * _UNIT))
                angle = 2.0 * math.pi * np.float64(second) * _UNIT
                f = 4 * block + 2 * half
                if f < columns:
                    table[row, 0, f] = radius * math.cos(angle)
                if f + 1 < columns:
                    table[row, 0, f + 1] = radius * math.sin(angle)
