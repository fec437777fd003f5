"""A training step on negatives that the batch shares: its other positives, scored by products of blocks of rows.

The negatives of row b are the positives of the rows ``b + 1 .. b + C``, around the end of the batch. So the rows of a
block of 64 read a window of ``64 + C`` rows, the block's own first. Scores, and gradients of queries and items, are
three products of blocks; each sum has one order, whatever the threads.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.memory import large_zeros
from vitalrank.kernels.compiling import LEAN, njit
from vitalrank.kernels.cpu.runtime.blocks import add_products, add_transposed_products
from vitalrank.kernels.cpu.runtime.parallel import parallel_for
from vitalrank.kernels.cpu.training.batches import Batch
from vitalrank.kernels.cpu.training.coalescing import coalesce
from vitalrank.kernels.cpu.training.exponentials import TILE, scale_by, scaled_top, subtract_and_exp, sums_of
from vitalrank.kernels.cpu.training.optimizers import to_tangent, to_unit, update_row
from vitalrank.kernels.cpu.training.shared_scratch import SharedScratch
from vitalrank.kernels.cpu.training.step import Tables
from vitalrank.kernels.proposals import Seen
from vitalrank.kernels.step_config import StepConfig
from vitalrank.losses import VANISHED

_PRODUCTS = 2048  # multiply-adds in 0.1 us


def train_shared(
    config: StepConfig, rate: float, weights: NDArray[np.float32], batch: Batch, tables: Tables, seen: Seen,
    scratch: SharedScratch,
) -> None:  # fmt: skip
    """Update the tables by one batch; losses, and what was drawn, are left in the scratch.

    ``weights`` (B,) are those of the positives as negatives of other rows.
    """
    users, positives, s = batch.users, batch.positives, scratch
    size = len(users)
    window, dim, width = s.grads.shape[2], s.queries.shape[1], tables.items.shape[1]
    blocks = -(-size // TILE)
    rows = (blocks - 1) * TILE + window
    once = np.arange(len(s.weights))
    s.weights[:] = np.where(once < size + s.negatives, weights[once % size], 0.0)
    np.cumsum(s.weights > 0, out=s.count_before[1:])
    np.cumsum(s.weights, out=s.weight_before[1:])
    if batch.weights is not None:
        s.row_weights[:size] = batch.weights
    groups = _group_positives(positives, s)
    cost = 1 + TILE * window * dim // _PRODUCTS // TILE  # of one row, one product
    parallel_for(rows, lambda begin, end: _gather(begin, end, users, positives, tables, s), cost=2)

    def forward_backward(begin: int, end: int) -> None:
        _rows(begin, end, large_zeros((TILE,), np.float32), np.float32(config.scale), users, seen, s)

    parallel_for(blocks * TILE, forward_backward, cost=3 * cost)
    parallel_for(rows, lambda begin, end: _columns(begin, end, blocks, s), cost=cost)
    users_found = _group_users(users, s)

    def update_users(begin: int, end: int) -> None:
        _update_users(begin, end, np.empty(width, np.float32), config, rate, tables, s)

    def update_items(begin: int, end: int) -> None:
        _update_items(begin, end, np.empty(width, np.float32), config, rate, size, tables, s)

    parallel_for(users_found, update_users, cost=4)
    parallel_for(groups, update_items, cost=4)
    s.slot[s.items_of.rows[:groups]] = -1


@njit(cache=True, **LEAN)
def _group_positives(positives: Any, s: Any) -> Any:
    """Group the rows of the batch by item; returns the number of groups."""
    for b in range(len(positives)):
        s.items_of.row_of[b] = positives[b]
    groups = coalesce(s.items_of, len(positives))
    for group in range(groups):
        s.slot[s.items_of.rows[group]] = group
    return groups


@njit(cache=True, **LEAN)
def _group_users(users: Any, s: Any) -> Any:
    """Group the rows that have a negative by user; returns the number of groups."""
    for b in range(len(users)):
        s.users_of.row_of[b] = users[b] if s.found[b] > 0 else -1
    return coalesce(s.users_of, len(users))


@njit(nogil=True, cache=True, **LEAN)
def _gather(begin: Any, end: Any, users: Any, positives: Any, tables: Any, s: Any) -> None:
    """Copy the vectors of some rows, users' and items', and the items once more as panels."""
    size = len(users)
    for e in range(begin, end):
        is_row = e < size + s.negatives
        item = positives[e % size]
        panel = s.panels[e // TILE]
        for f in range(tables.items.shape[1]):
            value = tables.items[item, f] if is_row else np.float32(0.0)
            s.items[e, f] = value
            panel[f, e % TILE] = value
            if e < len(s.queries):
                s.queries[e, f] = tables.users[users[e], 0, f] if e < size else np.float32(0.0)


@njit(nogil=True, cache=True, **LEAN)
def _rows(begin: Any, end: Any, lanes: Any, scale: Any, users: Any, seen: Any, s: Any) -> None:
    """Scores of some blocks of rows, losses, and gradients of the scores and of the queries."""
    for block in range(begin // TILE, (end + TILE - 1) // TILE):
        first, grads = block * TILE, s.grads[block]
        queries, query_grads = s.queries[first : first + TILE], s.query_grads[first : first + TILE]
        grads[:] = 0.0
        query_grads[:] = 0.0
        s.hits[block] = 0
        for column in range(0, grads.shape[1], TILE):
            add_products(queries, 0, s.panels[(first + column) // TILE], grads, column)
        for r in range(TILE):
            if first + r < len(users):
                _leave_out_seen(users, seen, s, block, r)
                _softmax_row(scale, s, first + r, r, lanes, grads[r])
            else:
                grads[r] = 0.0
        for column in range(0, grads.shape[1], TILE):
            add_products(grads, column, s.items[first + column : first + column + TILE], query_grads, 0)


@njit(inline="always", cache=True, **LEAN)
def _leave_out_seen(users: Any, seen: Any, s: Any, block: Any, r: Any) -> None:
    """Give the negatives of a row that its user has seen a score of -inf, and count the others."""
    b, size = block * TILE + r, len(users)
    last = b + 1 + s.negatives
    found, weight = s.count_before[last] - s.count_before[b + 1], s.weight_before[last] - s.weight_before[b + 1]
    for p in range(seen.indptr[users[b]], seen.indptr[users[b] + 1]):
        group = s.slot[seen.items[p]]
        if group < 0:
            continue
        for occurrence in range(s.items_of.starts[group], s.items_of.starts[group + 1]):
            after = s.items_of.order[occurrence] - b
            after += size if after < 0 else 0
            if 0 < after <= s.negatives:
                s.grads[block, r, r + after] = -np.inf
                s.hits[block, r + after] += 1
                found -= s.weights[b + after] > 0.0
                weight -= s.weights[b + after]
    s.found[b], s.weight_sums[b] = found, weight


@njit(inline="always", cache=True, error_model="numpy", **LEAN)
def _softmax_row(scale: Any, s: Any, b: Any, r: Any, lanes: Any, grads: Any) -> None:
    """Loss of one row and its gradients by its scores, which are in ``grads`` (W,); its positive's is at ``r``."""
    weights = s.weights[b - r : b - r + len(grads)]
    positive = grads[r] * scale
    grads[: r + 1] = -np.inf
    grads[r + 1 + s.negatives :] = -np.inf
    top = scaled_top(grads, weights, scale, positive, lanes)
    subtract_and_exp(grads, top)
    against, weighted = sums_of(grads, weights)
    own = math.exp(positive - top)
    total = own + weighted
    factor = scale / total * s.row_weights[b]
    scale_by(grads, weights, factor)
    grads[r] = -weighted * factor
    s.losses[b] = (math.log(total) + top - positive) * s.row_weights[b]
    s.vanished[b] = against / (own + against) < VANISHED


@njit(nogil=True, cache=True, **LEAN)
def _columns(begin: Any, end: Any, blocks: Any, s: Any) -> None:
    """Gradients of some rows' items, over the blocks whose windows hold them, in the order of the blocks."""
    width = s.grads.shape[2] // TILE
    for panel in range(begin // TILE, (end + TILE - 1) // TILE):
        item_grads = s.item_grads[panel * TILE : (panel + 1) * TILE]
        item_grads[:] = 0.0
        for block in range(max(panel - width + 1, 0), min(panel + 1, blocks)):
            queries = s.queries[block * TILE : (block + 1) * TILE]
            add_transposed_products(s.grads[block], (panel - block) * TILE, queries, item_grads)


@njit(nogil=True, cache=True, error_model="numpy", **LEAN)
def _update_users(begin: Any, end: Any, gradient: Any, config: Any, rate: Any, tables: Any, s: Any) -> None:
    rows = s.users_of
    for group in range(begin, end):
        gradient[:] = 0.0
        for occurrence in range(rows.starts[group], rows.starts[group + 1]):
            for f in range(len(gradient)):
                gradient[f] += s.query_grads[rows.order[occurrence], f]
        row, count = rows.rows[group], rows.starts[group + 1] - rows.starts[group]
        values = tables.users[row, 0, : len(gradient) - config.frozen]
        _update(config, rate, count, gradient, values, tables.users[row, 1:])


@njit(nogil=True, cache=True, error_model="numpy", **LEAN)
def _update_items(begin: Any, end: Any, gradient: Any, config: Any, rate: Any, size: Any, tables: Any, s: Any) -> None:
    rows = s.items_of
    for group in range(begin, end):
        gradient[:] = 0.0
        count = 0
        for occurrence in range(rows.starts[group], rows.starts[group + 1]):
            b = rows.order[occurrence]
            count += s.found[b] > 0
            for e in range(b, size + s.negatives, size):  # the first C once more, after the end of the batch
                count += _times_drawn(s, e, size)
                for f in range(len(gradient)):
                    gradient[f] += s.item_grads[e, f]
        row = rows.rows[group]
        if count > 0:
            _update(config, rate, count, gradient, tables.items[row], tables.item_state[row])


@njit(inline="always", cache=True, **LEAN)
def _times_drawn(s: Any, e: Any, size: Any) -> Any:
    """How many rows of the batch have the positive of row ``e`` as a negative."""
    if s.weights[e] == 0.0:
        return 0
    total = min(e, size) - max(e - s.negatives, 0)
    for block in range(max(e // TILE - s.hits.shape[1] // TILE + 1, 0), min(e // TILE, (size - 1) // TILE) + 1):
        total -= s.hits[block, e - block * TILE]
    return total


@njit(inline="always", cache=True, error_model="numpy", **LEAN)
def _update(config: Any, rate: Any, count: Any, gradient: Any, values: Any, state: Any) -> None:
    if config.normalize:
        to_tangent(gradient, values)
    update_row(config.optimizer, np.float32(rate), np.float32(config.reg * count), gradient, values, state)
    if config.normalize:
        to_unit(values)
