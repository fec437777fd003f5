"""The keyed permutation of ``kernels.cpu.training.permutation``, many positions at once."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from vitalrank.kernels.cpu.training import permutation as cpu

ROUNDS = tl.constexpr(cpu.ROUNDS)
MIX_0, MIX_1 = tl.constexpr(int(cpu.MIX_0)), tl.constexpr(int(cpu.MIX_1))


class Permutation(NamedTuple):
    """One permutation of ``0..size-1``; on the device, so that a graph can be replayed with the next epoch's."""

    shape: Tensor  # (3,) size, height, width
    keys: Tensor  # (ROUNDS,) the bits of unsigned words


def new_permutation(device: torch.device) -> Permutation:
    """A permutation to be filled in."""
    keys = torch.zeros(cpu.ROUNDS, dtype=torch.int32, device=device)
    return Permutation(torch.zeros(3, dtype=torch.int64, device=device), keys)


def write_permutation(permutation: Permutation, size: int, seed: int, epoch: int) -> None:
    """Fill in the permutation of one epoch."""
    plain = cpu.epoch_permutation(size, seed, epoch)
    permutation.shape.copy_(torch.tensor([plain.size, plain.height, plain.width]))
    permutation.keys.copy_(torch.from_numpy(plain.keys.view(np.int32)))


@triton.jit
def _hash(half: tl.tensor, key: tl.tensor) -> Any:
    x = half.to(tl.uint32) ^ key
    x = (x ^ (x >> 16)) * MIX_0
    x = (x ^ (x >> 15)) * MIX_1
    return x ^ (x >> 16)


@triton.jit
def _add(half: tl.tensor, word: tl.tensor, size: tl.tensor) -> Any:
    total = half + tl.umulhi(word, word * 0 + size.to(tl.uint32)).to(tl.int64)
    return tl.where(total >= size, total - size, total)


@triton.jit
def rows_at(permutation: tl.tensor, position: tl.tensor, mask: tl.tensor) -> Any:
    """The rows at the positions."""
    size = tl.load(permutation.shape)
    height = tl.load(permutation.shape + 1)
    width = tl.load(permutation.shape + 2)
    row = position
    outside = mask
    while tl.sum(outside.to(tl.int32), axis=0) > 0:
        left = row // width
        right = row - left * width
        for round_ in tl.static_range(0, ROUNDS, 2):
            left = _add(left, _hash(right, tl.load(permutation.keys + round_).to(tl.uint32, bitcast=True)), height)
            right = _add(right, _hash(left, tl.load(permutation.keys + round_ + 1).to(tl.uint32, bitcast=True)), width)
        row = tl.where(outside, left * width + right, row)
        outside = outside & (row >= size)
    return row
