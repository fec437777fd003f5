"""One training step of matrix factorization on the GPU: each row that the batch hits is updated once.

A row that is hit once per batch is read by that occurrence alone, so it is updated directly. The gradients of rows hit
repeatedly are accumulated first, and a second kernel updates those rows: see
:mod:`vitalrank.kernels.gpu.training.accumulators`.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from vitalrank import losses
from vitalrank.kernels.gpu.training.accumulators import (
    Accumulators,
    accumulate,
    elect_owner,
    is_multi_hit,
    is_owner,
    mark_multi_hit,
    slot_of,
    take_sum,
)
from vitalrank.kernels.gpu.training.batches import Batch, Log, StepState, rate_of, step_of
from vitalrank.kernels.gpu.training.gradients import loss_grad
from vitalrank.kernels.gpu.training.optimizers import Tables, update_rows
from vitalrank.kernels.gpu.training.stats import DRAWN, VANISHED, VIOLATED, EpochStats
from vitalrank.kernels.step_config import StepConfig

SMALL_SLOPE = tl.constexpr(losses.VANISHED)
# Tiles, chosen by measurement at 64 columns.
_CELLS = 2048  # numbers of a tile of negatives
_ELECT_CELLS = 32
_FORWARD_ROWS = 2
_UPDATE_ROWS, _UPDATE_WARPS = 8, 2


def train_step(
    config: StepConfig,
    offset: int,
    step_state: StepState,
    ids: Tensor,
    weights: Tensor,
    tries: Tensor,
    violated: Tensor | None,
    log: Log,
    batch: Batch,
    tables: Tables,
    stats: EpochStats,
    user_acc: Accumulators,
    item_acc: Accumulators,
) -> None:
    """Update the tables by one batch; the statistics of its positives go to their rows of ``stats``."""
    size, many = ids.shape
    width = tables.users.shape[1]
    K, D = triton.next_power_of_2(many), triton.next_power_of_2(width)
    optimizer = {"OPTIMIZER": config.optimizer.code, "SLOTS": config.optimizer.slots}
    few = max(_ELECT_CELLS // K, 1)
    _elect_owners[(triton.cdiv(size, few),)](
        offset, step_state, ids, batch, user_acc, item_acc, size, many, R=few, K=K, num_warps=1
    )
    rows = _FORWARD_ROWS if K == 1 else 1
    _forward_backward[(triton.cdiv(size, rows),)](
        offset, step_state, ids, weights, tries, tries if violated is None else violated, batch, tables, stats,
        user_acc, item_acc, log.stride, size, many, width, config.frozen, float(config.margin), float(config.reg),
        R=rows, K=K, D=D, C=min(D, max(_CELLS // K, 1)), LOSS=config.loss, WEIGHT_GRADIENT=bool(config.weight_gradient),
        HAS_MARGIN=violated is not None, **optimizer, num_warps=1 if K <= 16 else 4,
    )  # fmt: skip
    user_slots = len(tables.users) if user_acc.by_row else size
    item_slots = len(tables.items) if item_acc.by_row else size * (1 + many)
    user_blocks = triton.cdiv(user_slots, _UPDATE_ROWS)
    _update_multi_hit[(user_blocks + triton.cdiv(item_slots, _UPDATE_ROWS),)](
        offset, step_state, ids, batch, tables, user_acc, item_acc, user_blocks, user_slots, item_slots, many, width,
        config.frozen,
        R=_UPDATE_ROWS, D=D, **optimizer, num_warps=_UPDATE_WARPS,
    )  # fmt: skip


@triton.jit(do_not_specialize=["offset"])
def _elect_owners(
    offset: tl.tensor,
    step_state: tl.tensor,
    ids: tl.tensor,
    batch: tl.tensor,
    user_acc: tl.tensor,
    item_acc: tl.tensor,
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
    step = step_of(step_state, offset)
    place = b * (1 + many)
    user = tl.load(batch.users + b, mask=here, other=0)
    item = tl.load(batch.positives + b, mask=here, other=0)
    # All elections before the first result is read: each is a round trip to memory.
    of_user = elect_owner(user_acc, b, user, step, trained)
    of_item = elect_owner(item_acc, place, item, step, trained)
    of_negative = elect_owner(item_acc, place[:, None] + 1 + x[None, :], negative, step, drawn)
    mark_multi_hit(user_acc, of_user, user, step, trained)
    mark_multi_hit(item_acc, of_item, item, step, trained)
    mark_multi_hit(item_acc, of_negative, negative, step, drawn)


@triton.jit
def _accumulate_or_update(
    values: tl.tensor,
    state: tl.tensor,
    acc: tl.tensor,
    row: tl.tensor,
    slot: tl.tensor,
    multi_hit: tl.tensor,
    d: tl.tensor,
    grad: tl.tensor,
    rate: tl.tensor,
    width: tl.tensor,
    inside: tl.tensor,
    OPTIMIZER: tl.constexpr,
    SLOTS: tl.constexpr,
) -> None:
    """Accumulate the gradients of multi-hit rows, and update the others."""
    accumulate(acc, slot * width + d, grad, inside & multi_hit)
    alone = inside & (multi_hit == 0)
    update_rows(values, state, row * width + d, row * (SLOTS * width) + d, width, grad, rate, alone, OPTIMIZER)


@triton.jit(do_not_specialize=["offset"])
def _forward_backward(
    offset: tl.tensor,
    step_state: tl.tensor,
    ids: tl.tensor,
    weights: tl.tensor,
    tries: tl.tensor,
    violated: tl.tensor,
    batch: tl.tensor,
    tables: tl.tensor,
    stats: tl.tensor,
    user_acc: tl.tensor,
    item_acc: tl.tensor,
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
    step = step_of(step_state, offset)
    rate = rate_of(step_state, offset)
    user_slot = slot_of(user_acc, user, trained)[:, None]  # (R, 1)
    item_slot = slot_of(item_acc, item, trained)[:, None]
    negative_slot = slot_of(item_acc, negative, drawn)[:, :, None]  # (R, K, 1)
    user_multi_hit = is_multi_hit(user_acc, user, step, trained)[:, None]
    item_multi_hit = is_multi_hit(item_acc, item, step, trained)[:, None]
    negative_multi_hit = is_multi_hit(item_acc, negative, step, drawn)[:, :, None]
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
    loss, own, grad, max_slope = loss_grad(own_score, scores, weight, drawn, margin, LOSS, WEIGHT_GRADIENT)
    for start in tl.range(0, D, C):
        d = start + tl.arange(0, C)
        row = trained[:, None] & (d < width)[None, :]
        query = tl.load(tables.users + user[:, None] * width + d[None, :], mask=row, other=0.0)
        positive = tl.load(tables.items + item[:, None] * width + d[None, :], mask=row, other=0.0)
        tile = drawn[:, :, None] & (d < width)[None, None, :]
        rows = tl.load(tables.items + negative[:, :, None] * width + d[None, None, :], mask=tile, other=0.0)
        user_grad = own * positive + tl.sum(grad[:, :, None] * rows, axis=1) + reg * query
        item_grad = own * query + reg * positive
        negative_grad = grad[:, :, None] * query[:, None, :] + reg * rows
        tl.debug_barrier()  # all warps have read the rows before one of them updates any
        _accumulate_or_update(
            tables.users, tables.user_state, user_acc, user[:, None], user_slot, user_multi_hit, d[None, :], user_grad,
            rate, width, row & (d < width - frozen)[None, :], OPTIMIZER, SLOTS,
        )  # fmt: skip
        _accumulate_or_update(
            tables.items, tables.item_state, item_acc, item[:, None], item_slot, item_multi_hit, d[None, :], item_grad,
            rate, width, row, OPTIMIZER, SLOTS,
        )  # fmt: skip
        _accumulate_or_update(
            tables.items, tables.item_state, item_acc, negative[:, :, None], negative_slot, negative_multi_hit,
            d[None, None, :], negative_grad, rate, width, tile, OPTIMIZER, SLOTS,
        )  # fmt: skip
    place = (tl.load(step_state.cursor) + offset) * stride + b
    tl.store(stats.losses + place, tl.where(trained, tl.sum(loss, axis=1), 0.0), mask=here)
    tl.store(stats.weights + place, tl.sum(weight, axis=1), mask=here)
    tl.store(stats.tries + place, tl.load(tries + b, mask=here, other=0), mask=here)
    vanished = trained & (tl.sum(max_slope, axis=1) < SMALL_SLOPE)
    flags = trained.to(tl.int32) * DRAWN + vanished.to(tl.int32) * VANISHED
    if HAS_MARGIN:
        flags += tl.load(violated + b, mask=here, other=0).to(tl.int32) * VIOLATED
    tl.store(stats.flags + place, flags.to(tl.uint8), mask=here)


@triton.jit
def _update_slots(
    values: tl.tensor,
    state: tl.tensor,
    acc: tl.tensor,
    slot: tl.tensor,
    row: tl.tensor,
    step: tl.tensor,
    rate: tl.tensor,
    width: tl.tensor,
    free: tl.tensor,
    D: tl.constexpr,
    OPTIMIZER: tl.constexpr,
    SLOTS: tl.constexpr,
) -> None:
    """Update the multi-hit rows whose accumulators are in these slots, and clear the slots."""
    owned = (acc.by_row == 1) | is_owner(acc, row, step, slot)
    updated = (row >= 0) & is_multi_hit(acc, row, step, row >= 0) & owned  # (R,)
    if tl.sum(updated.to(tl.int32), axis=0) > 0:
        d = tl.arange(0, D)[None, :]
        inside = updated[:, None] & (d < free)
        grad = take_sum(acc, slot[:, None] * width + d, inside)  # (R, D)
        at, state_at = row[:, None] * width + d, row[:, None] * (SLOTS * width) + d
        update_rows(values, state, at, state_at, width, grad, rate, inside, OPTIMIZER)


@triton.jit(do_not_specialize=["offset"])
def _update_multi_hit(
    offset: tl.tensor,
    step_state: tl.tensor,
    ids: tl.tensor,
    batch: tl.tensor,
    tables: tl.tensor,
    user_acc: tl.tensor,
    item_acc: tl.tensor,
    user_blocks: tl.tensor,
    user_slots: tl.tensor,
    item_slots: tl.tensor,
    many: tl.tensor,
    width: tl.tensor,
    frozen: tl.tensor,
    R: tl.constexpr,
    D: tl.constexpr,
    OPTIMIZER: tl.constexpr,
    SLOTS: tl.constexpr,
) -> None:
    block = tl.program_id(0).to(tl.int64)
    step = step_of(step_state, offset)
    rate = rate_of(step_state, offset)
    if block < user_blocks:
        slot = block * R + tl.arange(0, R)
        here = slot < user_slots
        row = tl.where(here, slot, -1)
        if user_acc.by_row == 0:
            row = tl.load(batch.users + slot, mask=here, other=-1).to(tl.int64)
        free = width - frozen
        _update_slots(
            tables.users, tables.user_state, user_acc, slot, row, step, rate, width, free, D, OPTIMIZER, SLOTS
        )
    else:
        slot = (block - user_blocks) * R + tl.arange(0, R)
        here = slot < item_slots
        row = tl.where(here, slot, -1)
        if item_acc.by_row == 0:
            b = slot // (1 + many)
            x = slot - b * (1 + many) - 1  # -1 for the positive
            row = tl.load(batch.positives + b, mask=here & (x < 0), other=-1).to(tl.int64)
            row = tl.maximum(row, tl.load(ids + b * many + x, mask=here & (x >= 0), other=-1))
        _update_slots(
            tables.items, tables.item_state, item_acc, slot, row, step, rate, width, width, D, OPTIMIZER, SLOTS
        )
