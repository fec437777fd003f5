"""How rows move: one step of an optimizer, as ``kernels.cpu.moves`` does it."""

from __future__ import annotations

from typing import NamedTuple

import triton
import triton.language as tl
from torch import Tensor

from vitalrank.kernels.cpu.training import optimizers as cpu

ADAM = tl.constexpr(cpu.OPTIMIZERS["adam"].code)
ADAGRAD = tl.constexpr(cpu.OPTIMIZERS["adagrad"].code)
MEAN_TAKE, SQUARE_TAKE = tl.constexpr(float(cpu.MEAN_TAKE)), tl.constexpr(float(cpu.SQUARE_TAKE))
ADAM_EPS, ADAGRAD_EPS = tl.constexpr(float(cpu.ADAM_EPS)), tl.constexpr(float(cpu.ADAGRAD_EPS))


class Tables(NamedTuple):
    """What training moves."""

    users: Tensor  # (U, d)
    items: Tensor  # (I, d)
    user_state: Tensor  # (U, s, d)
    item_state: Tensor  # (I, s, d)


@triton.jit
def move_rows(
    values: tl.tensor,
    state: tl.tensor,
    place: tl.tensor,
    slot: tl.tensor,
    width: tl.tensor,
    pull: tl.tensor,
    rate: tl.tensor,
    inside: tl.tensor,
    OPTIMIZER: tl.constexpr,
) -> None:
    """Move ``values[place]`` by ``pull``; the optimizer's state begins at ``slot``."""  # (R, D) each
    value = tl.load(values + place, mask=inside, other=0.0)
    if OPTIMIZER == ADAM:
        mean = tl.load(state + slot, mask=inside, other=0.0)
        square = tl.load(state + slot + width, mask=inside, other=0.0)
        mean += (pull - mean) * MEAN_TAKE
        square += (pull * pull - square) * SQUARE_TAKE
        tl.store(state + slot, mean, mask=inside)
        tl.store(state + slot + width, square, mask=inside)
        value -= rate * mean / (tl.sqrt(square) + ADAM_EPS)
    elif OPTIMIZER == ADAGRAD:
        square = tl.load(state + slot, mask=inside, other=0.0) + pull * pull
        tl.store(state + slot, square, mask=inside)
        value -= rate * pull / (tl.sqrt(square) + ADAGRAD_EPS)
    else:
        value -= rate * pull
    tl.store(values + place, value, mask=inside)
