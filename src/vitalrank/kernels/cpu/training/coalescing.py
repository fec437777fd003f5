"""Which rows of a table a batch touches, and where: a counting sort that never looks at the whole table."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from vitalrank.kernels.compiling import INNER, LEAN
from vitalrank.kernels.cpu.runtime.intrinsics import prefetch_line

_AHEAD = 16  # places whose rows are asked for before they are counted
_INT = 4  # bytes


class Groups(NamedTuple):
    """Places of a batch grouped by the row they touch: ``order[starts[g]:starts[g + 1]]`` belong to ``rows[g]``."""

    slot: NDArray[np.int32]  # (table,) -1 between batches
    touched: NDArray[np.int32]  # (places,) row touched at each place, -1 for none
    rows: NDArray[np.int32]  # (places,) in order of first touch
    starts: NDArray[np.int32]  # (places + 1,)
    order: NDArray[np.int32]  # (places,)


def new_groups(table: int, places: int) -> Groups:
    """Buffers for batches of so many places over a table of so many rows.

    Examples
    --------
    >>> groups = new_groups(table=9, places=4)
    >>> groups.touched[:] = 7, 3, -1, 7
    >>> found = group_places(groups, 4)
    >>> groups.rows[:found].tolist(), groups.starts[: found + 1].tolist(), groups.order[:3].tolist()
    ([7, 3], [0, 2, 3], [0, 3, 1])
    """
    rows, order, touched = (np.zeros(places, np.int32) for _ in range(3))
    return Groups(np.full(table, -1, np.int32), touched, rows, np.zeros(places + 1, np.int32), order)


@njit(cache=True, **LEAN)
def group_places(groups: Any, places: Any) -> Any:
    """Group the first ``places`` entries of ``touched``, which is used up; returns the number of groups."""
    found = 0
    for place in range(places):
        if place + _AHEAD < places:
            prefetch_line(groups.slot, max(groups.touched[place + _AHEAD], 0) * _INT)
        row = groups.touched[place]
        if row < 0:
            continue
        group = groups.slot[row]
        if group < 0:
            group = found
            found += 1
            groups.slot[row] = group
            groups.rows[group] = row
            groups.starts[group] = 0
        groups.starts[group] += 1
        groups.touched[place] = group
    total = 0
    for group in range(found):
        total += groups.starts[group]
        groups.starts[group] = total
        groups.slot[groups.rows[group]] = -1
    groups.starts[found] = total
    # From the back: each group's places come out ascending, and its end becomes its start.
    for place in range(places - 1, -1, -1):
        group = groups.touched[place]
        if group >= 0:
            groups.starts[group] -= 1
            groups.order[groups.starts[group]] = place
    return found


@njit(inline="always", cache=True, **LEAN)
def is_drawn(ids: Any, b: Any) -> Any:
    """Whether the positive got any negative; without one it is left out of the step."""
    for c in range(ids.shape[1]):  # noqa: SIM110  (Numba has no any over a generator)
        if ids[b, c] >= 0:
            return True
    return False


@njit(inline="always", cache=True, **LEAN)
def group_users(batch: Any, ids: Any, groups: Any) -> Any:
    """Group the positives of a batch by user; returns the number of groups."""
    for b in range(len(ids)):
        groups.touched[b] = batch.users[b] if is_drawn(ids, b) else -1
    return group_places(groups, len(ids))


@njit(inline="always", cache=True, **LEAN)
def group_items(batch: Any, ids: Any, groups: Any) -> Any:
    """Group the positives and negatives of a batch by item; returns the number of groups."""
    width = ids.shape[1] + 1
    for b in range(len(ids)):
        groups.touched[b * width] = batch.positives[b] if is_drawn(ids, b) else -1
        for c in range(ids.shape[1]):
            groups.touched[b * width + 1 + c] = ids[b, c]
    return group_places(groups, len(ids) * width)


@njit(cache=True, **INNER)
def share_of(starts: Any, found: Any, part: Any, parts: Any) -> Any:
    """Where the part-th of so many parts of the groups begins and ends, a group counting as much as each of its places.

    Halves of as many groups would not be alike: the rows touched first are those touched most often.
    """
    return _cut(starts, found, part, parts), _cut(starts, found, part + 1, parts)


@njit(cache=True, **INNER)
def _cut(starts: Any, found: Any, part: Any, parts: Any) -> Any:
    goal = (found + starts[found]) * part // parts
    low, high = 0, found
    while low < high:
        middle = (low + high) >> 1
        if middle + starts[middle] < goal:
            low = middle + 1
        else:
            high = middle
    return low
