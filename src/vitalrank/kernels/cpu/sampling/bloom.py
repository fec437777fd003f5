"""A per-user Bloom filter over seen items; a negative answer skips the binary search."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.memory import large_zeros
from vitalrank.kernels.compiling import LEAN, njit
from vitalrank.kernels.cpu.runtime.intrinsics import prefetch_line
from vitalrank.kernels.proposals import BLOOM_HASH, BLOOM_ITEMS_PER_WORD, BLOOM_WORDS
from vitalrank.kernels.rng import below

_ONE = np.uint64(1)
_SHIFT = BLOOM_ITEMS_PER_WORD.bit_length() - 1  # a shift is faster than a division
_HASH, _LOW, _LAST = np.uint64(BLOOM_HASH), np.uint64(0xFFFFFFFF), np.uint64(63)
_WORD = 8  # bytes
_LINE = 8  # words of a cache line
_MAX_PREFETCH = 16 * _LINE  # words; longer filters are read without


def new_bloom_filter(
    indptr: NDArray[np.int64], items: NDArray[np.int32], first: int = 0, last: int | None = None
) -> NDArray[np.uint64]:
    """The Bloom filters of all users, one after another; only those from ``first`` to before ``last`` are filled.

    Examples
    --------
    >>> bloom = new_bloom_filter(np.array([0, 2, 2]), np.array([5, 700], np.int32))
    >>> bloom.shape, int(np.bitwise_count(bloom).sum())
    ((17,), 4)
    """
    words = first_word.py_func(int(indptr[-1]), len(indptr) - 1)  # not worth compiling
    bloom = large_zeros((words,), np.uint64)
    _write(indptr, items, first, len(indptr) - 1 if last is None else last, bloom)
    return bloom


@njit(inline="always", cache=True, **LEAN)
def first_word(start: Any, user: Any) -> Any:
    """Index of the first word of a user whose items begin at ``start``."""
    return (start >> _SHIFT) + BLOOM_WORDS * user


@njit(inline="always", cache=True, **LEAN)
def word_and_mask(indptr: Any, user: Any, item: Any) -> Any:
    """The word of a user's filter that an item hashes to, and the mask of its two bits."""
    begin = first_word(indptr[user], user)
    bits = (first_word(indptr[user + 1], user + 1) - begin) << 6
    hashed = (np.uint64(item) * _HASH) & _LOW
    bit = below(hashed, bits)
    return begin + (bit >> 6), (_ONE << np.uint64(bit & 63)) | (_ONE << (hashed & _LAST))


@njit(inline="always", cache=True, **LEAN)
def maybe_seen(seen: Any, user: Any, item: Any) -> Any:
    """False only if the user has not seen the item."""
    word, mask = word_and_mask(seen.indptr, user, item)
    return seen.bloom[word] & mask == mask


@njit(inline="always", cache=True, **LEAN)
def prefetch_words(seen: Any, user: Any) -> None:
    """Prefetch a user's filter."""
    begin, end = first_word(seen.indptr[user], user), first_word(seen.indptr[user + 1], user + 1)
    for word in range(begin, min(end, begin + _MAX_PREFETCH), _LINE):
        prefetch_line(seen.bloom, word * _WORD)


@njit(inline="always", cache=True, **LEAN)
def prefetch_word(seen: Any, user: Any, item: Any) -> None:
    """Prefetch the one word that an item hashes to."""
    prefetch_line(seen.bloom, word_and_mask(seen.indptr, user, item)[0] * _WORD)


@njit(cache=True, **LEAN)
def _write(indptr: Any, items: Any, first: Any, last: Any, bloom: Any) -> None:
    for user in range(first, last):
        for index in range(indptr[user], indptr[user + 1]):
            word, mask = word_and_mask(indptr, user, items[index])
            bloom[word] |= mask
