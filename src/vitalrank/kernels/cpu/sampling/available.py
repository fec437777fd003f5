"""What had been seen of the catalogue before a row of the log, for batches that count later items as seen."""

from __future__ import annotations

from typing import Any

from vitalrank.kernels.compiling import LEAN, njit
from vitalrank.kernels.cpu.runtime.parallel import parallel_for


def find_before(seen: Any, users: Any, positives: Any, before_row: Any, otherwise: int, before: Any) -> None:
    """Fill ``before`` (B,) from ``before_row`` (N,), aligned with ``seen.items``, for the pairs of a batch.

    A pair that is no row gets ``otherwise``.
    """

    def shard(begin: int, end: int) -> None:
        _find(begin, end, seen, users, positives, before_row, otherwise, before)

    parallel_for(len(users), shard)


@njit(nogil=True, cache=True, **LEAN)
def _find(
    begin: Any, end: Any, seen: Any, users: Any, positives: Any, before_row: Any, otherwise: Any, before: Any
) -> None:
    for b in range(begin, end):
        low, stop = seen.indptr[users[b]], seen.indptr[users[b] + 1]
        high = stop
        while low < high:
            middle = (low + high) >> 1
            if seen.items[middle] < positives[b]:
                low = middle + 1
            else:
                high = middle
        before[b] = before_row[low] if low < stop and seen.items[low] == positives[b] else otherwise


def sum_unseen(seen: Any, weights: Any, left: Any) -> None:
    """Subtract from ``left`` (B,), weights of what existed, those (n,) of what each row's user has seen of it."""
    parallel_for(len(left), lambda begin, end: _sum(begin, end, seen, weights, left), cost=4)


@njit(nogil=True, cache=True, **LEAN)
def _sum(begin: Any, end: Any, seen: Any, weights: Any, left: Any) -> None:
    for b in range(begin, end):
        user = seen.owner[b]
        for p in range(seen.indptr[user], seen.indptr[user + 1]):
            if seen.first_seen[seen.items[p]] < seen.before[b]:
                left[b] -= weights[seen.items[p]]
