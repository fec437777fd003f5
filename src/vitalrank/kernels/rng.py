"""Philox 4x32-10: random words from a key and a counter, the same on every device and for any thread count.

Key: the seed. Counter: step, row, draw index, stream. A draw depends on nothing else.

References
----------
Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitalrank.kernels.compiling import LEAN, njit

# Purposes of a stream; two of them never share a counter.
PROPOSE = 0
RANK = 1
FACTOR = 2
FALLBACK = 3
SHUFFLE = 4
INITIAL = 5
CLUSTER = 6
DROP = 7
MIX = 8
CHOICE = 9
BLOCKS = 10
STREAMS = 16  # stream = purpose + STREAMS * index of the negative among the k of a row

ROUNDS = 10
ROUND_WORDS = 0xD2511F53, 0xCD9E8D57  # multipliers of each round
ROUND_KEYS = 0x9E3779B9, 0xBB67AE85  # key increments (Weyl sequence)

LANES = 8  # blocks generated at once
PAIRS = 2 * LANES  # a block of four words holds two pairs

_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
_ROUND_0, _ROUND_1 = (np.uint64(factor) for factor in ROUND_WORDS)
_WEYL_0, _WEYL_1 = (np.uint64(more) for more in ROUND_KEYS)
_UNIT_32 = 2.0**-32
_UNIT_53 = 2.0**-53


@njit(inline="always", cache=True, **LEAN)
def philox(seed: Any, step: Any, row: Any, draw: Any, stream: Any) -> Any:
    """Four random 32-bit words (as uint64) for one counter."""
    key_0 = np.uint64(seed) & _LOW
    key_1 = np.uint64(seed) >> _SHIFT
    a = np.uint64(step) & _LOW
    b = np.uint64(row) & _LOW
    c = np.uint64(draw) & _LOW
    d = np.uint64(stream) & _LOW
    for _ in range(ROUNDS):
        left = a * _ROUND_0
        right = c * _ROUND_1
        a, b, c, d = (right >> _SHIFT) ^ b ^ key_0, right & _LOW, (left >> _SHIFT) ^ d ^ key_1, left & _LOW
        key_0 = (key_0 + _WEYL_0) & _LOW
        key_1 = (key_1 + _WEYL_1) & _LOW
    return a, b, c, d


@njit(inline="always", cache=True, **LEAN)
def below(word: Any, n: Any) -> Any:
    """A number in 0..n-1 from a 32-bit word; uniform to within n / 2**32."""
    return np.int64((np.uint64(word) * np.uint64(n)) >> _SHIFT)


@njit(inline="always", cache=True, **LEAN)
def unit(word: Any) -> Any:
    """A float in [0, 1) from a 32-bit word."""
    return np.float64(word) * _UNIT_32


@njit(inline="always", cache=True, **LEAN)
def fine_unit(high: Any, low: Any) -> Any:
    """A float in [0, 1) with 53 random bits from two words."""
    return np.float64(((np.uint64(high) << _SHIFT) | np.uint64(low)) >> np.uint64(11)) * _UNIT_53


def new_words() -> NDArray[np.uint64]:
    """A buffer for the pairs around a draw index."""
    return np.empty((4, LANES), np.uint64)


@njit(inline="always", cache=True, **LEAN)
def word_pair(words: Any, draw: Any) -> Any:
    """The ``draw``-th pair of words of a stream: block ``draw // 2``, its first or second half.

    ``words`` must hold the pairs around it.
    """
    half = 2 * (draw & 1)
    lane = (draw >> 1) & (LANES - 1)
    return words[half, lane], words[half + 1, lane]
