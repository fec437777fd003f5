"""A shuffle in O(1) memory: position -> row by a keyed permutation of 0..n-1.

A Feistel network over ``left * width + right`` with ``left < height`` and ``right < width``: each round adds to
one half a hash of the other, so every round can be undone. ``height * width`` exceeds ``n`` by less than one row of
the grid; a value outside 0..n-1 is permuted again until it falls inside (cycle walking).

References
----------
Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vitalrank.kernels.compiling import LEAN, njit
from vitalrank.kernels.rng import SHUFFLE, below, philox

ROUNDS = 6
MIX_0 = np.uint32(0x7FEB352D)
MIX_1 = np.uint32(0x846CA68B)


class Permutation(NamedTuple):
    """One permutation of ``0..size-1``."""

    size: int
    height: int
    width: int
    keys: NDArray[np.uint32]  # (ROUNDS,)


def epoch_permutation(size: int, seed: int, epoch: int, bucket: int = 0, stream: int = SHUFFLE) -> Permutation:
    """The permutation of one epoch; ``bucket`` numbers the parts of a log that each have one of their own.

    Examples
    --------
    >>> permutation = epoch_permutation(5, seed=0, epoch=1)
    >>> sorted(int(row_at(permutation, position)) for position in range(5))
    [0, 1, 2, 3, 4]
    """
    width = max(math.isqrt(max(size, 1) - 1) + 1, 1)
    blocks = range(-(-ROUNDS // 4))
    words = [philox.py_func(seed, epoch, bucket, block, stream) for block in blocks]  # not worth compiling
    return Permutation(size, -(-size // width), width, np.array(words, np.uint32).ravel()[:ROUNDS])


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
def _feistel(permutation: Any, row: Any) -> Any:
    width, height = np.uint64(permutation.width), np.uint64(permutation.height)
    left = np.uint64(row) // width
    right = np.uint64(row) - left * width
    for r in range(0, ROUNDS, 2):
        left = _add(left, below(_hash(right, permutation.keys[r]), height), height)
        right = _add(right, below(_hash(left, permutation.keys[r + 1]), width), width)
    return np.int64(left * width + right)


@njit(cache=True, **LEAN)
def fill_rows(permutation: Any, start: Any, rows: Any) -> None:
    """The rows at positions ``start`` and following."""  # (B,)
    for b in range(len(rows)):  # without cycle walking, which is rare, the loop vectorises
        rows[b] = _feistel(permutation, start + b)
    for b in range(len(rows)):
        while rows[b] >= permutation.size:
            rows[b] = _feistel(permutation, rows[b])


def row_at(permutation: Permutation, position: int) -> int:
    """The row at a position."""
    row = np.empty(1, np.int64)
    fill_rows(permutation, position, row)
    return int(row[0])
