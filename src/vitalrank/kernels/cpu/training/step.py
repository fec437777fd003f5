"""One training step of matrix factorization: each row that a batch touches moves once.

Gradients are taken at the values the batch began with and summed per row in a fixed order, so the result does not
depend on the number of threads. Users move first; their old values stay in ``queries`` for the items.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from vitalrank.kernels.compiling import FAST, INNER, LEAN
from vitalrank.kernels.cpu.runtime.intrinsics import prefetch_columns
from vitalrank.kernels.cpu.runtime.parallel import meet, threads_for, with_barrier
from vitalrank.kernels.cpu.sampling.proposing import dot
from vitalrank.kernels.cpu.training.batches import Batch, copy_query
from vitalrank.kernels.cpu.training.coalescing import Groups, group_items, group_users, is_drawn, new_groups, share_of
from vitalrank.kernels.cpu.training.gradients import StepConfig, pull_row
from vitalrank.kernels.cpu.training.optimizers import move_row
from vitalrank.losses import VANISHED

_ROWS = 64  # rows worked on together: few enough to stay in the cache
_COST = 4  # of a positive, in units of 0.1 us
_AHEAD = 4  # rows asked for before they are needed


class Tables(NamedTuple):
    """What training moves. A user's values and optimizer state lie together; samplers read items, so they lie apart."""

    users: NDArray[np.float32]  # (U, 1 + s, d)
    items: NDArray[np.float32]  # (I, d)
    item_state: NDArray[np.float32]  # (I, s, d)


class Felt(NamedTuple):
    """What the positives of a batch and their k negatives feel."""

    pulls: NDArray[np.float32]  # (B, 1 + k) derivative of the loss by the scores of the positive and the negatives
    losses: NDArray[np.float32]  # (B,)
    vanished: NDArray[np.bool_]  # (B,)


Scratch = tuple[Felt, Groups, Groups]  # memory of a step; the groups are the users' and the items'


def new_scratch(n_users: int, n_items: int, size: int, negatives: int) -> Scratch:
    """Memory for batches of up to ``size`` positives, over tables of so many rows.

    Examples
    --------
    >>> felt, users, items = new_scratch(n_users=3, n_items=4, size=2, negatives=5)
    >>> felt.pulls.shape
    (2, 6)
    """
    pulls = np.zeros((size, 1 + negatives), np.float32)
    felt = Felt(pulls, np.zeros(size, np.float32), np.zeros(size, np.bool_))
    return felt, new_groups(n_users, size), new_groups(n_items, pulls.size)


def take_step(
    rule: StepConfig,
    rate: float,
    ids: Any,
    weights: Any,
    batch: Batch,
    tables: Tables,
    felt: Felt,
    users: Groups,
    items: Groups,
) -> tuple[float, int, int]:  # fmt: skip
    """Move the tables by one batch; returns the summed loss, and how many positives vanished and were skipped."""
    width, parts = batch.queries.shape[1], threads_for(_COST * len(ids))
    found = np.zeros(2, np.int64)  # rows touched, of users and of items
    sums = np.zeros(3)

    def piece(part: int, arrived: Any) -> None:
        gradient = np.empty(width, np.float32)
        _take_part(
            part, parts, arrived, found, sums, gradient, rule, rate, ids, weights, batch, tables, felt, users, items
        )  # fmt: skip

    with_barrier(parts, piece)
    loss, vanished, skipped = sums.tolist()
    return loss, int(vanished), int(skipped)


# What it calls stands in line: each of them compiled alone, and then again inside, took a second more.
@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy", **LEAN)
def _take_part(
    part: Any, parts: Any, arrived: Any, found: Any, sums: Any, gradient: Any, rule: Any, rate: Any, ids: Any,
    weights: Any, batch: Any, tables: Any, felt: Any, users: Any, items: Any,
) -> None:  # fmt: skip
    """One thread's part of a step: threads meet in compiled code, where that takes no time."""
    if part == 0:  # the first to begin, and this takes longer
        found[1] = group_items(batch, ids, items)
    if part == parts - 1:
        found[0] = group_users(batch, ids, users)
    meet(arrived, parts)
    begin, end = share_of(users.starts, found[0], part, parts)
    for first in range(begin, end, _ROWS):
        # One kind of work at a time: each loop's turns are independent, so the processor overlaps them.
        last = min(first + _ROWS, end)
        if not batch.eager_queries:
            _load_queries(first, last, end, tables.users, batch.queries, users)
        _feel(users.order[users.starts[first] : users.starts[last]], rule, ids, weights, batch, tables.items, felt)
        _move_users(first, last, end, gradient, rule, rate, ids, batch, tables, felt, users)
    meet(arrived, parts)
    if part == 0:
        _sum_up(ids, felt, sums)
    begin, end = share_of(items.starts, found[1], part, parts)
    _move_items(begin, end, gradient, rule, rate, batch, tables, felt, items)


@njit(inline="always", cache=True, **LEAN)
def _load_queries(first: Any, last: Any, end: Any, table: Any, queries: Any, groups: Any) -> None:
    """Fill the queries of some users as they are about to move: their rows come from memory once."""
    for group in range(first, last):
        if group + _AHEAD < end:
            prefetch_columns(table, groups.rows[group + _AHEAD], table.shape[1] * table.shape[2], True)
        for place in range(groups.starts[group], groups.starts[group + 1]):
            copy_query(groups.order[place], groups.rows[group], table, queries)


@njit(inline="always", cache=True, fastmath=FAST, error_model="numpy", **LEAN)
def _move_users(
    first: Any, last: Any, end: Any, gradient: Any, rule: Any, rate: Any, ids: Any, batch: Any, tables: Any, felt: Any,
    groups: Any,
) -> None:  # fmt: skip
    width = batch.queries.shape[1]
    for group in range(first, last):
        if group + _AHEAD < end:
            prefetch_columns(tables.users, groups.rows[group + _AHEAD], tables.users.shape[1] * width, True)
        gradient[:] = 0.0
        for place in range(groups.starts[group], groups.starts[group + 1]):
            b = groups.order[place]
            _add(gradient, felt.pulls[b, 0], tables.items, batch.positives[b])
            for c in range(ids.shape[1]):
                _add(gradient, felt.pulls[b, 1 + c], tables.items, max(ids[b, c], 0))
        decay = np.float32(rule.reg * (groups.starts[group + 1] - groups.starts[group]))
        row = groups.rows[group]
        values, state = tables.users[row, 0, : width - rule.frozen], tables.users[row, 1:]
        move_row(rule.optimizer, np.float32(rate), decay, gradient, values, state)


@njit(inline="always", cache=True, fastmath=FAST, error_model="numpy", **LEAN)
def _feel(places: Any, rule: Any, ids: Any, weights: Any, batch: Any, items: Any, felt: Any) -> None:
    """Losses and pulls of some rows of the batch."""
    _score_all(places, ids, batch, items, felt.pulls)
    for place in range(len(places)):
        b = places[place]
        loss, strongest = pull_row(rule, b, ids, weights, felt.pulls)
        felt.losses[b] = loss
        felt.vanished[b] = strongest < VANISHED


@njit(inline="always", cache=True, fastmath=FAST, **LEAN)
def _score_all(places: Any, ids: Any, batch: Any, items: Any, pulls: Any) -> None:
    """Scores of the positives and negatives of some rows of the batch, into ``pulls``."""
    width = batch.queries.shape[1]
    for place in range(len(places)):
        if place + _AHEAD < len(places):
            ahead = places[place + _AHEAD]
            prefetch_columns(items, batch.positives[ahead], width, False)
            prefetch_columns(items, max(ids[ahead, 0], 0), width, False)
        b = places[place]
        pulls[b, 0] = dot(batch.queries, b, items, batch.positives[b])
        for c in range(ids.shape[1]):
            pulls[b, 1 + c] = dot(batch.queries, b, items, max(ids[b, c], 0))


@njit(inline="always", cache=True, fastmath=FAST, error_model="numpy", **LEAN)
def _move_items(
    begin: Any, end: Any, gradient: Any, rule: Any, rate: Any, batch: Any, tables: Any, felt: Any, groups: Any
) -> None:
    width = batch.queries.shape[1]
    for group in range(begin, end):
        if group + 2 * _AHEAD < end:
            ahead = groups.rows[group + 2 * _AHEAD]
            prefetch_columns(tables.items, ahead, width, False)
            prefetch_columns(tables.item_state, ahead, tables.item_state.shape[1] * width, True)
        gradient[:] = 0.0
        first, last = groups.starts[group], groups.starts[group + 1]
        for place in range(first, last):
            _add_item_gradient(groups.order[place], felt.pulls, batch.queries, gradient)
        decay = np.float32(rule.reg * (last - first))
        row = groups.rows[group]
        move_row(rule.optimizer, np.float32(rate), decay, gradient, tables.items[row], tables.item_state[row])


@njit(inline="always", cache=True, fastmath=FAST, **LEAN)
def _add(gradient: Any, pull: Any, table: Any, row: Any) -> None:
    for f in range(len(gradient)):
        gradient[f] += pull * table[row, f]


@njit(inline="always", cache=True, fastmath=FAST, **LEAN)
def _add_item_gradient(place: Any, pulls: Any, queries: Any, gradient: Any) -> None:
    b = place // pulls.shape[1]
    _add(gradient, pulls[b, place - b * pulls.shape[1]], queries, b)


@njit(cache=True, **INNER)
def _sum_up(ids: Any, felt: Any, sums: Any) -> None:
    """The loss of a batch, and how many positives vanished and were skipped, into ``sums`` (3,).

    Called from the step: a way in from Python takes longer to compile than the sums.
    """
    for b in range(len(ids)):
        if is_drawn(ids, b):
            sums[0] += felt.losses[b]
            sums[1] += felt.vanished[b]
        else:
            sums[2] += 1
