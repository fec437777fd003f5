"""Philox on the GPU: the same words as ``kernels.rng`` gives for the same counter."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from vitalrank.kernels import rng

PROPOSE = tl.constexpr(rng.PROPOSE)
RANK = tl.constexpr(rng.RANK)
FACTOR = tl.constexpr(rng.FACTOR)
FALLBACK = tl.constexpr(rng.FALLBACK)
DROP = tl.constexpr(rng.DROP)
STREAMS = tl.constexpr(rng.STREAMS)


@triton.jit
def counter_prefix(counter: tl.tensor, b: tl.tensor) -> Any:
    """Key, step and row number of row ``b``: the part of the counter that all words of the row share."""
    seed = tl.load(counter.seed).to(tl.uint64, bitcast=True)
    low = (seed & 0xFFFFFFFF).to(tl.uint32)
    high = (seed >> 32).to(tl.uint32)
    return low, high, tl.load(counter.step).to(tl.uint32), tl.load(counter.rows + b).to(tl.uint32)


@triton.jit
def counter_prefixes(counter: tl.tensor, b: tl.tensor, mask: tl.tensor) -> Any:
    """The same for many rows at once."""
    low, high, step, _ = counter_prefix(counter, 0)
    return low, high, step, tl.load(counter.rows + b, mask=mask, other=0).to(tl.uint32)


@triton.jit
def philox(prefix: tl.tensor, draw: tl.tensor, stream: tl.tensor) -> Any:
    """Four random words for each draw index."""  # (T,) uint32 each
    low, high, step, row = prefix
    draw = draw.to(tl.uint32)
    zero = draw * 0
    return tl.philox_impl(zero + step, zero + row, draw, zero + stream.to(tl.uint32), low, high, 10)


@triton.jit
def word_pair(prefix: tl.tensor, draw: tl.tensor, stream: tl.tensor) -> Any:
    """The pairs of words of draw indices of a stream: block ``draw // 2``, its first or second half."""  # (T,) each
    a, b, c, d = philox(prefix, draw >> 1, stream)
    first = (draw & 1) == 0
    return tl.where(first, a, c), tl.where(first, b, d)


@triton.jit
def below(word: tl.tensor, n: tl.tensor) -> Any:
    """A number in 0..n-1 from a word."""
    return tl.umulhi(word, word * 0 + n.to(tl.uint32)).to(tl.int32)


@triton.jit
def unit(word: tl.tensor) -> Any:
    """A float64 in [0, 1) from a word."""
    return word.to(tl.float64) * (1.0 / 4294967296.0)


@triton.jit
def fine_unit(high: tl.tensor, low: tl.tensor) -> Any:
    """A float64 in [0, 1) with 53 random bits from two words."""
    bits = ((high.to(tl.uint64) << 32) | low.to(tl.uint64)) >> 11
    return bits.to(tl.float64) * (1.0 / 9007199254740992.0)
