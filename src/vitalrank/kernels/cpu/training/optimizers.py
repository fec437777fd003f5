"""How a row moves: one step of an optimizer for one row of a table."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload

from vitalrank.kernels.compiling import FAST, PICKED

_MEAN_KEEP, _SQUARE_KEEP = 0.9, 0.999
MEAN_TAKE = np.float32(1.0 - _MEAN_KEEP)
SQUARE_TAKE = np.float32(1.0 - _SQUARE_KEEP)
ADAM_EPS = np.float32(1e-8)
ADAGRAD_EPS = np.float32(1e-10)
_PICKED: Any = {**PICKED, "fastmath": FAST}


class Optimizer(NamedTuple):
    """An optimizer: the number the GPU's kernels know it by, and how many values it keeps per weight.

    Each is a type of its own: a kernel is compiled for the one it is given, not for all of them.
    """

    code: int
    slots: int

    def step_size(self, rate: float, step: int) -> float:
        """How far the ``step``-th step goes at a learning rate, counted from 1."""
        return rate

    def step_sizes(self, rate: Callable[[float], float], positives: int, batch: int, done: int) -> list[float]:
        """The sizes of an epoch's steps, after ``done`` steps; ``rate`` is by the share of the epoch's positives done.

        Examples
        --------
        >>> OPTIMIZERS["sgd"].step_sizes(lambda share: 1.0 - share, positives=8, batch=3, done=0)
        [1.0, 0.625, 0.25]
        """
        starts = range(0, positives, batch)
        return [self.step_size(rate(start / positives), step) for step, start in enumerate(starts, start=done + 1)]


class Sgd(Optimizer):
    """The gradient, as it is."""


class Adagrad(Optimizer):
    """By the root of the squares so far: Duchi, Hazan and Singer, JMLR 12, 2011."""


class Adam(Optimizer):
    """By moving means of gradients and their squares: Kingma and Ba, ICLR 2015."""

    def step_size(self, rate: float, step: int) -> float:
        """Corrected for means that start at 0.

        Examples
        --------
        >>> round(OPTIMIZERS["adam"].step_size(0.1, step=1), 6)
        0.031623
        """
        return rate * math.sqrt(1.0 - _SQUARE_KEEP**step) / (1.0 - _MEAN_KEEP**step)


OPTIMIZERS: dict[str, Optimizer] = {"sgd": Sgd(0, 0), "adagrad": Adagrad(1, 1), "adam": Adam(2, 2)}


def move_row(optimizer: Optimizer, rate: Any, decay: Any, gradient: Any, values: Any, state: Any) -> None:
    """Move the ``values`` (d,) of a row by its gradient plus ``decay`` times themselves; its ``state`` is (s, d)."""
    _MOVES[type(optimizer)](optimizer, rate, decay, gradient, values, state)


@overload(move_row, jit_options=_PICKED)
def _compiled(optimizer: Any, rate: Any, decay: Any, gradient: Any, values: Any, state: Any) -> Any:
    return _MOVES[optimizer.instance_class]


def _by_gradient(optimizer: Any, rate: Any, decay: Any, gradient: Any, values: Any, state: Any) -> None:
    for f in range(len(values)):
        values[f] -= rate * (gradient[f] + decay * values[f])


def _by_squares(optimizer: Any, rate: Any, decay: Any, gradient: Any, values: Any, state: Any) -> None:
    for f in range(len(values)):
        pull = gradient[f] + decay * values[f]
        square = state[0, f] + pull * pull
        state[0, f] = square
        values[f] -= rate * pull / (math.sqrt(square) + ADAGRAD_EPS)


def _by_moments(optimizer: Any, rate: Any, decay: Any, gradient: Any, values: Any, state: Any) -> None:
    for f in range(len(values)):
        pull = gradient[f] + decay * values[f]
        mean, square = state[0, f], state[1, f]
        mean += (pull - mean) * MEAN_TAKE
        square += (pull * pull - square) * SQUARE_TAKE
        state[0, f], state[1, f] = mean, square
        values[f] -= rate * mean / (math.sqrt(square) + ADAM_EPS)


_MOVES = {Sgd: _by_gradient, Adagrad: _by_squares, Adam: _by_moments}
