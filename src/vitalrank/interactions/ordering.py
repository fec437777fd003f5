"""Sorting of rows by user and time, detection of repeated pairs, renumbering without gaps."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from vitalrank.interactions.encoding import Codes, Ids

Permutation = NDArray[np.integer[Any]]
_PREFIX = 1000  # rows


def starts(counts: NDArray[Any]) -> NDArray[np.int64]:
    """Row pointers: the exclusive prefix sum of counts, and their total."""  # (n + 1,)
    starts = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts


def row_order(users: Codes, times: NDArray[Any] | None) -> Permutation | None:
    """Stable order by user and time; None when the rows are sorted already."""
    prefix = users[:_PREFIX]  # most unsorted files show it in their first rows
    if (prefix[1:] < prefix[:-1]).any():
        return _sorted(users, times)
    step = np.diff(users)
    if step.min(initial=0) >= 0 and (times is None or not ((step == 0) & (times[1:] < times[:-1])).any()):
        return None
    return _sorted(users, times)


def _sorted(users: Codes, times: NDArray[Any] | None) -> Permutation:
    if times is None:
        return stable_order(users)
    by_time = _time_order(times)
    return by_time.take(stable_order(users.take(by_time)))


def _row_numbers(count: int) -> Permutation:
    return np.arange(count, dtype=np.int32 if count < 1 << 31 else np.int64)


def stable_order(codes: Codes) -> Permutation:
    """Stable order by small numbers. A one-row matrix turned to columns is scipy's compiled counting sort."""
    rows = _row_numbers(len(codes))
    return csr_matrix((rows, codes, [0, len(codes)])).tocsc().data


def _time_order(times: NDArray[Any]) -> Permutation:
    """Stable order by time; integers within a range of 32 bits take two counting sorts."""
    least = times.min()
    if times.dtype != np.int64 or times.max() - least >= 1 << 32:
        return np.argsort(times, kind="stable")
    offsets = (times - least).astype(np.uint32)
    order = stable_order((offsets & 0xFFFF).astype(np.int32))
    return order.take(stable_order((offsets >> 16).astype(np.int32).take(order)))


def first_of_pairs(indptr: NDArray[np.int64], items: Codes, n_items: int) -> NDArray[np.bool_] | None:
    """Marks the first row of each (user, item) pair; None when no pair repeats."""
    rows = _row_numbers(len(items))
    # One transposition lists every item's users in order: a repeated pair's rows come one after the other.
    by_item = csr_matrix((rows, items, indptr), shape=(len(indptr) - 1, n_items)).tocsc()
    repeat = by_item.indices[1:] == by_item.indices[:-1]
    begins = by_item.indptr[1:-1]
    repeat[begins[(begins > 0) & (begins < len(items))] - 1] = False
    if not repeat.any():
        return None
    first = np.ones(len(items), np.bool_)
    first[by_item.data[1:][repeat]] = False
    return first


def renumber(ids: Ids, codes: Codes) -> tuple[Ids, Codes]:
    """Keep only the ids that occur."""
    present = np.zeros(len(ids), np.bool_)
    present[codes] = True
    if present.all():
        return ids, codes
    rank = np.cumsum(present, dtype=np.int32) - np.int32(1)
    return ids[present], rank[codes]
