"""Which rows a batch hits, how often, and the summed gradients of those that it hits repeatedly.

Each row that a batch hits is owned by the first occurrence of it in the batch. Most rows are hit once; the gradients of
multi-hit rows are accumulated in the slot of their owner. Accumulators are fixed-point integers, multiples of 2**-40:
integer addition gives the same bits in any order, so nothing must be sorted; and they fit the cache, which a second
table would not. Where a batch has more occurrences than the table has rows, each row has a slot of its own instead.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

UNIT = tl.constexpr(float(2**40))  # a float32 sum below 2**23 fits, with twelve digits behind the point


class Accumulators(NamedTuple):
    """Summed gradients of one table's multi-hit rows in a step, and the occurrence that owns each row."""

    grads: Tensor  # (slots, d) int64; zero between steps
    owner: Tensor  # (rows,) int64: the last step that hit the row, and the occurrence that owns it
    multi_hit: Tensor  # (rows,) int32: the last step that hit the row more than once
    by_row: int  # 1 if there is a slot for each row, 0 for each occurrence


def new_accumulators(rows: int, width: int, occurrences: int, device: str) -> Accumulators:
    """Accumulators of a table with ``rows`` rows, for batches of ``occurrences`` occurrences."""
    return Accumulators(
        torch.zeros((min(occurrences, rows), width), dtype=torch.int64, device=device),
        torch.zeros(rows, dtype=torch.int64, device=device),
        torch.zeros(rows, dtype=torch.int32, device=device),
        int(rows <= occurrences),
    )


@triton.jit
def elect_owner(acc: tl.tensor, occurrence: tl.tensor, row: tl.tensor, step: tl.tensor, mask: tl.tensor) -> Any:
    """Elect the owner of each row in this step: the lowest occurrence, by an atomic maximum.

    Returns the former key of each row: all occurrences but the first to arrive find one of this step, in any order.
    """
    return tl.atomic_max(acc.owner + row, _owner_key(step, occurrence), mask=mask, sem="relaxed")


@triton.jit
def mark_multi_hit(
    acc: tl.tensor, before: tl.tensor, row: tl.tensor, step: tl.tensor, mask: tl.tensor, ALL: tl.constexpr
) -> None:
    """Mark the rows that had an owner already in this step, by the keys that ``elect_owner`` returned; or all."""
    marked = mask if ALL else mask & ((before >> 32) == step)
    tl.store(acc.multi_hit + row, step.to(tl.int32) + row.to(tl.int32) * 0, mask=marked)


@triton.jit
def slot_of(acc: tl.tensor, row: tl.tensor, mask: tl.tensor) -> Any:
    """Index of the accumulator slot that collects each row's gradient."""
    owner = 0xFFFFFFFF - (tl.load(acc.owner + row, mask=mask, other=0xFFFFFFFF) & 0xFFFFFFFF)
    return tl.where(acc.by_row == 1, row.to(tl.int64), owner)


@triton.jit
def is_multi_hit(acc: tl.tensor, row: tl.tensor, step: tl.tensor, mask: tl.tensor) -> Any:
    """Whether each row is hit more than once in this step."""
    return tl.load(acc.multi_hit + row, mask=mask, other=0) == step.to(tl.int32)


@triton.jit
def is_owner(acc: tl.tensor, row: tl.tensor, step: tl.tensor, occurrence: tl.tensor) -> Any:
    """Whether each occurrence owns its row in this step."""
    return tl.load(acc.owner + row, mask=row >= 0, other=0) == _owner_key(step, occurrence)


@triton.jit
def accumulate(acc: tl.tensor, cell: tl.tensor, grad: tl.tensor, inside: tl.tensor) -> None:
    """Add gradients to cells of the accumulators, atomically."""
    tl.atomic_add(acc.grads + cell, (grad * UNIT).to(tl.int64), mask=inside, sem="relaxed")


@triton.jit
def take_sum(acc: tl.tensor, cell: tl.tensor, inside: tl.tensor) -> Any:
    """Read cells of the accumulators and reset them to 0."""
    grad = tl.load(acc.grads + cell, mask=inside, other=0).to(tl.float32) * (1.0 / UNIT)
    tl.store(acc.grads + cell, cell * 0, mask=inside)
    return grad


@triton.jit
def _owner_key(step: tl.tensor, occurrence: tl.tensor) -> Any:
    return (step << 32) | (0xFFFFFFFF - occurrence)
