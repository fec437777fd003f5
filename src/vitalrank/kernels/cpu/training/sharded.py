"""A batch whose positives belong to several ranks: each loads its own, and lays out what it got from all in order.

A rank's message has two parts, in words of 32 bits. The first holds the queries (n, d) of its ``n`` positives, in the
order of the batch; the items are updated from them where they lie. The second holds a header, then the positives' score
gradients (n, 1 + k), ids (n, 1 + k) and losses (n,), one after the other.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vitalrank.kernels.compiling import LEAN, njit
from vitalrank.kernels.cpu.runtime.intrinsics import prefetch_line
from vitalrank.kernels.cpu.runtime.parallel import parallel_for
from vitalrank.kernels.cpu.training.batches import Batch, copy_query, copy_weight
from vitalrank.kernels.cpu.training.permutation import fill_rows

HEADER = 16  # words
_ROWS = 64  # of a block that stays in the cache
_INT = 4  # bytes
_COST = 1  # of a positive that is laid out, in units of 0.1 us


class Owners(NamedTuple):
    """Whose each positive of a batch is."""

    owner: NDArray[np.int32]  # (B,) rank
    number: NDArray[np.int64]  # (B,) its number among that rank's
    counts: NDArray[np.int64]  # (R,) positives of each rank


def words_of(count: int, negatives: int) -> int:
    """Words of the second part of the message about so many positives.

    Examples
    --------
    >>> (words_of(1000, negatives=1) - words_of(0, negatives=1)) * 4 / 1000  # bytes each, and 4 d for the query
    20.0
    """
    return HEADER + count * (2 * (1 + negatives) + 1)


def load_own(
    permutation: Any, start: int, bounds: NDArray[np.int64], rank: int, log: Any, table: Any, batch: Batch,
    positions: NDArray[np.uint32], owners: Owners,
) -> int:  # fmt: skip
    """Fill the batch with the positives of one rank, and ``owners`` for all; returns how many they are.

    ``bounds`` (R + 1,) are the rows of the log where each rank's begin, ``positions`` (B,) the numbers in the batch of
    the positives that were loaded. ``log`` has users, items and weights; ``table`` is the users', (U, 1 + s, d).
    """
    owners.counts.fill(0)
    rows = np.empty(_ROWS, np.int64)
    return int(
        _load_own(permutation, start, bounds, rank, rows, log.users, log.items, log.weights, table, batch, positions,
                  owners)
    )  # fmt: skip


@njit(nogil=True, cache=True, **LEAN)
def _load_own(
    permutation: Any, start: Any, bounds: Any, rank: Any, rows: Any, log_users: Any, log_items: Any, log_weights: Any,
    table: Any, batch: Any, positions: Any, owners: Any,
) -> Any:  # fmt: skip
    own = 0
    size = len(owners.owner)
    for first in range(0, size, _ROWS):
        last = min(first + _ROWS, size)
        fill_rows(permutation, start + first, rows[: last - first])
        begin = own
        for b in range(first, last):
            row = rows[b - first]
            owner = _owner_of(row, bounds)
            owners.owner[b] = owner
            owners.number[b] = owners.counts[owner]
            owners.counts[owner] += 1
            if owner == rank:
                positions[own] = b
                rows[own - begin] = row  # at or before the place that was read
                prefetch_line(log_users, row * _INT)
                prefetch_line(log_items, row * _INT)
                own += 1
        for local in range(begin, own):
            row = rows[local - begin]
            batch.users[local] = log_users[row]
            batch.positives[local] = log_items[row]
            copy_weight(local, row, log_weights, batch.weights)
            if batch.eager_queries:
                copy_query(local, batch.users[local], table, batch.queries)
    return own


@njit(inline="always", cache=True, **LEAN)
def _owner_of(row: Any, bounds: Any) -> Any:
    """The last rank whose rows begin at or before ``row``."""
    low, high = 0, len(bounds) - 1
    while low + 1 < high:
        middle = (low + high) >> 1
        if row >= bounds[middle]:
            low = middle
        else:
            high = middle
    return low


def all_positives(permutation: Any, start: int, log_items: Any, positives: NDArray[np.int32]) -> None:
    """Fill the positives of a whole batch, for a sampler that draws from them."""
    _all_positives(permutation, start, np.empty(len(positives), np.int64), log_items, positives)


@njit(nogil=True, cache=True, **LEAN)
def _all_positives(permutation: Any, start: Any, rows: Any, log_items: Any, positives: Any) -> None:
    fill_rows(permutation, start, rows)
    for b in range(len(rows)):
        positives[b] = log_items[rows[b]]


class Laid(NamedTuple):
    """The positives of all ranks in the order of the batch; only score gradients are in that of the queries."""

    positives: NDArray[np.int32]  # (B,)
    ids: NDArray[np.int64]  # (B, k)
    score_grads: NDArray[np.float32]  # (query rows, 1 + k)
    losses: NDArray[np.float32]  # (B,)
    labels: NDArray[np.int32]  # (B * (1 + k),) where the score gradient of an occurrence lies


def lay_out(
    owners: Owners, first_rows: NDArray[np.int64], starts: NDArray[np.int64], words: NDArray[np.float32], laid: Laid
) -> None:
    """Lay out the second part of the ranks' messages.

    Rank r's begins at ``words[starts[r]]``, and its queries at the row ``first_rows[r]`` of the queries.
    """

    def shard(begin: int, end: int) -> None:
        _lay_out(begin, end, owners, first_rows, starts, words, words.view(np.int32), laid)

    parallel_for(len(owners.owner), shard, _COST)


@njit(nogil=True, cache=True, **LEAN)
def _lay_out(
    begin: Any, end: Any, owners: Any, first_rows: Any, starts: Any, words: Any, codes: Any, laid: Any
) -> None:
    each = laid.score_grads.shape[1]
    for b in range(begin, end):
        owner, index = owners.owner[b], owners.number[b]
        count, row = owners.counts[owner], first_rows[owner] + index
        grad = starts[owner] + HEADER
        code = grad + count * each
        loss = code + count * each
        for c in range(each):
            laid.score_grads[row, c] = words[grad + index * each + c]
            laid.labels[b * each + c] = row * each + c
        laid.positives[b] = codes[code + index * each]
        for c in range(1, each):
            laid.ids[b, c - 1] = codes[code + index * each + c]
        laid.losses[b] = words[loss + index]
