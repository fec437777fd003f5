"""One training step of matrix factorization: forward and backward pass, and one update of each row of the batch.

Gradients are taken at the values before the step and summed per row in a fixed order, so the result does not depend on
the number of threads. Users are updated first; their old values stay in ``queries`` for the gradients of the items.

A rank of a group runs the users' half of a step on its own positives, then the items' half on those of all. It is one
compiled function with that of a process alone, since the order of sums may change as a loop is compiled.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vitalrank.kernels.compiling import FAST, INNER, LEAN, njit
from vitalrank.kernels.cpu.runtime.dot import dot
from vitalrank.kernels.cpu.runtime.intrinsics import prefetch_columns
from vitalrank.kernels.cpu.runtime.parallel import barrier, threads_for, with_barrier
from vitalrank.kernels.cpu.training.batches import Batch, copy_query
from vitalrank.kernels.cpu.training.coalescing import (
    Coalesced,
    group_items,
    group_users,
    is_drawn,
    new_coalesced,
    shard_bounds,
)
from vitalrank.kernels.cpu.training.gradients import loss_grad, loss_scores, scale_row, unmixed_grads
from vitalrank.kernels.cpu.training.optimizers import to_tangent, to_unit, update_row
from vitalrank.kernels.step_config import StepConfig
from vitalrank.losses import VANISHED

_ROWS = 64  # of a block that stays in the cache
_COST = 4  # of a positive, in units of 0.1 us
_AHEAD = 4  # rows prefetched before they are read
USERS, ITEMS, BOTH = 1, 2, 3  # the halves of a step, as bits


class Tables(NamedTuple):
    """The trained tables. A user's vector and optimizer state are adjacent; samplers read items, so those are apart."""

    users: NDArray[np.float32]  # (U, 1 + s, d)
    items: NDArray[np.float32]  # (I, d)
    item_state: NDArray[np.float32]  # (I, s, d)


class StepBuffers(NamedTuple):
    """Outputs of the forward/backward pass, per positive of the batch."""

    score_grads: NDArray[np.float32]  # (B, 1 + k) dL/dscore of the positive and the negatives
    losses: NDArray[np.float32]  # (B,)
    vanished: NDArray[np.bool_]  # (B,) whether the gradient vanished


Scratch = tuple[StepBuffers, Coalesced, Coalesced]  # of a step; gradients of users and of items are coalesced


def new_scratch(n_users: int, n_items: int, size: int, negatives: int) -> Scratch:
    """Buffers for batches of up to ``size`` positives, over tables of so many rows.

    Examples
    --------
    >>> buffers, users, items = new_scratch(n_users=3, n_items=4, size=2, negatives=5)
    >>> buffers.score_grads.shape
    (2, 6)
    """
    score_grads = np.zeros((size, 1 + negatives), np.float32)
    buffers = StepBuffers(score_grads, np.zeros(size, np.float32), np.zeros(size, np.bool_))
    return buffers, new_coalesced(n_users, size), new_coalesced(n_items, score_grads.size)


def train_step(
    config: StepConfig,
    rate: float,
    ids: Any,
    weights: Any,
    mix: Any,
    batch: Batch,
    tables: Tables,
    buffers: StepBuffers,
    users: Coalesced,
    items: Coalesced,
    halves: int = BOTH,
) -> tuple[float, int, int]:  # fmt: skip
    """Update the tables by one batch; returns the summed loss, and how many positives vanished and were skipped.

    ``mix`` (B, k), or empty, is the share of the positive in each negative. ``halves`` may leave out one half of the
    step; that of the items also counts, and of the batch it reads positives and queries alone.
    """
    width, shards = batch.queries.shape[1], threads_for(_COST * len(ids))
    found = np.zeros(2, np.int64)  # distinct rows, of users and of items
    sums = np.zeros(3)

    def worker(shard: int, arrivals: Any) -> None:
        gradient = np.empty(width, np.float32)
        _train_shard(
            shard, shards, arrivals, halves, found, sums, gradient, config, rate, ids, weights, mix, batch, tables,
            buffers, users, items,
        )  # fmt: skip

    with_barrier(shards, worker)
    loss, vanished, skipped = sums.tolist()
    return loss, int(vanished), int(skipped)


# Callees are inlined: compiling each of them alone, and then again inside, took a second more.
@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy", **LEAN)
def _train_shard(
    shard: Any, shards: Any, arrivals: Any, halves: Any, found: Any, sums: Any, gradient: Any, config: Any, rate: Any,
    ids: Any, weights: Any, mix: Any, batch: Any, tables: Any, buffers: Any, users: Any, items: Any,
) -> None:  # fmt: skip
    """One thread's shard of a step; the barriers are in compiled code. A half that is left out finds no rows."""
    if shard == 0 and halves & ITEMS:  # the first thread to start, and this takes longer
        found[1] = group_items(batch, ids, items)
    if shard == shards - 1 and halves & USERS:
        found[0] = group_users(batch, ids, users)
    barrier(arrivals, shards)
    begin, end = shard_bounds(users.starts, found[0], shard, shards)
    for first in range(begin, end, _ROWS):
        # One kind of work at a time: the iterations of each loop are independent, so the processor overlaps them.
        last = min(first + _ROWS, end)
        if not batch.eager_queries:
            _load_queries(first, last, end, tables.users, batch.queries, users)
        _forward_backward(
            users.order[users.starts[first] : users.starts[last]], config, ids, weights, mix, batch,
            tables.items, buffers,
        )  # fmt: skip
        _update_users(first, last, end, gradient, config, rate, ids, batch, tables, buffers, users)
    barrier(arrivals, shards)
    if shard == 0 and halves & ITEMS:
        _add_totals(ids, buffers, sums)
    begin, end = shard_bounds(items.starts, found[1], shard, shards)
    _update_items(begin, end, gradient, config, rate, batch, tables, buffers, items)


@njit(inline="always", cache=True, **LEAN)
def _load_queries(first: Any, last: Any, end: Any, table: Any, queries: Any, rows: Any) -> None:
    """Fill the queries of some users just before their update: their rows are read from memory once."""
    for group in range(first, last):
        if group + _AHEAD < end:
            prefetch_columns(table, rows.rows[group + _AHEAD], table.shape[1] * table.shape[2], True)
        for occurrence in range(rows.starts[group], rows.starts[group + 1]):
            copy_query(rows.order[occurrence], rows.rows[group], table, queries)


@njit(inline="always", cache=True, fastmath=FAST, error_model="numpy", **LEAN)
def _update_users(
    first: Any, last: Any, end: Any, gradient: Any, config: Any, rate: Any, ids: Any, batch: Any, tables: Any,
    buffers: Any, rows: Any,
) -> None:  # fmt: skip
    width = batch.queries.shape[1]
    for group in range(first, last):
        if group + _AHEAD < end:
            prefetch_columns(tables.users, rows.rows[group + _AHEAD], tables.users.shape[1] * width, True)
        gradient[:] = 0.0
        for occurrence in range(rows.starts[group], rows.starts[group + 1]):
            b = rows.order[occurrence]
            _add(gradient, buffers.score_grads[b, 0], tables.items, batch.positives[b])
            for c in range(ids.shape[1]):
                _add(gradient, buffers.score_grads[b, 1 + c], tables.items, max(ids[b, c], 0))
        decay = np.float32(config.reg * (rows.starts[group + 1] - rows.starts[group]))
        row = rows.rows[group]
        values, state = tables.users[row, 0, : width - config.frozen], tables.users[row, 1:]
        if config.normalize:
            to_tangent(gradient, values)
        update_row(config.optimizer, np.float32(rate), decay, gradient, values, state)
        if config.normalize:
            to_unit(values)


@njit(inline="always", cache=True, fastmath=FAST, error_model="numpy", **LEAN)
def _forward_backward(
    occurrences: Any, config: Any, ids: Any, weights: Any, mix: Any, batch: Any, items: Any, buffers: Any
) -> None:
    """Losses and score gradients of some rows of the batch."""
    _score_all(occurrences, ids, batch, items, buffers.score_grads)
    for occurrence in range(len(occurrences)):
        b = occurrences[occurrence]
        loss_scores(config, b, mix, buffers.score_grads)
        loss, max_slope = loss_grad(config, b, ids, weights, buffers.score_grads)
        unmixed_grads(config, b, mix, buffers.score_grads)
        buffers.losses[b] = scale_row(b, batch.weights, loss, buffers.score_grads)
        buffers.vanished[b] = max_slope < VANISHED


@njit(inline="always", cache=True, fastmath=FAST, **LEAN)
def _score_all(occurrences: Any, ids: Any, batch: Any, items: Any, score_grads: Any) -> None:
    """Scores of the positives and negatives of some rows of the batch, into ``score_grads``."""
    width = batch.queries.shape[1]
    for occurrence in range(len(occurrences)):
        if occurrence + _AHEAD < len(occurrences):
            ahead = occurrences[occurrence + _AHEAD]
            prefetch_columns(items, batch.positives[ahead], width, False)
            prefetch_columns(items, max(ids[ahead, 0], 0), width, False)
        b = occurrences[occurrence]
        score_grads[b, 0] = dot(batch.queries, b, items, batch.positives[b])
        for c in range(ids.shape[1]):
            score_grads[b, 1 + c] = dot(batch.queries, b, items, max(ids[b, c], 0))


@njit(inline="always", cache=True, fastmath=FAST, error_model="numpy", **LEAN)
def _update_items(
    begin: Any, end: Any, gradient: Any, config: Any, rate: Any, batch: Any, tables: Any, buffers: Any, rows: Any
) -> None:
    width = batch.queries.shape[1]
    for group in range(begin, end):
        if group + 2 * _AHEAD < end:
            ahead = rows.rows[group + 2 * _AHEAD]
            prefetch_columns(tables.items, ahead, width, False)
            prefetch_columns(tables.item_state, ahead, tables.item_state.shape[1] * width, True)
        gradient[:] = 0.0
        first, last = rows.starts[group], rows.starts[group + 1]
        for occurrence in range(first, last):
            _add_item_gradient(rows.order[occurrence], buffers.score_grads, batch.queries, gradient)
        decay = np.float32(config.reg * (last - first))
        row = rows.rows[group]
        if config.normalize:
            to_tangent(gradient, tables.items[row])
        update_row(config.optimizer, np.float32(rate), decay, gradient, tables.items[row], tables.item_state[row])
        if config.normalize:
            to_unit(tables.items[row])


@njit(inline="always", cache=True, fastmath=FAST, **LEAN)
def _add(gradient: Any, grad: Any, table: Any, row: Any) -> None:
    for f in range(len(gradient)):
        gradient[f] += grad * table[row, f]


@njit(inline="always", cache=True, fastmath=FAST, **LEAN)
def _add_item_gradient(occurrence: Any, score_grads: Any, queries: Any, gradient: Any) -> None:
    b = occurrence // score_grads.shape[1]
    _add(gradient, score_grads[b, occurrence - b * score_grads.shape[1]], queries, b)


@njit(cache=True, **INNER)
def _add_totals(ids: Any, buffers: Any, sums: Any) -> None:
    """The loss of a batch, and how many positives vanished and were skipped, into ``sums`` (3,).

    Called from the step: an entry point from Python takes longer to compile than the sums.
    """
    for b in range(len(ids)):
        if is_drawn(ids, b):
            sums[0] += buffers.losses[b]
            sums[1] += buffers.vanished[b]
        else:
            sums[2] += 1
