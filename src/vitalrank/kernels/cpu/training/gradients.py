"""What a positive and its negatives feel: the loss of one row and its derivatives by the scores."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numba.extending import overload

from vitalrank.kernels.compiling import INNER, PICKED
from vitalrank.kernels.cpu.training.optimizers import Optimizer
from vitalrank.losses import LOSSES

_HINGE = LOSSES["hinge"].code
_CROSS_ENTROPY = LOSSES["cross_entropy"].code


class StepConfig(NamedTuple):
    """How a batch moves the tables. A kernel is compiled for the type of the rule and of its optimizer alone."""

    loss: int
    margin: float
    weight_gradient: bool  # whether the weights are a softmax of the negatives' scores and move with them
    optimizer: Optimizer
    frozen: int  # trailing columns of the users' values that never move
    reg: float


class SoftmaxStepConfig(StepConfig):
    """The negatives of a positive share one softmax."""


def pull_row(rule: StepConfig, b: int, ids: Any, weights: Any, pulls: Any) -> tuple[float, float]:
    """Replace the scores in ``pulls[b]`` by derivatives; returns the loss and the strongest pull, weights aside."""
    loss, strongest = _PULLS[type(rule)](rule, b, ids, weights, pulls)
    return loss, strongest


@overload(pull_row, jit_options=PICKED)
def _compiled(rule: Any, b: Any, ids: Any, weights: Any, pulls: Any) -> Any:
    return _PULLS[rule.instance_class]


@njit(cache=True, error_model="numpy", **INNER)
def _logistic(x: Any) -> Any:
    """``ln(1 + e^x)`` and its derivative."""
    small = math.exp(-abs(x))
    value = max(x, np.float32(0.0)) + math.log(np.float32(1.0) + small)
    return value, (np.float32(1.0) if x >= 0.0 else small) / (np.float32(1.0) + small)


@njit(cache=True, **INNER)
def _pair(rule: Any, positive: Any, negative: Any) -> Any:
    """Loss of one negative at weight 1 and its derivative by the negative's score."""
    if rule.loss == _HINGE:
        x = negative - positive + np.float32(rule.margin)
        return max(x, np.float32(0.0)), np.float32(1.0) if x > 0.0 else np.float32(0.0)
    return _logistic(negative if rule.loss == _CROSS_ENTROPY else negative - positive)


def _pull_softmax(rule: Any, b: Any, ids: Any, weights: Any, pulls: Any) -> Any:
    """The negatives share one softmax; the strongest pull is the positive's."""
    positive = pulls[b, 0]
    top = positive
    for c in range(ids.shape[1]):
        if ids[b, c] >= 0:
            top = max(top, pulls[b, 1 + c])
    own = math.exp(positive - top)
    against = np.float32(0.0)  # sum of the negatives' exponentials
    weighted = np.float32(0.0)
    for c in range(ids.shape[1]):
        pulls[b, 1 + c] = math.exp(pulls[b, 1 + c] - top) if ids[b, c] >= 0 else np.float32(0.0)
        against += pulls[b, 1 + c]
        weighted += weights[b, c] * pulls[b, 1 + c]
    total = own + weighted
    for c in range(ids.shape[1]):
        pull = weights[b, c] * pulls[b, 1 + c] / total
        if rule.weight_gradient:
            pull += weights[b, c] * (pulls[b, 1 + c] - weighted) / total
        pulls[b, 1 + c] = pull
    pulls[b, 0] = -weighted / total
    return math.log(total) + top - positive, against / (own + against)


def _pull_pairs(rule: Any, b: Any, ids: Any, weights: Any, pulls: Any) -> Any:
    """Every negative against the positive, or for itself; the strongest pull is that of one negative."""
    positive = pulls[b, 0]
    pointwise = rule.loss == _CROSS_ENTROPY
    loss = np.float32(0.0)
    own = np.float32(0.0)
    strongest = np.float32(0.0)
    mean = np.float32(0.0)
    if rule.weight_gradient:
        for c in range(ids.shape[1]):
            mean += weights[b, c] * _pair(rule, positive, pulls[b, 1 + c])[0]
    if pointwise:
        loss, slope = _logistic(-positive)
        own = -slope
        strongest = slope
    for c in range(ids.shape[1]):
        weight = weights[b, c]
        value, slope = _pair(rule, positive, pulls[b, 1 + c])
        if ids[b, c] < 0:
            weight = np.float32(0.0)
            slope = np.float32(0.0)
            value = np.float32(0.0)
        loss += weight * value
        pull = weight * slope
        if not pointwise:
            own -= pull
        if rule.weight_gradient:
            pull += weight * (value - mean)
        pulls[b, 1 + c] = pull
        strongest = max(strongest, slope)
    pulls[b, 0] = own
    return loss, strongest


_PULLS = {StepConfig: _pull_pairs, SoftmaxStepConfig: _pull_softmax}
