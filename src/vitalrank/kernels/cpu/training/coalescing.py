"""Coalescing of sparse gradients: the occurrences of each row in a batch, by a counting sort in O(batch)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vitalrank.kernels.compiling import INNER, LEAN, njit
from vitalrank.kernels.cpu.runtime.intrinsics import prefetch_line

_AHEAD = 16  # occurrences whose slots are prefetched before they are counted
_INT = 4  # bytes


class Coalesced(NamedTuple):
    """Occurrences of a batch grouped by row: ``order[starts[g]:starts[g + 1]]`` are those of ``rows[g]``.

    An occurrence is named by its number, or by its label where there are labels.
    """

    slot: NDArray[np.int32]  # (table,) -1 between batches
    row_of: NDArray[np.int32]  # (occurrences,) row of each occurrence, -1 for none
    rows: NDArray[np.int32]  # (occurrences,) in order of first occurrence
    starts: NDArray[np.int32]  # (occurrences + 1,)
    order: NDArray[np.int32]  # (occurrences,)
    labels: NDArray[np.int32]  # (occurrences,) or (0,)


def new_coalesced(table: int, occurrences: int, labelled: bool = False) -> Coalesced:
    """Buffers for batches of so many occurrences over a table of so many rows.

    Examples
    --------
    >>> coalesced = new_coalesced(table=9, occurrences=4)
    >>> coalesced.row_of[:] = 7, 3, -1, 7
    >>> found = coalesce(coalesced, 4)
    >>> coalesced.rows[:found].tolist(), coalesced.starts[: found + 1].tolist(), coalesced.order[:3].tolist()
    ([7, 3], [0, 2, 3], [0, 3, 1])
    """
    rows, order, row_of = (np.zeros(occurrences, np.int32) for _ in range(3))
    starts, labels = np.zeros(occurrences + 1, np.int32), np.zeros(occurrences if labelled else 0, np.int32)
    return Coalesced(np.full(table, -1, np.int32), row_of, rows, starts, order, labels)


@njit(cache=True, **LEAN)
def coalesce(coalesced: Any, occurrences: Any) -> Any:
    """Group the first ``occurrences`` entries of ``row_of``, which is overwritten; returns the number of groups."""
    found, labelled = 0, len(coalesced.labels) > 0
    for occurrence in range(occurrences):
        if occurrence + _AHEAD < occurrences:
            prefetch_line(coalesced.slot, max(coalesced.row_of[occurrence + _AHEAD], 0) * _INT)
        row = coalesced.row_of[occurrence]
        if row < 0:
            continue
        group = coalesced.slot[row]
        if group < 0:
            group = found
            found += 1
            coalesced.slot[row] = group
            coalesced.rows[group] = row
            coalesced.starts[group] = 0
        coalesced.starts[group] += 1
        coalesced.row_of[occurrence] = group
    total = 0
    for group in range(found):
        total += coalesced.starts[group]
        coalesced.starts[group] = total
        coalesced.slot[coalesced.rows[group]] = -1
    coalesced.starts[found] = total
    # Backwards: each group's occurrences come out ascending, and its end becomes its start.
    for occurrence in range(occurrences - 1, -1, -1):
        group = coalesced.row_of[occurrence]
        if group >= 0:
            coalesced.starts[group] -= 1
            coalesced.order[coalesced.starts[group]] = coalesced.labels[occurrence] if labelled else occurrence
    return found


@njit(inline="always", cache=True, **LEAN)
def is_drawn(ids: Any, b: Any) -> Any:
    """Whether the positive got any negative; without one it is skipped."""
    for c in range(ids.shape[1]):  # noqa: SIM110  (Numba has no any over a generator)
        if ids[b, c] >= 0:
            return True
    return False


@njit(inline="always", cache=True, **LEAN)
def group_users(batch: Any, ids: Any, coalesced: Any) -> Any:
    """Group the positives of a batch by user; returns the number of groups."""
    for b in range(len(ids)):
        coalesced.row_of[b] = batch.users[b] if is_drawn(ids, b) else -1
    return coalesce(coalesced, len(ids))


@njit(inline="always", cache=True, **LEAN)
def group_items(batch: Any, ids: Any, coalesced: Any) -> Any:
    """Group the positives and negatives of a batch by item; returns the number of groups."""
    width = ids.shape[1] + 1
    for b in range(len(ids)):
        coalesced.row_of[b * width] = batch.positives[b] if is_drawn(ids, b) else -1
        for c in range(ids.shape[1]):
            coalesced.row_of[b * width + 1 + c] = ids[b, c]
    return coalesce(coalesced, len(ids) * width)


@njit(cache=True, **INNER)
def shard_bounds(starts: Any, found: Any, shard: Any, shards: Any) -> Any:
    """Bounds of one shard of the groups; a group costs as much as each of its occurrences.

    Shards of equal numbers of groups would be unbalanced: the rows that occur first are the most frequent ones.
    """
    return _cut(starts, found, shard, shards), _cut(starts, found, shard + 1, shards)


@njit(cache=True, **INNER)
def _cut(starts: Any, found: Any, shard: Any, shards: Any) -> Any:
    goal = (found + starts[found]) * shard // shards
    low, high = 0, found
    while low < high:
        middle = (low + high) >> 1
        if middle + starts[middle] < goal:
            low = middle + 1
        else:
            high = middle
    return low
