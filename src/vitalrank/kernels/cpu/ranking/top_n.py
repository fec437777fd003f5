"""The n best items of each user, found while the scores are still in cache.

Items are cut into panels. For four users at a time a panel's scores are made in the first-level cache, seen items
are masked, and only scores above the user's n-th best so far go into the user's heap. A score is summed in one
fixed order, so it depends on neither panels nor threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vitalrank._util.memory import large_zeros
from vitalrank.kernels.compiling import njit
from vitalrank.kernels.cpu.ranking.heap import clear, sink_root, sort_best_first
from vitalrank.kernels.cpu.runtime.parallel import parallel_for

PANEL = 528  # items per panel: an odd number of cache lines, so that rows do not fall on each other in the cache
ROWS = 4  # users scored together
STEP = 4  # coordinates added per pass over a panel
_CHUNK = 128  # users taken together: each panel is read once per chunk
_PRODUCTS_PER_UNIT = 2048  # multiply-adds in 0.1 us
_SCORES_PER_UNIT = 512  # compared in 0.1 us
_STRETCH = 64  # scores tested together once a panel is known to hold something


@njit(cache=True)
def _any_above(scores: Any, bound: Any) -> Any:
    """Whether any score passes the bound: a count, because counts are vectorised and early exits are not."""
    count = np.int32(0)
    for j in range(len(scores)):
        count += np.int32(scores[j] > bound)
    return count > 0


@njit(cache=True)
def _offer(row: Any, width: Any, start: Any, scores: Any, items: Any) -> None:
    """Put every score of ``row[:width]`` that belongs among the best into the heap."""
    n = len(scores)
    if not _any_above(row[:width], scores[0]):
        return
    for first in range(0, width, _STRETCH):
        last = min(first + _STRETCH, width)
        if not _any_above(row[first:last], scores[0]):
            continue
        for j in range(first, last):
            if row[j] > scores[0]:
                scores[0], items[0] = row[j], start + j
                sink_root(scores, items, n)


@njit(fastmath={"contract"}, cache=True)
def _score_rows(queries: Any, row: Any, panel: Any, out: Any) -> None:
    """Scores of four users for one panel; ``panel`` is (d, PANEL), so that the inner loop runs along items."""
    out_0, out_1, out_2, out_3 = out[0], out[1], out[2], out[3]
    a, b, c, d = queries[row], queries[row + 1], queries[row + 2], queries[row + 3]
    out[:, :] = 0.0
    for k in range(0, panel.shape[0], STEP):
        p_0, p_1, p_2, p_3 = panel[k], panel[k + 1], panel[k + 2], panel[k + 3]
        a_0, a_1, a_2, a_3 = a[k], a[k + 1], a[k + 2], a[k + 3]
        b_0, b_1, b_2, b_3 = b[k], b[k + 1], b[k + 2], b[k + 3]
        c_0, c_1, c_2, c_3 = c[k], c[k + 1], c[k + 2], c[k + 3]
        d_0, d_1, d_2, d_3 = d[k], d[k + 1], d[k + 2], d[k + 3]
        for j in range(panel.shape[1]):
            x_0, x_1, x_2, x_3 = p_0[j], p_1[j], p_2[j], p_3[j]
            out_0[j] = out_0[j] + a_0 * x_0 + a_1 * x_1 + a_2 * x_2 + a_3 * x_3
            out_1[j] = out_1[j] + b_0 * x_0 + b_1 * x_1 + b_2 * x_2 + b_3 * x_3
            out_2[j] = out_2[j] + c_0 * x_0 + c_1 * x_1 + c_2 * x_2 + c_3 * x_3
            out_3[j] = out_3[j] + d_0 * x_0 + d_1 * x_1 + d_2 * x_2 + d_3 * x_3


@njit(cache=True)
def _mask_seen(row: Any, start: Any, stop: Any, seen: Any, position: Any, end: Any) -> Any:
    """Write -inf over the seen items of one panel; returns the position of the first seen item after it."""
    while position < end and seen[position] < stop:
        row[seen[position] - start] = -np.inf
        position += 1
    return position


def top_by_dot(
    queries: Any, panels: Any, n_items: Any, users: Any, seen_indptr: Any, seen: Any, scores: Any, items: Any
) -> None:
    """Fill ``scores`` and ``items`` (B, n) with the best unseen items of each user, best first.

    Parameters
    ----------
    queries
        (at least B, rounded up to ROWS; d, rounded up to STEP) float32.
    panels
        (panels, d, PANEL) float32: the item table, see :func:`pack`.
    users
        (B,) rows of the seen-item lists.
    seen_indptr, seen
        Sorted items that may not be returned, per user.
    scores, items
        (B, n) results; unused entries are -inf and -1.
    """

    def shard(begin: int, end: int) -> None:
        tile, positions = large_zeros((ROWS, PANEL), np.float32), np.empty(_CHUNK, np.int64)
        _top_by_dot(
            begin, end, queries, panels, n_items, users, seen_indptr, seen, tile, positions, scores, items
        )  # fmt: skip

    parallel_for(len(users), shard, cost=1 + panels.size // _PRODUCTS_PER_UNIT)


@njit(nogil=True, cache=True)
def _top_by_dot(
    begin: Any, end: Any, queries: Any, panels: Any, n_items: Any, users: Any, seen_indptr: Any, seen: Any,
    tile: Any, positions: Any, scores: Any, items: Any,
) -> None:  # fmt: skip
    for low in range(begin, end, _CHUNK):
        high = min(low + _CHUNK, end)
        for row in range(low, high):
            positions[row - low] = seen_indptr[users[row]]
            clear(scores[row], items[row])
        for number in range(panels.shape[0]):
            start = number * PANEL
            stop = min(start + PANEL, n_items)
            for first in range(low, high, ROWS):
                _score_rows(queries, first, panels[number], tile)
                for row in range(first, min(first + ROWS, high)):
                    line = tile[row - first]
                    last = seen_indptr[users[row] + 1]
                    positions[row - low] = _mask_seen(line, start, stop, seen, positions[row - low], last)
                    _offer(line, stop - start, start, scores[row], items[row])
        for row in range(low, high):
            sort_best_first(scores[row], items[row])


def top_of_tile(tile: Any, users: Any, seen_indptr: Any, seen: Any, scores: Any, items: Any) -> None:
    """As :func:`top_by_dot`, from whole rows of scores; ``tile`` (B, I) is written to."""
    parallel_for(
        len(users),
        lambda begin, end: _top_of_tile(begin, end, tile, users, seen_indptr, seen, scores, items),
        cost=1 + tile.shape[1] // _SCORES_PER_UNIT,
    )


@njit(nogil=True, cache=True)
def _top_of_tile(
    begin: Any, end: Any, tile: Any, users: Any, seen_indptr: Any, seen: Any, scores: Any, items: Any
) -> None:
    n_items = tile.shape[1]
    for row in range(begin, end):
        clear(scores[row], items[row])
        _mask_seen(tile[row], 0, n_items, seen, seen_indptr[users[row]], seen_indptr[users[row] + 1])
        _offer(tile[row], n_items, 0, scores[row], items[row])
        sort_best_first(scores[row], items[row])


def mark_hits(items: Any, users: Any, indptr: Any, wanted: Any, hits: Any) -> None:
    """Set ``hits`` (B, n) where a recommended item is among the user's wanted ones (sorted)."""
    parallel_for(
        len(users), lambda begin, end: _mark_hits(begin, end, items, users, indptr, wanted, hits), cost=items.shape[1]
    )


@njit(nogil=True, cache=True)
def _mark_hits(begin: Any, end: Any, items: Any, users: Any, indptr: Any, wanted: Any, hits: Any) -> None:
    for row in range(begin, end):
        own = wanted[indptr[users[row]] : indptr[users[row] + 1]]
        for j in range(items.shape[1]):
            position = np.searchsorted(own, items[row, j])
            hits[row, j] = position < len(own) and own[position] == items[row, j]


def pack(item_table: Any) -> Any:
    """The item table as panels (panels, d rounded up to STEP, PANEL), zeros where there is no item.

    Panels begin on a cache line: vectors that straddle two lines take nearly twice as long.
    """
    n_items, dim = item_table.shape
    count = (n_items + PANEL - 1) // PANEL
    panels = large_zeros((count, rounded_up(dim, STEP), PANEL), np.float32)
    for number in range(count):
        block = item_table[number * PANEL : (number + 1) * PANEL]  # (PANEL, d)
        panels[number, :dim, : len(block)] = block.T
    return panels


def rounded_up(number: int, step: int) -> int:
    """The next multiple of ``step``."""
    return (number + step - 1) // step * step
