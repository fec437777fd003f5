"""One training step of matrix factorization on the GPU: each row that the batch hits is updated once.

A row that is hit once per batch is read by that occurrence alone, so it is updated directly. The gradients of rows hit
repeatedly are accumulated first, and a second kernel updates those rows: see
:mod:`vitalrank.kernels.gpu.training.multi_hit`.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from vitalrank import losses
from vitalrank.kernels.gpu.training.accumulators import Accumulators, accumulate, is_multi_hit, slot_of
from vitalrank.kernels.gpu.training.batches import Batch, Positives, StepState, rate_of, step_of
from vitalrank.kernels.gpu.training.gradients import CROSS_ENTROPY, loss_grad
from vitalrank.kernels.gpu.training.multi_hit import elect_owners, update_multi_hit
from vitalrank.kernels.gpu.training.optimizers import Tables, update_rows
from vitalrank.kernels.gpu.training.stats import DRAWN, VANISHED, VIOLATED, EpochStats
from vitalrank.kernels.step_config import StepConfig

SMALL_SLOPE = tl.constexpr(losses.VANISHED)
# Tiles, chosen by measurement at 64 columns.
_CELLS = 2048  # numbers of a tile of negatives
_ROWS = 2


def train_step(
    config: StepConfig,
    offset: int,
    step_state: StepState,
    ids: Tensor,
    weights: Tensor,
    mix: Tensor | None,
    tries: Tensor,
    violated: Tensor | None,
    positives: Positives,
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
    elect_owners(config, offset, step_state, ids, batch, user_acc, item_acc)
    rows = _ROWS if K == 1 else 1
    _forward_backward[(triton.cdiv(size, rows),)](
        offset, step_state, ids, weights, weights if mix is None else mix, tries,
        tries if violated is None else violated, batch, tables, stats, user_acc, item_acc, positives.batch_size, size,
        many, width, config.frozen, float(config.margin), float(config.reg), float(config.scale),
        float(config.positive_weight), float(config.power),
        R=rows, K=K, D=D, C=min(D, max(_CELLS // K, 1)), LOSS=config.loss, WEIGHT_GRADIENT=bool(config.weight_gradient),
        HAS_MARGIN=violated is not None, HAS_MIX=mix is not None, WEIGHTED=positives.weights is not None,
        OPTIMIZER=config.optimizer.code, SLOTS=config.optimizer.slots,
        num_warps=1 if K <= 16 else 4,
    )  # fmt: skip
    update_multi_hit(config, offset, step_state, ids, batch, tables, user_acc, item_acc)


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
    mix: tl.tensor,
    tries: tl.tensor,
    violated: tl.tensor,
    batch: tl.tensor,
    tables: tl.tensor,
    stats: tl.tensor,
    user_acc: tl.tensor,
    item_acc: tl.tensor,
    batch_size: tl.tensor,
    size: tl.tensor,
    many: tl.tensor,
    width: tl.tensor,
    frozen: tl.tensor,
    margin: tl.tensor,
    reg: tl.tensor,
    scale: tl.tensor,
    positive_weight: tl.tensor,
    power: tl.tensor,
    R: tl.constexpr,
    K: tl.constexpr,
    D: tl.constexpr,
    C: tl.constexpr,
    LOSS: tl.constexpr,
    WEIGHT_GRADIENT: tl.constexpr,
    HAS_MARGIN: tl.constexpr,
    HAS_MIX: tl.constexpr,
    WEIGHTED: tl.constexpr,
    OPTIMIZER: tl.constexpr,
    SLOTS: tl.constexpr,
) -> None:
    b = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)  # (R,)
    mask = b < size
    user = tl.load(batch.users + b, mask=mask, other=0).to(tl.int64)
    item = tl.load(batch.positives + b, mask=mask, other=0).to(tl.int64)
    x = tl.arange(0, K)
    negative_mask = mask[:, None] & (x < many)[None, :]
    negative = tl.load(ids + b[:, None] * many + x[None, :], mask=negative_mask, other=-1)  # (R, K)
    weight = tl.load(weights + b[:, None] * many + x[None, :], mask=negative_mask, other=0.0)
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
        row = mask[:, None] & (d < width)[None, :]
        query = tl.load(tables.users + user[:, None] * width + d[None, :], mask=row, other=0.0)  # (R, C)
        positive = tl.load(tables.items + item[:, None] * width + d[None, :], mask=row, other=0.0)
        own_score += tl.sum(query * positive, axis=1)[:, None]
        tile = drawn[:, :, None] & (d < width)[None, None, :]
        rows = tl.load(
            tables.items + negative[:, :, None] * width + d[None, None, :], mask=tile, other=0.0
        )  # (R, K, C)
        scores += tl.sum(rows * query[:, None, :], axis=2)
    if HAS_MIX:  # a negative m v_i + (1 - m) v_j
        share = tl.load(mix + b[:, None] * many + x[None, :], mask=negative_mask, other=0.0)  # (R, K)
        scores += share * (own_score - scores)
    loss, own, grad, max_slope = loss_grad(
        own_score * scale, scores * scale, weight, drawn, margin, positive_weight, power, LOSS, WEIGHT_GRADIENT
    )
    own *= scale
    grad *= scale
    if HAS_MIX:
        own += tl.sum(share * grad, axis=1)[:, None]
        grad -= share * grad
    total_weight = tl.sum(weight, axis=1)  # (R,)
    if WEIGHTED:
        of_positive = tl.load(batch.weights + b, mask=mask, other=0.0)
        loss *= of_positive[:, None]
        own *= of_positive[:, None]
        grad *= of_positive[:, None]
        total_weight *= of_positive
        if LOSS == CROSS_ENTROPY:  # a positive's own term counts 1 in the sums, and weighs so much instead
            total_weight += tl.where(trained, positive_weight * (of_positive - 1.0), 0.0)
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
    position = (tl.load(step_state.cursor) + offset) * batch_size + b
    tl.store(stats.losses + position, tl.where(trained, tl.sum(loss, axis=1), 0.0), mask=mask)
    tl.store(stats.weights + position, total_weight, mask=mask)
    tl.store(stats.tries + position, tl.load(tries + b, mask=mask, other=0), mask=mask)
    vanished = trained & (tl.sum(max_slope, axis=1) < SMALL_SLOPE)
    flags = trained.to(tl.int32) * DRAWN + vanished.to(tl.int32) * VANISHED
    if HAS_MARGIN:
        flags += tl.load(violated + b, mask=mask, other=0).to(tl.int32) * VIOLATED
    tl.store(stats.flags + position, flags.to(tl.uint8), mask=mask)
