"""What the lanes of a warp know together."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl


@triton.jit
def count(flags: tl.tensor) -> Any:
    """How many flags are set."""
    return tl.sum(flags.to(tl.int32), axis=0)


@triton.jit
def _larger(left: tl.tensor, right: tl.tensor) -> Any:
    return tl.maximum(left, right)


@triton.jit
def running_max(values: tl.tensor) -> Any:
    """The largest value at or before each place."""  # (T,)
    return tl.associative_scan(values, 0, _larger)


@triton.jit
def at(values: tl.tensor, place: tl.tensor, T: tl.constexpr) -> Any:
    """The value at one place."""
    return tl.sum(tl.where(tl.arange(0, T) == place, values, 0), axis=0)
