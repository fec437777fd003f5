"""Sorting of rows by user and time, detection of repeated pairs, renumbering without gaps."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from vitalrank.interactions.encoding import Codes, Ids

RowOrder = NDArray[np.integer[Any]]
_PREFIX = 1000  # rows


def starts(counts: NDArray[Any]) -> NDArray[np.int64]:
    """Row pointers: the exclusive prefix sum of counts, and their total."""  # (n + 1,)
    starts = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts


def row_order(users: Codes, times: NDArray[Any] | None) -> RowOrder | None:
    """Stable order by user and time; None when the rows are sorted already."""
    prefix = users[:_PREFIX]  # most unsorted files show it in their first rows
    if (prefix[1:] < prefix[:-1]).any():
        return _sorted(users, times)
    step = np.diff(users)
    if step.min(initial=0) >= 0 and (times is None or not ((step == 0) & (times[1:] < times[:-1])).any()):
        return None
    return _sorted(users, times)


def _sorted(users: Codes, times: NDArray[Any] | None) -> RowOrder:
    if times is None:
        return stable_order(users)
    by_time = _time_order(times)
    return by_time.take(stable_order(users.take(by_time)))


def _row_numbers(count: int) -> RowOrder:
    return np.arange(count, dtype=np.int32 if count < 1 << 31 else np.int64)


def stable_order(codes: Codes) -> RowOrder:
    """Stable order by small numbers. A one-row matrix turned to columns is scipy's compiled counting sort."""
    rows = _row_numbers(len(codes))
    return csr_matrix((rows, codes, [0, len(codes)])).tocsc().data


def _time_order(times: NDArray[Any]) -> RowOrder:
    """Stable order by time; integers within a range of 32 bits take two counting sorts."""
    least = times.min()
    if times.dtype != np.int64 or times.max() - least >= 1 << 32:
        return np.argsort(times, kind="stable")
    offsets = (times - least).astype(np.uint32)
    order = stable_order((offsets & 0xFFFF).astype(np.int32))
    return order.take(stable_order((offsets >> 16).astype(np.int32).take(order)))


class Pairs(NamedTuple):
    """The rows of repeated (user, item) pairs, grouped by pair, and oldest first within a pair."""

    rows: RowOrder  # (N,) all rows
    repeats: NDArray[np.bool_]  # (N - 1,) whether rows[p + 1] is of the pair of rows[p]

    def kept(self, last: bool) -> NDArray[np.bool_]:
        """Marks the first row of each pair, or the last."""  # (N,)
        kept = np.ones(len(self.rows), np.bool_)
        kept[(self.rows[:-1] if last else self.rows[1:])[self.repeats]] = False
        return kept

    def sums(self, values: NDArray[Any] | None) -> NDArray[np.float64]:
        """The sum of the values of each pair's rows, or their number, at the pair's last row."""  # (N,)
        pair = np.concatenate([[0], np.cumsum(~self.repeats)])  # (N,)
        summed = np.bincount(pair, None if values is None else values[self.rows]).astype(np.float64)
        sums = np.zeros(len(self.rows))
        sums[self.rows] = summed[pair]
        return sums


def find_repeats(indptr: NDArray[np.int64], items: Codes, n_items: int) -> Pairs | None:
    """The pairs of users and items, by row; None when no pair repeats."""
    rows = _row_numbers(len(items))
    # One transposition lists every item's users in order: a repeated pair's rows come one after the other.
    by_item = csr_matrix((rows, items, indptr), shape=(len(indptr) - 1, n_items)).tocsc()
    repeats = by_item.indices[1:] == by_item.indices[:-1]
    begins = by_item.indptr[1:-1]
    repeats[begins[(begins > 0) & (begins < len(items))] - 1] = False
    return Pairs(by_item.data, repeats) if repeats.any() else None


def renumber(ids: Ids, codes: Codes) -> tuple[Ids, Codes]:
    """Keep only the ids that occur."""
    present = np.zeros(len(ids), np.bool_)
    present[codes] = True
    if present.all():
        return ids, codes
    rank = np.cumsum(present, dtype=np.int32) - np.int32(1)
    return ids[present], rank[codes]


def row_users(indptr: NDArray[np.int64], first: int, last: int) -> NDArray[np.int32]:
    """The user of each row of the users from ``first`` to before ``last``; rows of others are 0 and take no memory.

    Examples
    --------
    >>> row_users(np.array([0, 2, 3, 5]), 1, 3)
    array([0, 0, 1, 2, 2], dtype=int32)
    """  # (N,)
    users = np.zeros(int(indptr[-1]), np.int32)
    numbers = np.arange(first, last, dtype=np.int32)
    users[indptr[first] : indptr[last]] = np.repeat(numbers, np.diff(indptr[first : last + 1]))
    return users
