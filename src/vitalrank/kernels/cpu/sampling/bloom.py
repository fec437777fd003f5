"""A few bits for each user that tell what he has certainly not seen: most candidates need no longer look."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from vitalrank._util.memory import large_zeros
from vitalrank.kernels.compiling import LEAN
from vitalrank.kernels.cpu.runtime.intrinsics import prefetch_line
from vitalrank.kernels.proposals import SIEVE_HASH, SIEVE_SHARE, SIEVE_WORDS
from vitalrank.kernels.rng import below

_ONE = np.uint64(1)
_SHIFT = SIEVE_SHARE.bit_length() - 1  # a shift is quicker than a division
_HASH, _LOW, _LAST = np.uint64(SIEVE_HASH), np.uint64(0xFFFFFFFF), np.uint64(63)
_WORD = 8  # bytes
_LINE = 8  # words of a cache line
_ASKED = 16 * _LINE  # words asked for; who has seen more pays for them


def new_sieve(indptr: NDArray[np.int64], items: NDArray[np.int32]) -> NDArray[np.uint64]:
    """The sieve of all users, for what each has seen.

    Examples
    --------
    >>> sieve = new_sieve(np.array([0, 2, 2]), np.array([5, 700], np.int32))
    >>> sieve.shape, int(np.bitwise_count(sieve).sum())
    ((17,), 4)
    """
    words = first_word.py_func(int(indptr[-1]), len(indptr) - 1)  # too little to compile for
    sieve = large_zeros((words,), np.uint64)
    _write(indptr, items, sieve)
    return sieve


@njit(inline="always", cache=True, **LEAN)
def first_word(start: Any, user: Any) -> Any:
    """Where the words of a user begin whose row begins at ``start``."""
    return (start >> _SHIFT) + SIEVE_WORDS * user


@njit(inline="always", cache=True, **LEAN)
def mark_of(indptr: Any, user: Any, item: Any) -> Any:
    """The word of the sieve that tells of a user and an item, and its two bits that do."""
    begin = first_word(indptr[user], user)
    bits = (first_word(indptr[user + 1], user + 1) - begin) << 6
    hashed = (np.uint64(item) * _HASH) & _LOW
    bit = below(hashed, bits)
    return begin + (bit >> 6), (_ONE << np.uint64(bit & 63)) | (_ONE << (hashed & _LAST))


@njit(inline="always", cache=True, **LEAN)
def is_marked(seen: Any, user: Any, item: Any) -> Any:
    """False only if the user has not touched the item."""
    word, mark = mark_of(seen.indptr, user, item)
    return seen.sieve[word] & mark == mark


@njit(inline="always", cache=True, **LEAN)
def ask_for_words(seen: Any, user: Any) -> None:
    """Start loading the user's words."""
    begin, end = first_word(seen.indptr[user], user), first_word(seen.indptr[user + 1], user + 1)
    for word in range(begin, min(end, begin + _ASKED), _LINE):
        prefetch_line(seen.sieve, word * _WORD)


@njit(inline="always", cache=True, **LEAN)
def ask_for_word(seen: Any, user: Any, item: Any) -> None:
    """Start loading the one word that tells of the user and the item."""
    prefetch_line(seen.sieve, mark_of(seen.indptr, user, item)[0] * _WORD)


@njit(cache=True, **LEAN)
def _write(indptr: Any, items: Any, sieve: Any) -> None:
    for user in range(len(indptr) - 1):
        for place in range(indptr[user], indptr[user + 1]):
            word, mark = mark_of(indptr, user, items[place])
            sieve[word] |= mark
