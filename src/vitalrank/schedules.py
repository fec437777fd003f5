"""Learning-rate schedules: the share of the learning rate that is left, given the share of the training done."""

from __future__ import annotations

import math
from collections.abc import Callable


def constant(done: float) -> float:
    """Always the whole rate.

    Examples
    --------
    >>> constant(0.5)
    1.0
    """
    return 1.0


def linear(done: float) -> float:
    """Down to nothing in a straight line.

    Examples
    --------
    >>> linear(0.25)
    0.75
    """
    return 1.0 - done


def cosine(done: float) -> float:
    """Down to nothing along half a cosine.

    Examples
    --------
    >>> round(cosine(0.5), 6)
    0.5
    """
    return 0.5 * (1.0 + math.cos(math.pi * done))


SCHEDULES: dict[str, Callable[[float], float]] = {"constant": constant, "linear": linear, "cosine": cosine}
