"""Dropout on the GPU whose mask depends on the seed, the step and the layer alone: no state that threads share."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from vitalrank.kernels.gpu.runtime.rng import DROP, philox
from vitalrank.kernels.gpu.sampling.arrays import Counter

_QUADS, _WARPS = 512, 4


def drop(x: Tensor, share: float, counter: Counter, layer: int) -> Tensor:
    """``x`` with a share of its numbers set to 0 and the others scaled up to keep the mean; so is its gradient."""
    kept: Tensor = _Drop.apply(x, share, counter, layer)
    return kept


class _Drop(torch.autograd.Function):
    """The backward pass draws the same mask again instead of keeping it."""

    @staticmethod
    def forward(context: Any, x: Tensor, share: float, counter: Counter, layer: int) -> Tensor:
        context.arguments = (share, counter, layer)
        return _dropped(x.contiguous(), share, counter, layer)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Any:
        return _dropped(gradient.contiguous(), *context.arguments), None, None, None


def _dropped(x: Tensor, share: float, counter: Counter, layer: int) -> Tensor:
    out = torch.empty_like(x)
    quads = triton.cdiv(x.numel(), 4)
    if quads:
        threshold = min(round(share * 2**32), 2**32 - 1)
        _drop[(triton.cdiv(quads, _QUADS),)](
            counter, x, out, x.numel(), quads, layer, threshold, 1.0 / (1.0 - share), T=_QUADS, num_warps=_WARPS
        )
    return out


@triton.jit(do_not_specialize=["layer", "threshold"])
def _drop(
    counter: tl.tensor,
    x: tl.tensor,
    out: tl.tensor,
    size: tl.tensor,
    quads: tl.tensor,
    layer: tl.tensor,
    threshold: tl.tensor,
    scale: tl.tensor,
    T: tl.constexpr,
) -> None:
    quad = tl.program_id(0) * T + tl.arange(0, T)
    seed = tl.load(counter.seed).to(tl.uint64, bitcast=True)
    step = tl.load(counter.step).to(tl.uint32)
    prefix = (seed & 0xFFFFFFFF).to(tl.uint32), (seed >> 32).to(tl.uint32), step, quad.to(tl.uint32)
    drawn = philox(prefix, quad * 0 + layer, quad * 0 + DROP)
    for part in tl.static_range(4):
        cell = part * quads + quad
        inside = (quad < quads) & (cell < size)
        value = tl.load(x + cell, mask=inside, other=0.0)
        kept = tl.where(drawn[part].to(tl.int64) >= threshold, value.to(tl.float32) * scale, 0.0)
        tl.store(out + cell, kept.to(value.dtype), mask=inside)
