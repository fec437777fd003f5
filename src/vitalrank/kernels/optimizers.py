"""The optimizers that every device knows: constants, step sizes, and how many values of state a weight has."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

_BETA_1, _BETA_2 = 0.9, 0.999  # decay of Adam's moving means of the gradient and of its square
ONE_MINUS_BETA_1 = np.float32(1.0 - _BETA_1)
ONE_MINUS_BETA_2 = np.float32(1.0 - _BETA_2)
ADAM_EPS = np.float32(1e-8)
ADAGRAD_EPS = np.float32(1e-10)


class Optimizer(NamedTuple):
    """An optimizer: the code that selects it in the GPU kernels, and its values of state per weight.

    Each is a type of its own, so that a CPU kernel is compiled for the optimizer it is given and for no other.
    """

    code: int
    slots: int

    def step_size(self, rate: float, step: int) -> float:
        """Step size of the ``step``-th step, counted from 1, at a learning rate."""
        return rate

    def step_sizes(self, rate: Callable[[float], float], positives: int, batch: int, done: int) -> list[float]:
        """Step sizes of an epoch that follows ``done`` steps; ``rate`` gives the learning rate at a share of the epoch.

        Examples
        --------
        >>> OPTIMIZERS["sgd"].step_sizes(lambda share: 1.0 - share, positives=8, batch=3, done=0)
        [1.0, 0.625, 0.25]
        """
        starts = range(0, positives, batch)
        return [self.step_size(rate(start / positives), step) for step, start in enumerate(starts, start=done + 1)]


class Sgd(Optimizer):
    """Stochastic gradient descent."""


class Adagrad(Optimizer):
    """Adagrad, Duchi, Hazan and Singer, JMLR 12, 2011."""


class Adam(Optimizer):
    """Adam, Kingma and Ba, ICLR 2015."""

    def step_size(self, rate: float, step: int) -> float:
        """Step size with the bias correction of both moments.

        Examples
        --------
        >>> round(OPTIMIZERS["adam"].step_size(0.1, step=1), 6)
        0.031623
        """
        return rate * math.sqrt(1.0 - _BETA_2**step) / (1.0 - _BETA_1**step)


OPTIMIZERS: dict[str, Optimizer] = {"sgd": Sgd(0, 0), "adagrad": Adagrad(1, 1), "adam": Adam(2, 2)}
