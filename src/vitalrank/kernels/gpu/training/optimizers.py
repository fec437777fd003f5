"""One optimizer update of many rows, as ``kernels.cpu.training.optimizers`` does it."""

from __future__ import annotations

from typing import NamedTuple

import triton
import triton.language as tl
from torch import Tensor

from vitalrank.kernels import optimizers as shared

ADAM = tl.constexpr(shared.OPTIMIZERS["adam"].code)
ADAGRAD = tl.constexpr(shared.OPTIMIZERS["adagrad"].code)
ONE_MINUS_BETA_1, ONE_MINUS_BETA_2 = (
    tl.constexpr(float(shared.ONE_MINUS_BETA_1)),
    tl.constexpr(float(shared.ONE_MINUS_BETA_2)),
)
ADAM_EPS, ADAGRAD_EPS = tl.constexpr(float(shared.ADAM_EPS)), tl.constexpr(float(shared.ADAGRAD_EPS))


class Tables(NamedTuple):
    """The trained tables and the optimizer's state."""

    users: Tensor  # (U, d)
    items: Tensor  # (I, d)
    user_state: Tensor  # (U, s, d)
    item_state: Tensor  # (I, s, d)


@triton.jit
def update_rows(
    values: tl.tensor,
    state: tl.tensor,
    cell: tl.tensor,
    state_cell: tl.tensor,
    width: tl.tensor,
    grad: tl.tensor,
    rate: tl.tensor,
    inside: tl.tensor,
    OPTIMIZER: tl.constexpr,
) -> None:
    """Update ``values[cell]`` by their gradient; the optimizer's state starts at ``state_cell``."""  # (R, D) each
    value = tl.load(values + cell, mask=inside, other=0.0)
    if OPTIMIZER == ADAM:
        mean = tl.load(state + state_cell, mask=inside, other=0.0)
        square = tl.load(state + state_cell + width, mask=inside, other=0.0)
        mean += (grad - mean) * ONE_MINUS_BETA_1
        square += (grad * grad - square) * ONE_MINUS_BETA_2
        tl.store(state + state_cell, mean, mask=inside)
        tl.store(state + state_cell + width, square, mask=inside)
        value -= rate * mean / (tl.sqrt(square) + ADAM_EPS)
    elif OPTIMIZER == ADAGRAD:
        square = tl.load(state + state_cell, mask=inside, other=0.0) + grad * grad
        tl.store(state + state_cell, square, mask=inside)
        value -= rate * grad / (tl.sqrt(square) + ADAGRAD_EPS)
    else:
        value -= rate * grad
    tl.store(values + cell, value, mask=inside)
