"""One optimizer update of one row of a table, for each optimizer."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba.extending import overload

from vitalrank.kernels.compiling import FAST, INNER, PICKED, njit
from vitalrank.kernels.optimizers import (
    ADAGRAD_EPS,
    ADAM_EPS,
    ONE_MINUS_BETA_1,
    ONE_MINUS_BETA_2,
    Adagrad,
    Adam,
    Optimizer,
    Sgd,
)

_OPTIONS: Any = {**PICKED, "fastmath": FAST}


def update_row(optimizer: Optimizer, rate: Any, decay: Any, gradient: Any, values: Any, state: Any) -> None:
    """Update the ``values`` (d,) of a row by its gradient plus ``decay`` times the values; ``state`` is (s, d)."""
    _UPDATES[type(optimizer)](optimizer, rate, decay, gradient, values, state)


@overload(update_row, jit_options=_OPTIONS)
def _compiled(optimizer: Any, rate: Any, decay: Any, gradient: Any, values: Any, state: Any) -> Any:
    return _UPDATES[optimizer.instance_class]


def _sgd(optimizer: Any, rate: Any, decay: Any, gradient: Any, values: Any, state: Any) -> None:
    for f in range(len(values)):
        values[f] -= rate * (gradient[f] + decay * values[f])


def _adagrad(optimizer: Any, rate: Any, decay: Any, gradient: Any, values: Any, state: Any) -> None:
    for f in range(len(values)):
        grad = gradient[f] + decay * values[f]
        square = state[0, f] + grad * grad
        state[0, f] = square
        values[f] -= rate * grad / (math.sqrt(square) + ADAGRAD_EPS)


def _adam(optimizer: Any, rate: Any, decay: Any, gradient: Any, values: Any, state: Any) -> None:
    for f in range(len(values)):
        grad = gradient[f] + decay * values[f]
        mean, square = state[0, f], state[1, f]
        mean += (grad - mean) * ONE_MINUS_BETA_1
        square += (grad * grad - square) * ONE_MINUS_BETA_2
        state[0, f], state[1, f] = mean, square
        values[f] -= rate * mean / (math.sqrt(square) + ADAM_EPS)


@njit(cache=True, fastmath=FAST, **INNER)
def to_tangent(gradient: Any, values: Any) -> None:
    """The gradient of a function of a row's direction, at a row of length 1: without its part along the row."""
    along = np.float32(0.0)
    for f in range(len(values)):
        along += gradient[f] * values[f]
    for f in range(len(values)):
        gradient[f] -= along * values[f]


@njit(cache=True, fastmath=FAST, error_model="numpy", **INNER)
def to_unit(values: Any) -> None:
    """Divide a row by its length."""
    square = np.float32(0.0)
    for f in range(len(values)):
        square += values[f] * values[f]
    if square > 0.0:
        factor = np.float32(1.0) / math.sqrt(square)
        for f in range(len(values)):
            values[f] *= factor


_UPDATES = {Sgd: _sgd, Adagrad: _adagrad, Adam: _adam}
