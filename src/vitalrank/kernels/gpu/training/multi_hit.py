"""The rows that a batch hits repeatedly: found before the gradients are computed, and updated after that."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from vitalrank.kernels.gpu.training.accumulators import (
    Accumulators,
    elect_owner,
    is_multi_hit,
    is_owner,
    mark_multi_hit,
    take_sum,
)
from vitalrank.kernels.gpu.training.batches import Batch, StepState, rate_of, step_of
from vitalrank.kernels.gpu.training.optimizers import Tables, update_rows
from vitalrank.kernels.step_config import StepConfig

# Tiles, chosen by measurement at 64 columns.
_CELLS = 32  # occurrences of negatives whose owners are elected by one program
_ROWS, _WARPS = 8, 2


def elect_owners(
    config: StepConfig,
    offset: int,
    step_state: StepState,
    ids: Tensor,
    batch: Batch,
    user_acc: Accumulators,
    item_acc: Accumulators,
) -> None:
    """Elect the owner of each row of the batch, and mark the rows that it hits repeatedly.

    Rows that are kept at length 1 are all marked: their update needs the whole gradient at once.
    """
    size, many = ids.shape
    K = triton.next_power_of_2(many)
    rows = max(_CELLS // K, 1)
    _elect_owners[(triton.cdiv(size, rows),)](
        offset, step_state, ids, batch, user_acc, item_acc, size, many, R=rows, K=K,
        NORMALIZE=bool(config.normalize), num_warps=1,
    )  # fmt: skip


def update_multi_hit(
    config: StepConfig,
    offset: int,
    step_state: StepState,
    ids: Tensor,
    batch: Batch,
    tables: Tables,
    user_acc: Accumulators,
    item_acc: Accumulators,
) -> None:
    """Update the multi-hit rows by their accumulated gradients, and clear the accumulators."""
    size, many = ids.shape
    width = tables.users.shape[1]
    user_slots = len(tables.users) if user_acc.by_row else size
    item_slots = len(tables.items) if item_acc.by_row else size * (1 + many)
    user_blocks = triton.cdiv(user_slots, _ROWS)
    _update_multi_hit[(user_blocks + triton.cdiv(item_slots, _ROWS),)](
        offset, step_state, ids, batch, tables, user_acc, item_acc, user_blocks, user_slots, item_slots, many, width,
        config.frozen, R=_ROWS, D=triton.next_power_of_2(width), OPTIMIZER=config.optimizer.code,
        SLOTS=config.optimizer.slots, NORMALIZE=bool(config.normalize), num_warps=_WARPS,
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
    NORMALIZE: tl.constexpr,
) -> None:
    b = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)
    x = tl.arange(0, K)
    mask = b < size
    negative_mask = mask[:, None] & (x < many)[None, :]
    negative = tl.load(ids + b[:, None] * many + x[None, :], mask=negative_mask, other=-1)  # (R, K)
    drawn = negative >= 0
    trained = tl.max(drawn.to(tl.int32), axis=1) > 0
    step = step_of(step_state, offset)
    occurrence = b * (1 + many)
    user = tl.load(batch.users + b, mask=mask, other=0)
    item = tl.load(batch.positives + b, mask=mask, other=0)
    # All elections before the first result is read: each is a round trip to memory.
    user_key = elect_owner(user_acc, b, user, step, trained)
    item_key = elect_owner(item_acc, occurrence, item, step, trained)
    negative_key = elect_owner(item_acc, occurrence[:, None] + 1 + x[None, :], negative, step, drawn)
    mark_multi_hit(user_acc, user_key, user, step, trained, NORMALIZE)
    mark_multi_hit(item_acc, item_key, item, step, trained, NORMALIZE)
    mark_multi_hit(item_acc, negative_key, negative, step, drawn, NORMALIZE)


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
    NORMALIZE: tl.constexpr,
) -> None:
    """Update the multi-hit rows whose accumulators are in these slots, and clear the slots."""
    owned = (acc.by_row == 1) | is_owner(acc, row, step, slot)
    updated = (row >= 0) & is_multi_hit(acc, row, step, row >= 0) & owned  # (R,)
    if tl.sum(updated.to(tl.int32), axis=0) > 0:
        d = tl.arange(0, D)[None, :]
        inside = updated[:, None] & (d < free)
        grad = take_sum(acc, slot[:, None] * width + d, inside)  # (R, D)
        cell, state_cell = row[:, None] * width + d, row[:, None] * (SLOTS * width) + d
        if NORMALIZE:  # as kernels.cpu.training.optimizers.to_tangent and to_unit
            value = tl.load(values + cell, mask=inside, other=0.0)
            grad -= tl.sum(grad * value, axis=1)[:, None] * value
        update_rows(values, state, cell, state_cell, width, grad, rate, inside, OPTIMIZER)
        if NORMALIZE:
            tl.debug_barrier()  # what was stored is read
            value = tl.load(values + cell, mask=inside, other=0.0)
            square = tl.sum(value * value, axis=1)[:, None]
            tl.store(values + cell, value / tl.sqrt(tl.where(square > 0.0, square, 1.0)), mask=inside)


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
    NORMALIZE: tl.constexpr,
) -> None:
    block = tl.program_id(0).to(tl.int64)
    step = step_of(step_state, offset)
    rate = rate_of(step_state, offset)
    if block < user_blocks:
        slot = block * R + tl.arange(0, R)
        mask = slot < user_slots
        row = tl.where(mask, slot, -1)
        if user_acc.by_row == 0:
            row = tl.load(batch.users + slot, mask=mask, other=-1).to(tl.int64)
        free = width - frozen
        _update_slots(
            tables.users,
            tables.user_state,
            user_acc,
            slot,
            row,
            step,
            rate,
            width,
            free,
            D,
            OPTIMIZER,
            SLOTS,
            NORMALIZE,
        )
    else:
        slot = (block - user_blocks) * R + tl.arange(0, R)
        mask = slot < item_slots
        row = tl.where(mask, slot, -1)
        if item_acc.by_row == 0:
            b = slot // (1 + many)
            x = slot - b * (1 + many) - 1  # -1 for the positive
            row = tl.load(batch.positives + b, mask=mask & (x < 0), other=-1).to(tl.int64)
            row = tl.maximum(row, tl.load(ids + b * many + x, mask=mask & (x >= 0), other=-1))
        _update_slots(
            tables.items,
            tables.item_state,
            item_acc,
            slot,
            row,
            step,
            rate,
            width,
            width,
            D,
            OPTIMIZER,
            SLOTS,
            NORMALIZE,
        )
