"""The nearest neighbours of each item by weighted overlap of their users."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vitalrank.kernels.compiling import njit
from vitalrank.kernels.cpu.ranking.heap import clear, is_worse, sink_root, sort_best_first
from vitalrank.kernels.cpu.runtime.parallel import parallel_for

_COST = 100  # of an item, in 0.1 us


@njit(cache=True)
def _sum_shared(
    item: Any, user_start: Any, users: Any, item_start: Any, items: Any, user_weight: Any, shared: Any, neighbours: Any
) -> Any:
    """Sum the weights of the users that each other item shares with ``item``; returns how many items there are."""
    size = 0
    for index in range(user_start[item], user_start[item + 1]):
        user = users[index]
        weight = user_weight[user]
        for other_index in range(item_start[user], item_start[user + 1]):
            other = items[other_index]
            if shared[other] == 0.0:
                neighbours[size] = other
                size += 1
            shared[other] += weight
    return size


def nearest_neighbours(
    user_start: Any, users: Any, item_start: Any, items: Any, user_weight: Any, squared_norm: Any, shrinkage: Any,
    scores: Any, nearest: Any,
) -> None:  # fmt: skip
    """Fill row ``i`` of ``scores`` and ``nearest`` (I, k) with the nearest neighbours of ``i``, best first.

    Parameters
    ----------
    user_start, users
        The users of each item.
    item_start, items
        The items of each user.
    user_weight
        (U,) float64 above 0: what a shared user adds.
    squared_norm
        (I,) float64: similarities are divided by the square root of the product of two of them.
    shrinkage
        Added to that square root.
    scores, nearest
        (I, k) results; unused entries are -inf and -1.
    """
    n_items = len(user_start) - 1

    def shard(begin: int, end: int) -> None:
        shared, neighbours = np.zeros(n_items), np.empty(n_items, np.int32)
        _nearest(
            begin, end, user_start, users, item_start, items, user_weight, squared_norm, shrinkage, shared, neighbours,
            scores, nearest,
        )  # fmt: skip

    parallel_for(n_items, shard, cost=_COST)


@njit(nogil=True, cache=True)
def _nearest(
    begin: Any, end: Any, user_start: Any, users: Any, item_start: Any, items: Any, user_weight: Any,
    squared_norm: Any, shrinkage: Any, shared: Any, neighbours: Any, scores: Any, nearest: Any,
) -> None:  # fmt: skip
    for item in range(begin, end):
        size = _sum_shared(item, user_start, users, item_start, items, user_weight, shared, neighbours)
        row_scores, row_items = scores[item], nearest[item]
        clear(row_scores, row_items)
        for index in range(size):
            other = neighbours[index]
            # Of the cosine, the square root of an exact integer, so that equal similarities compare equal.
            norms = math.sqrt(squared_norm[item] * squared_norm[other])
            score = np.float32(shared[other] / (norms + shrinkage))
            shared[other] = 0.0
            if other != item and is_worse(row_scores[0], row_items[0], score, other):
                row_scores[0], row_items[0] = score, other
                sink_root(row_scores, row_items, len(row_scores))
        sort_best_first(row_scores, row_items)
