"""Exponentials and sums of a row of scores, in loops that vectorise, each in one order."""

from __future__ import annotations

from typing import Any

import numpy as np

from vitalrank.kernels.compiling import FAST, INNER, njit
from vitalrank.kernels.cpu.runtime.intrinsics import power_of_two

TILE = 64  # a row has whole tiles; its maximum runs in so many lanes, which are taken together at the end
_LOWEST = np.float32(-87.0)  # whose exponential is about the least float
_LOG2_E, _LN2_HIGH, _LN2_LOW = map(np.float32, (1.4426950408889634, 0.693359375, -2.12194440e-4))
_C_5, _C_4, _C_3 = map(np.float32, (1.9875691e-4, 1.3981999e-3, 8.333452e-3))  # Cephes' polynomial
_C_2, _C_1, _C_0 = map(np.float32, (4.1665796e-2, 0.16666667, 0.5))


@njit(inline="always")
def _exp(x: Any) -> Any:
    """``e^x`` of a float32 that is not above 0, to 1e-7 of it; 0 below -87."""
    bounded = _LOWEST if x < _LOWEST else x  # NaN stays
    whole = np.floor(bounded * _LOG2_E + np.float32(0.5))
    rest = bounded - whole * _LN2_HIGH
    rest -= whole * _LN2_LOW
    power = ((((_C_5 * rest + _C_4) * rest + _C_3) * rest + _C_2) * rest + _C_1) * rest + _C_0
    power = power * rest * rest + rest + np.float32(1.0)
    return np.float32(0.0) if x < _LOWEST else power * power_of_two(whole)


@njit(cache=True, fastmath={"contract"}, **INNER)
def subtract_and_exp(scores: Any, top: Any) -> None:
    """Replace scores by ``e^(score - top)``; none is above the top."""
    for j in range(len(scores)):
        scores[j] = _exp(scores[j] - top)


@njit(cache=True, fastmath={"contract"}, **INNER)
def scaled_top(scores: Any, weights: Any, scale: Any, least: Any, tops: Any) -> Any:
    """Scale the scores, put -inf where the weight is 0, and return the largest, or ``least``."""
    for j in range(len(scores)):
        scores[j] = scores[j] * scale if weights[j] > 0.0 else np.float32(-np.inf)
    tops[:] = least
    for column in range(0, len(scores), TILE):
        for j in range(TILE):
            tops[j] = scores[column + j] if scores[column + j] > tops[j] else tops[j]
    top = tops[0]
    for j in range(1, TILE):
        top = max(top, tops[j])
    return top


@njit(cache=True, fastmath=FAST, **INNER)
def sums_of(values: Any, weights: Any) -> Any:
    """The sum of the values, and that by weight."""
    total, weighted = np.float32(0.0), np.float32(0.0)
    for j in range(len(values)):
        total += values[j]
        weighted += values[j] * weights[j]
    return total, weighted


@njit(cache=True, **INNER)
def scale_by(values: Any, weights: Any, factor: Any) -> None:
    """Multiply the values by their weights and a factor."""
    for j in range(len(values)):
        values[j] *= weights[j] * factor
