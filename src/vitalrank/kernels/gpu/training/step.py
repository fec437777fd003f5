"""One training step of matrix factorization on the GPU: each row that the batch touches moves once.

A row that one place of the batch touches is read by that place alone, so it moves there and then. What the other rows
feel is summed first, and they move when all has been added: see :mod:`vitalrank.kernels.gpu.training.accumulators`.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from vitalrank import losses
from vitalrank.kernels.gpu.training.accumulators import (
    Sums,
    add,
    claim,
    home_of,
    is_claimed,
    is_shared,
    note_shared,
    take,
)
from vitalrank.kernels.gpu.training.batches import Batch, Log, Now, rate_of, step_of
from vitalrank.kernels.gpu.training.gradients import loss_grad
from vitalrank.kernels.gpu.training.optimizers import Tables, update_rows
from vitalrank.kernels.gpu.training.stats import DRAWN, VANISHED, VIOLATED, Felt
from vitalrank.kernels.step_config import StepConfig

FAINT = tl.constexpr(losses.VANISHED)
# Tiles, chosen by measurement at 64 columns.
_CELLS = 2048  # numbers of a tile of negatives
_CLAIM_CELLS = 32
_PULL_ROWS = 2
_MOVE_ROWS, _MOVE_WARPS = 8, 2


def train_step(
    config: StepConfig,
    offset: int,
    now: Now,
    ids: Tensor,
    weights: Tensor,
    tries: Tensor,
    violated: Tensor | None,
    log: Log,
    batch: Batch,
    tables: Tables,
    felt: Felt,
    user_sums: Sums,
    item_sums: Sums,
) -> None:
    """Move the tables by one batch; what was seen of its positives goes to their place in ``felt``."""
    size, many = ids.shape
    width = tables.users.shape[1]
    K, D = triton.next_power_of_2(many), triton.next_power_of_2(width)
    optimizer = {"OPTIMIZER": config.optimizer.code, "SLOTS": config.optimizer.slots}
    few = max(_CLAIM_CELLS // K, 1)
    _claim_rows[(triton.cdiv(size, few),)](
        offset, now, ids, batch, user_sums, item_sums, size, many, R=few, K=K, num_warps=1
    )
    rows = _PULL_ROWS if K == 1 else 1
    _pull_rows[(triton.cdiv(size, rows),)](
        offset, now, ids, weights, tries, tries if violated is None else violated, batch, tables, felt,
        user_sums, item_sums, log.stride, size, many, width, config.frozen, float(config.margin), float(config.reg),
        R=rows, K=K, D=D, C=min(D, max(_CELLS // K, 1)), LOSS=config.loss, WEIGHT_GRADIENT=bool(config.weight_gradient),
        HAS_MARGIN=violated is not None, **optimizer, num_warps=1 if K <= 16 else 4,
    )  # fmt: skip
    user_homes = len(tables.users) if user_sums.by_row else size
    item_homes = len(tables.items) if item_sums.by_row else size * (1 + many)
    user_blocks = triton.cdiv(user_homes, _MOVE_ROWS)
    _move_shared[(user_blocks + triton.cdiv(item_homes, _MOVE_ROWS),)](
        offset, now, ids, batch, tables, user_sums, item_sums, user_blocks, user_homes, item_homes, many, width,
        config.frozen,
        R=_MOVE_ROWS, D=D, **optimizer, num_warps=_MOVE_WARPS,
    )  # fmt: skip


@triton.jit(do_not_specialize=["offset"])
def _claim_rows(
    offset: tl.tensor,
    now: tl.tensor,
    ids: tl.tensor,
    batch: tl.tensor,
    user_sums: tl.tensor,
    item_sums: tl.tensor,
    size: tl.tensor,
    many: tl.tensor,
    R: tl.constexpr,
    K: tl.constexpr,
) -> None:
    b = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)
    x = tl.arange(0, K)
    here = b < size
    listed = here[:, None] & (x < many)[None, :]
    negative = tl.load(ids + b[:, None] * many + x[None, :], mask=listed, other=-1)  # (R, K)
    drawn = negative >= 0
    trained = tl.max(drawn.to(tl.int32), axis=1) > 0
    step = step_of(now, offset)
    place = b * (1 + many)
    user = tl.load(batch.users + b, mask=here, other=0)
    item = tl.load(batch.positives + b, mask=here, other=0)
    # All claims before the first look at an answer: each takes a way to memory and back.
    of_user = claim(user_sums, b, user, step, trained)
    of_item = claim(item_sums, place, item, step, trained)
    of_negative = claim(item_sums, place[:, None] + 1 + x[None, :], negative, step, drawn)
    note_shared(user_sums, of_user, user, step, trained)
    note_shared(item_sums, of_item, item, step, trained)
    note_shared(item_sums, of_negative, negative, step, drawn)


@triton.jit
def _feel(
    values: tl.tensor,
    state: tl.tensor,
    sums: tl.tensor,
    row: tl.tensor,
    home: tl.tensor,
    shared: tl.tensor,
    d: tl.tensor,
    pull: tl.tensor,
    rate: tl.tensor,
    width: tl.tensor,
    inside: tl.tensor,
    OPTIMIZER: tl.constexpr,
    SLOTS: tl.constexpr,
) -> None:
    """Add what shared rows feel to their sums, and move the others."""
    add(sums, home * width + d, pull, inside & shared)
    alone = inside & (shared == 0)
    update_rows(values, state, row * width + d, row * (SLOTS * width) + d, width, pull, rate, alone, OPTIMIZER)


@triton.jit(do_not_specialize=["offset"])
def _pull_rows(
    offset: tl.tensor,
    now: tl.tensor,
    ids: tl.tensor,
    weights: tl.tensor,
    tries: tl.tensor,
    violated: tl.tensor,
    batch: tl.tensor,
    tables: tl.tensor,
    felt: tl.tensor,
    user_sums: tl.tensor,
    item_sums: tl.tensor,
    stride: tl.tensor,
    size: tl.tensor,
    many: tl.tensor,
    width: tl.tensor,
    frozen: tl.tensor,
    margin: tl.tensor,
    reg: tl.tensor,
    R: tl.constexpr,
    K: tl.constexpr,
    D: tl.constexpr,
    C: tl.constexpr,
    LOSS: tl.constexpr,
    WEIGHT_GRADIENT: tl.constexpr,
    HAS_MARGIN: tl.constexpr,
    OPTIMIZER: tl.constexpr,
    SLOTS: tl.constexpr,
) -> None:
    b = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)  # (R,)
    here = b < size
    user = tl.load(batch.users + b, mask=here, other=0).to(tl.int64)
    item = tl.load(batch.positives + b, mask=here, other=0).to(tl.int64)
    x = tl.arange(0, K)
    listed = here[:, None] & (x < many)[None, :]
    negative = tl.load(ids + b[:, None] * many + x[None, :], mask=listed, other=-1)  # (R, K)
    weight = tl.load(weights + b[:, None] * many + x[None, :], mask=listed, other=0.0)
    drawn = negative >= 0
    trained = tl.max(drawn.to(tl.int32), axis=1) > 0  # (R,)
    step = step_of(now, offset)
    rate = rate_of(now, offset)
    user_home = home_of(user_sums, user, trained)[:, None]  # (R, 1)
    item_home = home_of(item_sums, item, trained)[:, None]
    negative_home = home_of(item_sums, negative, drawn)[:, :, None]  # (R, K, 1)
    user_shared = is_shared(user_sums, user, step, trained)[:, None]
    item_shared = is_shared(item_sums, item, step, trained)[:, None]
    negative_shared = is_shared(item_sums, negative, step, drawn)[:, :, None]
    own_score = tl.zeros((R, 1), tl.float32)
    scores = tl.zeros((R, K), tl.float32)
    for start in tl.range(0, D, C):
        d = start + tl.arange(0, C)
        row = here[:, None] & (d < width)[None, :]
        query = tl.load(tables.users + user[:, None] * width + d[None, :], mask=row, other=0.0)  # (R, C)
        positive = tl.load(tables.items + item[:, None] * width + d[None, :], mask=row, other=0.0)
        own_score += tl.sum(query * positive, axis=1)[:, None]
        tile = drawn[:, :, None] & (d < width)[None, None, :]
        rows = tl.load(
            tables.items + negative[:, :, None] * width + d[None, None, :], mask=tile, other=0.0
        )  # (R, K, C)
        scores += tl.sum(rows * query[:, None, :], axis=2)
    loss, own, pull, max_slope = loss_grad(own_score, scores, weight, drawn, margin, LOSS, WEIGHT_GRADIENT)
    for start in tl.range(0, D, C):
        d = start + tl.arange(0, C)
        row = trained[:, None] & (d < width)[None, :]
        query = tl.load(tables.users + user[:, None] * width + d[None, :], mask=row, other=0.0)
        positive = tl.load(tables.items + item[:, None] * width + d[None, :], mask=row, other=0.0)
        tile = drawn[:, :, None] & (d < width)[None, None, :]
        rows = tl.load(tables.items + negative[:, :, None] * width + d[None, None, :], mask=tile, other=0.0)
        user_pull = own * positive + tl.sum(pull[:, :, None] * rows, axis=1) + reg * query
        item_pull = own * query + reg * positive
        negative_pull = pull[:, :, None] * query[:, None, :] + reg * rows
        tl.debug_barrier()  # all warps have read the rows before one of them moves any
        _feel(
            tables.users, tables.user_state, user_sums, user[:, None], user_home, user_shared, d[None, :], user_pull,
            rate, width, row & (d < width - frozen)[None, :], OPTIMIZER, SLOTS,
        )  # fmt: skip
        _feel(
            tables.items, tables.item_state, item_sums, item[:, None], item_home, item_shared, d[None, :], item_pull,
            rate, width, row, OPTIMIZER, SLOTS,
        )  # fmt: skip
        _feel(
            tables.items, tables.item_state, item_sums, negative[:, :, None], negative_home, negative_shared,
            d[None, None, :], negative_pull, rate, width, tile, OPTIMIZER, SLOTS,
        )  # fmt: skip
    place = (tl.load(now.cursor) + offset) * stride + b
    tl.store(felt.losses + place, tl.where(trained, tl.sum(loss, axis=1), 0.0), mask=here)
    tl.store(felt.weights + place, tl.sum(weight, axis=1), mask=here)
    tl.store(felt.tries + place, tl.load(tries + b, mask=here, other=0), mask=here)
    faint = trained & (tl.sum(max_slope, axis=1) < FAINT)
    flags = trained.to(tl.int32) * DRAWN + faint.to(tl.int32) * VANISHED
    if HAS_MARGIN:
        flags += tl.load(violated + b, mask=here, other=0).to(tl.int32) * VIOLATED
    tl.store(felt.flags + place, flags.to(tl.uint8), mask=here)


@triton.jit
def _move(
    values: tl.tensor,
    state: tl.tensor,
    sums: tl.tensor,
    home: tl.tensor,
    row: tl.tensor,
    step: tl.tensor,
    rate: tl.tensor,
    width: tl.tensor,
    free: tl.tensor,
    D: tl.constexpr,
    OPTIMIZER: tl.constexpr,
    SLOTS: tl.constexpr,
) -> None:
    """Move the shared rows that have these homes, and clear the sums there."""
    at_home = (sums.by_row == 1) | is_claimed(sums, row, step, home)
    moved = (row >= 0) & is_shared(sums, row, step, row >= 0) & at_home  # (R,)
    if tl.sum(moved.to(tl.int32), axis=0) > 0:
        d = tl.arange(0, D)[None, :]
        inside = moved[:, None] & (d < free)
        pull = take(sums, home[:, None] * width + d, inside)  # (R, D)
        at, slot = row[:, None] * width + d, row[:, None] * (SLOTS * width) + d
        update_rows(values, state, at, slot, width, pull, rate, inside, OPTIMIZER)


@triton.jit(do_not_specialize=["offset"])
def _move_shared(
    offset: tl.tensor,
    now: tl.tensor,
    ids: tl.tensor,
    batch: tl.tensor,
    tables: tl.tensor,
    user_sums: tl.tensor,
    item_sums: tl.tensor,
    user_blocks: tl.tensor,
    user_homes: tl.tensor,
    item_homes: tl.tensor,
    many: tl.tensor,
    width: tl.tensor,
    frozen: tl.tensor,
    R: tl.constexpr,
    D: tl.constexpr,
    OPTIMIZER: tl.constexpr,
    SLOTS: tl.constexpr,
) -> None:
    block = tl.program_id(0).to(tl.int64)
    step = step_of(now, offset)
    rate = rate_of(now, offset)
    if block < user_blocks:
        home = block * R + tl.arange(0, R)
        here = home < user_homes
        row = tl.where(here, home, -1)
        if user_sums.by_row == 0:
            row = tl.load(batch.users + home, mask=here, other=-1).to(tl.int64)
        free = width - frozen
        _move(tables.users, tables.user_state, user_sums, home, row, step, rate, width, free, D, OPTIMIZER, SLOTS)
    else:
        home = (block - user_blocks) * R + tl.arange(0, R)
        here = home < item_homes
        row = tl.where(here, home, -1)
        if item_sums.by_row == 0:
            b = home // (1 + many)
            x = home - b * (1 + many) - 1  # -1 for the positive
            row = tl.load(batch.positives + b, mask=here & (x < 0), other=-1).to(tl.int64)
            row = tl.maximum(row, tl.load(ids + b * many + x, mask=here & (x >= 0), other=-1))
        _move(tables.items, tables.item_state, item_sums, home, row, step, rate, width, width, D, OPTIMIZER, SLOTS)
