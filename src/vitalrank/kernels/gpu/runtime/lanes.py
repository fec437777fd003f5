"""Reductions and scans over the lanes of a warp, and where a program stands in its grid."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl


@triton.jit
def grid_cell() -> Any:
    """Row and column of this program in a grid of two dimensions, and the index of the cell in row-major order."""
    b = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1)
    return b, c, b * tl.num_programs(1) + c


@triton.jit
def count(flags: tl.tensor) -> Any:
    """How many flags are set."""
    return tl.sum(flags.to(tl.int32), axis=0)


@triton.jit
def _max(left: tl.tensor, right: tl.tensor) -> Any:
    return tl.maximum(left, right)


@triton.jit
def cumulative_max(values: tl.tensor) -> Any:
    """The largest value up to and including each lane."""  # (T,)
    return tl.associative_scan(values, 0, _max)


@triton.jit
def value_at(values: tl.tensor, lane: tl.tensor, T: tl.constexpr) -> Any:
    """The value of one lane; 0 if there is no such lane."""
    return tl.sum(tl.where(tl.arange(0, T) == lane, values, 0), axis=0)
