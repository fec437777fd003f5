"""How a row moves: one step of an optimizer for one row of a table."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from vitalrank.kernels.cpu.proposing import FAST
from vitalrank.kernels.rng import LEAN

SGD, ADAGRAD, ADAM = 0, 1, 2

_MEAN_KEEP, _SQUARE_KEEP = 0.9, 0.999
MEAN_TAKE = np.float32(1.0 - _MEAN_KEEP)
SQUARE_TAKE = np.float32(1.0 - _SQUARE_KEEP)
ADAM_EPS = np.float32(1e-8)
ADAGRAD_EPS = np.float32(1e-10)


class Optimizer(NamedTuple):
    """An optimizer by name: the number the kernels know it by, and how many values it keeps per weight."""

    code: int
    slots: int


OPTIMIZERS = {"sgd": Optimizer(SGD, 0), "adagrad": Optimizer(ADAGRAD, 1), "adam": Optimizer(ADAM, 2)}


def step_size(optimizer: str, rate: float, step: int) -> float:
    """The learning rate of the ``step``-th step, counted from 1: Adam's is corrected for moments that start at 0.

    Examples
    --------
    >>> round(step_size("adam", 0.1, 1), 6), step_size("sgd", 0.1, 1)
    (0.031623, 0.1)
    """
    if optimizer != "adam":
        return rate
    return rate * math.sqrt(1.0 - _SQUARE_KEEP**step) / (1.0 - _MEAN_KEEP**step)


@njit(inline="always", cache=True, fastmath=FAST, error_model="numpy", **LEAN)
def move_row(
    rule: Any, rate: Any, decay: Any, gradient: Any, values: Any, state: Any, first: Any, row: Any, width: Any
) -> None:
    """Move ``values[row, 0]`` by its gradient plus ``decay`` times itself; its state is at ``state[row, first]``."""
    if rule.optimizer == ADAM:
        for f in range(width):
            value = values[row, 0, f]
            pull = gradient[f] + decay * value
            mean = state[row, first, f]
            square = state[row, first + 1, f]
            mean += (pull - mean) * MEAN_TAKE
            square += (pull * pull - square) * SQUARE_TAKE
            state[row, first, f] = mean
            state[row, first + 1, f] = square
            values[row, 0, f] = value - rate * mean / (math.sqrt(square) + ADAM_EPS)
    elif rule.optimizer == ADAGRAD:
        for f in range(width):
            value = values[row, 0, f]
            pull = gradient[f] + decay * value
            square = state[row, first, f] + pull * pull
            state[row, first, f] = square
            values[row, 0, f] = value - rate * pull / (math.sqrt(square) + ADAGRAD_EPS)
    else:
        for f in range(width):
            value = values[row, 0, f]
            values[row, 0, f] = value - rate * (gradient[f] + decay * value)
