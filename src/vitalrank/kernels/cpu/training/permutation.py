"""A shuffle without memory: position -> row by a keyed permutation of 0..n-1.

A Feistel network over ``left * width + right`` with ``left < height`` and ``right < width``: each round adds to
one half a hash of the other, so every round can be undone. ``height * width`` exceeds ``n`` by less than one row of
the grid; a value outside 0..n-1 is sent through again until it falls inside (cycle walking).

References
----------
Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from vitalrank.kernels.compiling import LEAN
from vitalrank.kernels.rng import SHUFFLE, below, philox

ROUNDS = 6
MIX_0 = np.uint32(0x7FEB352D)
MIX_1 = np.uint32(0x846CA68B)


class Order(NamedTuple):
    """One permutation of ``0..size-1``."""

    size: int
    height: int
    width: int
    keys: NDArray[np.uint32]  # (ROUNDS,)


def shuffled_order(size: int, seed: int, epoch: int) -> Order:
    """The permutation of one epoch.

    Examples
    --------
    >>> order = shuffled_order(5, seed=0, epoch=1)
    >>> sorted(int(row_at(order, position)) for position in range(5))
    [0, 1, 2, 3, 4]
    """
    width = max(math.isqrt(max(size, 1) - 1) + 1, 1)
    words = [philox.py_func(seed, epoch, 0, turn, SHUFFLE) for turn in range(-(-ROUNDS // 4))]  # too few to compile for
    return Order(size, -(-size // width), width, np.array(words, np.uint32).ravel()[:ROUNDS])


@njit(inline="always", cache=True, **LEAN)
def _hash(half: Any, key: Any) -> Any:
    """32 well-mixed bits."""
    x = np.uint32(half) ^ key
    x = np.uint32((x ^ (x >> np.uint32(16))) * MIX_0)
    x = np.uint32((x ^ (x >> np.uint32(15))) * MIX_1)
    return np.uint32(x ^ (x >> np.uint32(16)))


@njit(inline="always", cache=True, **LEAN)
def _add(half: Any, amount: Any, size: Any) -> Any:
    total = half + np.uint64(amount)
    return total - size if total >= size else total


@njit(inline="always", cache=True, **LEAN)
def _sent_through(order: Any, row: Any) -> Any:
    width, height = np.uint64(order.width), np.uint64(order.height)
    left = np.uint64(row) // width
    right = np.uint64(row) - left * width
    for turn in range(0, ROUNDS, 2):
        left = _add(left, below(_hash(right, order.keys[turn]), height), height)
        right = _add(right, below(_hash(left, order.keys[turn + 1]), width), width)
    return np.int64(left * width + right)


@njit(cache=True, **LEAN)
def fill_rows(order: Any, start: Any, rows: Any) -> None:
    """The rows that the order visits from position ``start`` on."""  # (B,)
    for b in range(len(rows)):  # without the walk, which is rare, several rows go through at once
        rows[b] = _sent_through(order, start + b)
    for b in range(len(rows)):
        while rows[b] >= order.size:
            rows[b] = _sent_through(order, rows[b])


def row_at(order: Order, position: int) -> int:
    """The row that the order visits at ``position``."""
    row = np.empty(1, np.int64)
    fill_rows(order, position, row)
    return int(row[0])
