"""A heap of the n best (score, item) pairs, its worst entry at the root.

Of equal scores the lower item id is the better one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vitalrank.kernels.compiling import njit


@njit(cache=True)
def clear(scores: Any, items: Any) -> None:
    """Empty the heap."""
    # The worst possible entries, so that the first scores replace them.
    scores[:] = -np.inf
    items[:] = -1


@njit(inline="always", cache=True)
def is_worse(score_a: Any, item_a: Any, score_b: Any, item_b: Any) -> Any:
    """Whether a ranks after b: a lower score, or the same score and a higher id."""
    return score_a < score_b or (score_a == score_b and item_a > item_b)


@njit(cache=True)
def sink_root(scores: Any, items: Any, size: Any) -> None:
    """Move the root down until no child is worse; the root of a heap is its worst entry."""
    score, item = scores[0], items[0]
    index = 0
    while True:
        child = 2 * index + 1
        if child >= size:
            break
        right = child + 1
        if right < size and is_worse(scores[right], items[right], scores[child], items[child]):
            child = right
        if not is_worse(scores[child], items[child], score, item):
            break
        scores[index], items[index] = scores[child], items[child]
        index = child
    scores[index], items[index] = score, item


@njit(cache=True)
def sort_best_first(scores: Any, items: Any) -> None:
    """Turn the heap into a list, best first."""
    for size in range(len(scores) - 1, 0, -1):
        scores[0], scores[size] = scores[size], scores[0]
        items[0], items[size] = items[size], items[0]
        sink_root(scores, items, size)
