"""Which rows a batch touches, how often, and what those that several places touch feel together.

Each row that a batch touches is claimed by the first place of the batch that touches it. Most rows are touched at one
place only; what the others feel is summed where they were claimed. Sums are whole multiples of 2**-40: adding integers
gives the same bits in any order, so they need no sorting to be the same in every run; and they fit the cache, which a
second table would not. Where a batch has more places than the table has rows, each row has its own sum instead.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

UNIT = tl.constexpr(float(2**40))  # a float32 sum below 2**23 fits, with twelve digits behind the point


class Sums(NamedTuple):
    """What the rows of one table feel in a step, and at which place of the batch that is summed."""

    score_grads: Tensor  # (places or rows, d) int64; zero between steps
    claims: Tensor  # (rows,) int64: the last step that touched the row, and the place that claimed it
    shared: Tensor  # (rows,) int32: the last step that touched the row at two places or more
    by_row: int  # 1 if there is a sum for each row, 0 for each place


def new_sums(rows: int, width: int, places: int, device: str) -> Sums:
    """Room for the sums of a table with so many rows, in batches that touch so many places."""
    return Sums(
        torch.zeros((min(places, rows), width), dtype=torch.int64, device=device),
        torch.zeros(rows, dtype=torch.int64, device=device),
        torch.zeros(rows, dtype=torch.int32, device=device),
        int(rows <= places),
    )


@triton.jit
def claim(sums: tl.tensor, place: tl.tensor, row: tl.tensor, step: tl.tensor, here: tl.tensor) -> Any:
    """Claim rows for places of the batch in this step; the lowest place that asks has it.

    Gives the mark that each row had before: all but the first to ask find one of this step, in whatever order they
    come.
    """
    return tl.atomic_max(sums.claims + row, _mark(step, place), mask=here, sem="relaxed")


@triton.jit
def note_shared(sums: tl.tensor, before: tl.tensor, row: tl.tensor, step: tl.tensor, here: tl.tensor) -> None:
    """Note the rows that were claimed before in this step, by what ``claim`` gave."""
    tl.store(sums.shared + row, step.to(tl.int32) + row.to(tl.int32) * 0, mask=here & ((before >> 32) == step))


@triton.jit
def home_of(sums: tl.tensor, row: tl.tensor, here: tl.tensor) -> Any:
    """Where what each row feels is summed."""
    claimed = 0xFFFFFFFF - (tl.load(sums.claims + row, mask=here, other=0xFFFFFFFF) & 0xFFFFFFFF)
    return tl.where(sums.by_row == 1, row.to(tl.int64), claimed)


@triton.jit
def is_shared(sums: tl.tensor, row: tl.tensor, step: tl.tensor, here: tl.tensor) -> Any:
    """Whether more places than one touch each row in this step."""
    return tl.load(sums.shared + row, mask=here, other=0) == step.to(tl.int32)


@triton.jit
def is_claimed(sums: tl.tensor, row: tl.tensor, step: tl.tensor, place: tl.tensor) -> Any:
    """Whether each place claimed its row, in this step."""
    return tl.load(sums.claims + row, mask=row >= 0, other=0) == _mark(step, place)


@triton.jit
def add(sums: tl.tensor, cell: tl.tensor, pull: tl.tensor, inside: tl.tensor) -> None:
    """Add to cells of the sums."""
    tl.atomic_add(sums.score_grads + cell, (pull * UNIT).to(tl.int64), mask=inside, sem="relaxed")


@triton.jit
def take(sums: tl.tensor, cell: tl.tensor, inside: tl.tensor) -> Any:
    """What cells of the sums hold; they are 0 again."""
    pull = tl.load(sums.score_grads + cell, mask=inside, other=0).to(tl.float32) * (1.0 / UNIT)
    tl.store(sums.score_grads + cell, cell * 0, mask=inside)
    return pull


@triton.jit
def _mark(step: tl.tensor, place: tl.tensor) -> Any:
    return (step << 32) | (0xFFFFFFFF - place)
