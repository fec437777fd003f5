"""A ridge regression of each item on a few other items, by Cholesky decomposition of their co-occurrence counts.

Items are independent of each other and every sum has a fixed order, so the bits do not depend on the threads.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vitalrank.kernels.compiling import FAST, njit
from vitalrank.kernels.cpu.runtime.parallel import parallel_for

_COST = 10_000  # of an item, in 0.1 us


def regress_items(
    user_start: Any, users: Any, item_start: Any, items: Any, support: Any, penalties: Any, weights: Any
) -> None:
    """Fill row ``j`` of ``weights`` with the ``b`` that minimises ``|x_j - X_S b|^2 + sum_s penalties_s b_s^2``.

    ``S = support[j]``.

    Parameters
    ----------
    user_start, users
        The users of each item.
    item_start, items
        The items of each user.
    support
        (I, k) the items that item ``j`` is regressed on, ascending, without ``j``; unused entries are -1, at the front.
    penalties
        (I,) weights of the L2 penalty, above 0.
    weights
        (I, k) float32 result.
    """
    n_items = len(user_start) - 1

    def shard(begin: int, end: int) -> None:
        slot = np.full(n_items, -1, np.int32)
        _regress(begin, end, user_start, users, item_start, items, support, penalties, slot, weights)

    parallel_for(n_items, shard, cost=_COST)


@njit(nogil=True, cache=True)
def _regress(
    begin: Any, end: Any, user_start: Any, users: Any, item_start: Any, items: Any, support: Any, penalties: Any,
    slot: Any, weights: Any,
) -> None:  # fmt: skip
    width = support.shape[1]
    matrix, solution = np.empty((width, width)), np.empty(width)
    for item in range(begin, end):
        first = 0
        while first < width and support[item, first] < 0:
            weights[item, first] = 0.0
            first += 1
        chosen = support[item, first:]
        size = len(chosen)
        for place in range(size):
            slot[chosen[place]] = place
        _count(chosen, item, user_start, users, item_start, items, slot, matrix, solution)
        for place in range(size):
            slot[chosen[place]] = -1
            matrix[place, place] += penalties[chosen[place]]
        _solve(matrix, solution, size)
        for place in range(size):
            weights[item, first + place] = solution[place]


@njit(nogil=True, cache=True)
def _count(
    chosen: Any,
    item: Any,
    user_start: Any,
    users: Any,
    item_start: Any,
    items: Any,
    slot: Any,
    matrix: Any,
    shared: Any,
) -> None:
    """Lower triangle of the co-occurrence counts of the chosen items, and the counts that they share with ``item``."""
    for place in range(len(chosen)):
        matrix[place, : place + 1] = 0.0
        shared[place] = 0.0
        last = chosen[place]
        for index in range(user_start[last], user_start[last + 1]):
            user = users[index]
            for other_index in range(item_start[user], item_start[user + 1]):
                other = items[other_index]
                if other == item:
                    shared[place] += 1.0
                if other > last:
                    if other > item:
                        break
                elif slot[other] >= 0:
                    matrix[place, slot[other]] += 1.0


@njit(nogil=True, cache=True, fastmath=FAST)
def _solve(matrix: Any, vector: Any, size: Any) -> None:
    """Solve in place for a positive definite matrix of which the lower triangle is given; ``vector`` becomes
    the solution.
    """
    for row in range(size):
        for column in range(row + 1):
            total = matrix[row, column]
            for k in range(column):
                total -= matrix[row, k] * matrix[column, k]
            matrix[row, column] = math.sqrt(total) if row == column else total / matrix[column, column]
    for row in range(size):
        total = vector[row]
        for k in range(row):
            total -= matrix[row, k] * vector[k]
        vector[row] = total / matrix[row, row]
    for row in range(size - 1, -1, -1):
        value = vector[row] / matrix[row, row]
        vector[row] = value
        for k in range(row):
            vector[k] -= matrix[row, k] * value
