"""The time at which a log on disk is cut, found by counting."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from vitalrank._util.typing import Array
from vitalrank.interactions.cutoffs import NumPyTime, checked_cut, rows_of_share

Read = Callable[[], Iterable[Array]]  # the times of a log, a piece at a time, as often as it is called
_BINS = 1 << 16
_FEW = 1 << 20  # times that are sorted at once


def cutoff_on_disk(read: Read, share: float, name: str) -> float:
    """`vitalrank.interactions.cutoffs.cutoff_of_share` of times that memory does not hold.

    Examples
    --------
    >>> cutoff_on_disk(lambda: [np.array([3, 9]), np.array([5, 1])], 0.5, "share")
    5
    """
    held = rows_of_share(sum(len(times) for times in read()), share, name)
    if not held:
        return np.inf
    return checked_cut(_kth_largest(read, held), min(times.min() for times in read() if len(times)), share, name)


def _kth_largest(read: Read, k: int) -> NumPyTime:
    """The k-th largest value, by counting between bounds that come closer with each pass."""
    low = min(times.min() for times in read() if len(times))
    high = max(times.max() for times in read() if len(times))
    above = 0  # values larger than ``high``
    while True:
        inside = sum(int(np.count_nonzero((times >= low) & (times <= high))) for times in read())
        if inside <= _FEW or low == high:
            found = np.concatenate([times[(times >= low) & (times <= high)] for times in read()])
            value: NumPyTime = np.partition(found, len(found) - (k - above))[len(found) - (k - above)]
            return value
        edges = _edges(low, high)
        counts = np.zeros(len(edges) - 1, np.int64)
        for times in read():
            bins = np.searchsorted(edges, times[(times >= low) & (times <= high)], side="right") - 1
            counts += np.bincount(np.minimum(bins, len(counts) - 1), minlength=len(counts))
        from_top = above + np.cumsum(counts[::-1])
        chosen = len(counts) - 1 - int(np.searchsorted(from_top, k))
        above += int(counts[chosen + 1 :].sum())
        last = chosen == len(counts) - 1
        low, high = edges[chosen], high if last else _before(edges[chosen + 1])


def _edges(low: NumPyTime, high: NumPyTime) -> Array:
    """Bounds of bins between two times, the first and the last among them, ascending."""
    if isinstance(low, np.integer):
        step = max(1, (int(high) - int(low)) // _BINS + 1)
        return np.arange(int(low), int(high) + step + 1, step)
    return np.unique(np.append(np.linspace(low, high, _BINS), [low, np.nextafter(high, np.inf)]))


def _before(edge: NumPyTime) -> NumPyTime:
    lower: NumPyTime = edge - 1 if isinstance(edge, np.integer) else np.nextafter(edge, -np.inf)
    return lower
