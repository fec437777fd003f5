"""One training step of matrix factorization on the GPU: sum what each row feels, move each row once.

Each row that a batch touches is claimed by the first place of the batch that touches it; there what the row feels is
summed, and from there it is moved. Sums are whole multiples of 2**-40: adding integers gives the same bits in any
order, so they need no sorting to be the same in every run; and they fit the cache, which a second table would not.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from vitalrank.kernels.cpu import steps as cpu
from vitalrank.kernels.cpu.steps import Rule
from vitalrank.kernels.gpu.batches import Batch, Log, Now
from vitalrank.kernels.gpu.felt import DRAWN, VANISHED, VIOLATED, Felt
from vitalrank.kernels.gpu.moves import move_rows, slots_of
from vitalrank.kernels.gpu.pulls import pull_row

UNIT = tl.constexpr(float(2**40))  # a float32 sum below 2**23 fits, with twelve digits behind the point
FAINT = tl.constexpr(cpu.VANISHED)
# Tiles, chosen by measurement at 64 columns.
_CELLS = 2048  # numbers of a tile of negatives
_CLAIM_CELLS = 128
_SUM_ROWS, _SUM_WARPS = 4, 1
_MOVE_ROWS, _MOVE_WARPS = 8, 2


class Tables(NamedTuple):
    """What training moves."""

    users: Tensor  # (U, d)
    items: Tensor  # (I, d)
    user_state: Tensor  # (U, s, d)
    item_state: Tensor  # (I, s, d)


class Sums(NamedTuple):
    """What the rows of one table feel in a step, and at which place of the batch that is summed."""

    pulls: Tensor  # (places, d) int64; zero between steps
    claims: Tensor  # (rows,) int64: the last step that touched the row, and the place that claimed it


def new_sums(rows: int, width: int, places: int, device: str) -> Sums:
    """Room for the sums of a table with so many rows, in batches that touch so many places."""
    return Sums(
        torch.zeros((places, width), dtype=torch.int64, device=device),
        torch.zeros(rows, dtype=torch.int64, device=device),
    )


def take_step(
    rule: Rule,
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
    few = max(_CLAIM_CELLS // K, 1)
    _claim_rows[(triton.cdiv(size, few),)](now, ids, batch, user_sums, item_sums, size, many, R=few, K=K, num_warps=1)
    rows = _SUM_ROWS if K == 1 else 1
    _sum_pulls[(triton.cdiv(size, rows),)](
        offset, now, ids, weights, tries, tries if violated is None else violated, batch, tables, felt,
        user_sums, item_sums, log.stride, size, many, width, rule.frozen, float(rule.margin), float(rule.reg),
        R=rows, K=K, D=D, C=min(D, max(_CELLS // K, 1)), LOSS=rule.loss, WEIGHT_GRADIENT=bool(rule.weight_gradient),
        HAS_MARGIN=violated is not None, num_warps=_SUM_WARPS if K <= 16 else 4,
    )  # fmt: skip
    places = size * (1 + many)
    user_blocks = triton.cdiv(size, _MOVE_ROWS)
    _move_claimed[(user_blocks + triton.cdiv(places, _MOVE_ROWS),)](
        now, ids, batch, tables, user_sums, item_sums, user_blocks, size, many, width, rule.frozen,
        R=_MOVE_ROWS, D=D, OPTIMIZER=rule.optimizer, SLOTS=slots_of(rule.optimizer), num_warps=_MOVE_WARPS,
    )  # fmt: skip


@triton.jit
def _claim(sums: tl.tensor, place: tl.tensor, row: tl.tensor, step: tl.tensor, here: tl.tensor) -> None:
    """Claim rows for places of the batch in this step; the lowest place that asks has it."""
    tl.atomic_max(sums.claims + row, (step << 32) | (0xFFFFFFFF - place), mask=here, sem="relaxed")


@triton.jit
def _place_of(sums: tl.tensor, row: tl.tensor, here: tl.tensor) -> Any:
    """The place that claimed each row."""
    return 0xFFFFFFFF - (tl.load(sums.claims + row, mask=here, other=0xFFFFFFFF) & 0xFFFFFFFF)


@triton.jit
def _step_number(now: tl.tensor) -> Any:
    """The step being trained, from 1: no claim is of step 0."""
    return tl.load(now.step) + 1


@triton.jit
def _claim_rows(
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
    step = _step_number(now)
    place = b * (1 + many)
    _claim(user_sums, b, tl.load(batch.users + b, mask=here, other=0), step, trained)
    _claim(item_sums, place, tl.load(batch.positives + b, mask=here, other=0), step, trained)
    _claim(item_sums, place[:, None] + 1 + x[None, :], negative, step, drawn)


@triton.jit
def _add(sums: tl.tensor, place: tl.tensor, pull: tl.tensor, inside: tl.tensor) -> None:
    tl.atomic_add(sums.pulls + place, (pull * UNIT).to(tl.int64), mask=inside, sem="relaxed")


@triton.jit(do_not_specialize=["offset"])
def _sum_pulls(
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
    own_score = tl.zeros((R, 1), tl.float32)
    scores = tl.zeros((R, K), tl.float32)
    for start in tl.static_range(0, D, C):
        d = start + tl.arange(0, C)
        row = here[:, None] & (d < width)[None, :]
        query = tl.load(batch.queries + b[:, None] * width + d[None, :], mask=row, other=0.0)  # (R, C)
        positive = tl.load(tables.items + item[:, None] * width + d[None, :], mask=row, other=0.0)
        own_score += tl.sum(query * positive, axis=1)[:, None]
        tile = drawn[:, :, None] & (d < width)[None, None, :]
        rows = tl.load(
            tables.items + negative[:, :, None] * width + d[None, None, :], mask=tile, other=0.0
        )  # (R, K, C)
        scores += tl.sum(rows * query[:, None, :], axis=2)
    user_place = _place_of(user_sums, user, trained)  # (R,)
    item_place = _place_of(item_sums, item, trained)
    negative_place = _place_of(item_sums, negative, drawn)  # (R, K)
    loss, own, pull, strongest = pull_row(own_score, scores, weight, drawn, margin, LOSS, WEIGHT_GRADIENT)
    for start in tl.static_range(0, D, C):
        d = start + tl.arange(0, C)
        row = trained[:, None] & (d < width)[None, :]
        query = tl.load(batch.queries + b[:, None] * width + d[None, :], mask=row, other=0.0)
        positive = tl.load(tables.items + item[:, None] * width + d[None, :], mask=row, other=0.0)
        tile = drawn[:, :, None] & (d < width)[None, None, :]
        rows = tl.load(tables.items + negative[:, :, None] * width + d[None, None, :], mask=tile, other=0.0)
        user_pull = own * positive + tl.sum(pull[:, :, None] * rows, axis=1) + reg * query
        _add(user_sums, user_place[:, None] * width + d[None, :], user_pull, row & (d < width - frozen)[None, :])
        _add(item_sums, item_place[:, None] * width + d[None, :], own * query + reg * positive, row)
        negative_pull = pull[:, :, None] * query[:, None, :] + reg * rows
        _add(item_sums, negative_place[:, :, None] * width + d[None, None, :], negative_pull, tile)
    place = (tl.load(now.cursor) + offset) * stride + b
    tl.store(felt.losses + place, tl.where(trained, tl.sum(loss, axis=1), 0.0), mask=here)
    tl.store(felt.weights + place, tl.sum(weight, axis=1), mask=here)
    tl.store(felt.tries + place, tl.load(tries + b, mask=here, other=0), mask=here)
    faint = trained & (tl.sum(strongest, axis=1) < FAINT)
    flags = trained.to(tl.int32) * DRAWN + faint.to(tl.int32) * VANISHED
    if HAS_MARGIN:
        flags += tl.load(violated + b, mask=here, other=0).to(tl.int32) * VIOLATED
    tl.store(felt.flags + place, flags.to(tl.uint8), mask=here)


@triton.jit
def _move(
    values: tl.tensor,
    state: tl.tensor,
    sums: tl.tensor,
    place: tl.tensor,
    row: tl.tensor,
    now: tl.tensor,
    width: tl.tensor,
    free: tl.tensor,
    D: tl.constexpr,
    OPTIMIZER: tl.constexpr,
    SLOTS: tl.constexpr,
) -> None:
    """Move the rows that are claimed by their places, and clear the sums there."""
    claim = tl.load(sums.claims + row, mask=row >= 0, other=0)
    claimed = claim == ((_step_number(now) << 32) | (0xFFFFFFFF - place))  # (R,)
    d = tl.arange(0, D)
    inside = claimed[:, None] & (d < free)[None, :]
    cell = place[:, None] * width + d[None, :]  # (R, D)
    pull = tl.load(sums.pulls + cell, mask=inside, other=0).to(tl.float32) * (1.0 / UNIT)
    tl.store(sums.pulls + cell, cell * 0, mask=inside)
    slot = row[:, None] * (SLOTS * width) + d[None, :]
    at = row[:, None] * width + d[None, :]
    move_rows(values, state, at, slot, width, pull, tl.load(now.rate), inside, OPTIMIZER)


@triton.jit
def _move_claimed(
    now: tl.tensor,
    ids: tl.tensor,
    batch: tl.tensor,
    tables: tl.tensor,
    user_sums: tl.tensor,
    item_sums: tl.tensor,
    user_blocks: tl.tensor,
    size: tl.tensor,
    many: tl.tensor,
    width: tl.tensor,
    frozen: tl.tensor,
    R: tl.constexpr,
    D: tl.constexpr,
    OPTIMIZER: tl.constexpr,
    SLOTS: tl.constexpr,
) -> None:
    block = tl.program_id(0).to(tl.int64)
    if block < user_blocks:
        b = block * R + tl.arange(0, R)
        row = tl.load(batch.users + b, mask=b < size, other=-1).to(tl.int64)
        free = width - frozen
        _move(tables.users, tables.user_state, user_sums, b, row, now, width, free, D, OPTIMIZER, SLOTS)
    else:
        place = (block - user_blocks) * R + tl.arange(0, R)
        b = place // (1 + many)
        x = place - b * (1 + many) - 1  # -1 for the positive
        row = tl.load(batch.positives + b, mask=(b < size) & (x < 0), other=-1).to(tl.int64)
        row = tl.maximum(row, tl.load(ids + b * many + x, mask=(b < size) & (x >= 0), other=-1))
        _move(tables.items, tables.item_state, item_sums, place, row, now, width, width, D, OPTIMIZER, SLOTS)
