"""Whether a user has seen an item: the Bloom filter first, then a binary search of the user's items."""

from __future__ import annotations

from typing import Any

import numpy as np

from vitalrank.kernels.compiling import INNER, LEAN, njit
from vitalrank.kernels.cpu.runtime.intrinsics import prefetch_line
from vitalrank.kernels.cpu.sampling.bloom import maybe_seen, prefetch_words

_AHEAD = 8  # rows
_INDEX = 8  # bytes


@njit(inline="always", cache=True, **LEAN)
def owner_of(seen: Any, row: Any) -> Any:
    """The user of a row of a batch, where rows stand for users; else what is given is the user."""
    return np.int64(seen.owner[row]) if len(seen.owner) > 0 else np.int64(row)


@njit(inline="always", cache=True, **LEAN)
def is_seen(seen: Any, user: Any, item: Any) -> Any:
    """Whether the user has seen the item, or it did not exist at the time of the row that stands for the user."""
    if len(seen.owner) > 0:
        return seen.first_seen[item] >= seen.before[user] or _is_among(seen, seen.owner[user], item)
    return _is_among(seen, user, item)


@njit(inline="always", cache=True, **LEAN)
def _is_among(seen: Any, user: Any, item: Any) -> Any:
    return maybe_seen(seen, user, item) and _contains(seen.items, seen.indptr[user], seen.indptr[user + 1], item)


@njit(cache=True, **INNER)
def _contains(items: Any, start: Any, end: Any, item: Any) -> Any:
    size = end - start
    while size > 1:  # binary search without a branch to mispredict
        half = size >> 1
        start += half if items[start + half] <= item else 0
        size -= half
    return items[start] == item


@njit(inline="always", cache=True, **LEAN)
def is_exhausted(seen: Any, user: Any) -> Any:
    """Whether the user has no unseen item in the pool."""
    return seen.any_exhausted and seen.unseen[user] == 0


@njit(inline="always", cache=True, **LEAN)
def prefetch_seen(seen: Any, users: Any, r: Any) -> None:
    """Prefetch the Bloom filter of the user of row ``r``, and the index that locates a later user's."""
    if r + _AHEAD < len(users):
        prefetch_line(seen.indptr, owner_of(seen, users[r + _AHEAD]) * _INDEX)
    if r < len(users):
        prefetch_words(seen, owner_of(seen, users[r]))


@njit(inline="always", cache=True, **LEAN)
def prefetch_indptr(seen: Any, user: Any) -> None:
    """Prefetch the index that locates a user's Bloom filter."""
    prefetch_line(seen.indptr, owner_of(seen, user) * _INDEX)
