"""Loss of one positive and its negatives, and its derivatives by their scores."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba.core.types import NoneType
from numba.extending import overload

from vitalrank.kernels.compiling import INNER, LEAN, PICKED, njit
from vitalrank.kernels.step_config import (
    CROSS_ENTROPY,
    HINGE,
    BilateralStepConfig,
    PairwiseSoftmaxStepConfig,
    SoftmaxStepConfig,
    StepConfig,
)

_LOG_2 = math.log(2.0)


def loss_grad(config: StepConfig, b: int, ids: Any, weights: Any, score_grads: Any) -> tuple[float, float]:
    """Replace the scores in ``score_grads[b]`` by dL/dscore; returns the loss and the largest slope, weights aside."""
    loss, max_slope = _LOSS_GRADS[type(config)](config, b, ids, weights, score_grads)
    return loss, max_slope


@overload(loss_grad, jit_options=PICKED)
def _compiled(config: Any, b: Any, ids: Any, weights: Any, score_grads: Any) -> Any:
    return _LOSS_GRADS[config.instance_class]


def scale_row(b: int, weights: Any, loss: float, score_grads: Any) -> float:
    """Scale the loss of a positive and its derivatives ``score_grads[b]`` by its weight; returns the loss."""
    return loss if weights is None else float(_scaled(b, weights, loss, score_grads))


@overload(scale_row, jit_options=PICKED)
def _compiled_scale(b: Any, weights: Any, loss: Any, score_grads: Any) -> Any:
    return _unscaled if isinstance(weights, NoneType) else _scaled


def _unscaled(b: Any, weights: Any, loss: Any, score_grads: Any) -> Any:
    return loss


def _scaled(b: Any, weights: Any, loss: Any, score_grads: Any) -> Any:
    for c in range(score_grads.shape[1]):
        score_grads[b, c] *= weights[b]
    return loss * weights[b]


@njit(cache=True, error_model="numpy", **INNER)
def _logistic(x: Any) -> Any:
    """``ln(1 + e^x)`` and its derivative."""
    small = math.exp(-abs(x))
    value = max(x, np.float32(0.0)) + math.log(np.float32(1.0) + small)
    return value, (np.float32(1.0) if x >= 0.0 else small) / (np.float32(1.0) + small)


@njit(cache=True, **INNER)
def _pair(config: Any, positive: Any, negative: Any) -> Any:
    """Loss of one negative at weight 1 and its derivative by the negative's score."""
    if config.loss == HINGE:
        x = negative - positive + np.float32(config.margin)
        return max(x, np.float32(0.0)), np.float32(1.0) if x > 0.0 else np.float32(0.0)
    return _logistic(negative if config.loss == CROSS_ENTROPY else negative - positive)


@njit(inline="always", cache=True, **LEAN)
def loss_scores(config: Any, b: Any, mix: Any, score_grads: Any) -> None:
    """The scores as the loss reads them: negatives mixed with the positive, all scaled.

    A negative ``m v_i + (1 - m) v_j`` scores ``m s_i + (1 - m) s_j``. ``mix`` is (B, k), or empty.
    """
    if len(mix) > 0:
        for c in range(mix.shape[1]):
            score_grads[b, 1 + c] += mix[b, c] * (score_grads[b, 0] - score_grads[b, 1 + c])
    if config.scale != 1.0:
        for c in range(score_grads.shape[1]):
            score_grads[b, c] *= np.float32(config.scale)


@njit(inline="always", cache=True, **LEAN)
def unmixed_grads(config: Any, b: Any, mix: Any, score_grads: Any) -> None:
    """Derivatives by the rows' own scores, from those by what the loss read."""
    if config.scale != 1.0:
        for c in range(score_grads.shape[1]):
            score_grads[b, c] *= np.float32(config.scale)
    if len(mix) > 0:
        for c in range(mix.shape[1]):
            score_grads[b, 0] += mix[b, c] * score_grads[b, 1 + c]
            score_grads[b, 1 + c] -= mix[b, c] * score_grads[b, 1 + c]


def _softmax_loss_grad(config: Any, b: Any, ids: Any, weights: Any, score_grads: Any) -> Any:
    """The negatives share one softmax; the largest slope is the positive's."""
    positive = score_grads[b, 0]
    top = positive
    for c in range(ids.shape[1]):
        if ids[b, c] >= 0:
            top = max(top, score_grads[b, 1 + c])
    own = math.exp(positive - top)
    against = np.float32(0.0)  # sum of the negatives' exponentials
    weighted = np.float32(0.0)
    for c in range(ids.shape[1]):
        score_grads[b, 1 + c] = math.exp(score_grads[b, 1 + c] - top) if ids[b, c] >= 0 else np.float32(0.0)
        against += score_grads[b, 1 + c]
        weighted += weights[b, c] * score_grads[b, 1 + c]
    total = own + weighted
    for c in range(ids.shape[1]):
        grad = weights[b, c] * score_grads[b, 1 + c] / total
        if config.weight_gradient:
            grad += weights[b, c] * (score_grads[b, 1 + c] - weighted) / total
        score_grads[b, 1 + c] = grad
    score_grads[b, 0] = -weighted / total
    return math.log(total) + top - positive, against / (own + against)


def _bilateral_loss_grad(config: Any, b: Any, ids: Any, weights: Any, score_grads: Any) -> Any:
    """The negatives share one softmax without the positive, whose slope is always 1."""
    positive, power = score_grads[b, 0], np.float32(config.power)
    top = np.float32(-np.inf)
    for c in range(ids.shape[1]):
        if ids[b, c] >= 0 and weights[b, c] > 0.0:
            top = max(top, score_grads[b, 1 + c])
    weighted = np.float32(0.0)
    for c in range(ids.shape[1]):
        here = ids[b, c] >= 0 and weights[b, c] > 0.0
        score_grads[b, 1 + c] = math.exp(score_grads[b, 1 + c] - top) if here else np.float32(0.0)
        weighted += weights[b, c] * score_grads[b, 1 + c]
    if weighted <= 0.0:  # nothing to compare with: no update
        score_grads[b] = 0.0
        return np.float32(0.0), np.float32(0.0)
    for c in range(ids.shape[1]):
        grad = power * weights[b, c] * score_grads[b, 1 + c] / weighted
        if config.weight_gradient:
            grad += power * weights[b, c] * (score_grads[b, 1 + c] - weighted) / weighted
        score_grads[b, 1 + c] = grad
    score_grads[b, 0] = np.float32(-1.0)
    return power * (math.log(weighted) + top) - positive, np.float32(1.0)


def _pairwise_softmax_loss_grad(config: Any, b: Any, ids: Any, weights: Any, score_grads: Any) -> Any:
    """A softmax of ``power ln(2 sigma(s_j - s_i))``, the positive's being 0; the largest slope is the positive's."""
    positive, power = score_grads[b, 0], np.float32(config.power)
    top = np.float32(0.0)
    for c in range(ids.shape[1]):
        if ids[b, c] >= 0:
            value, _ = _logistic(positive - score_grads[b, 1 + c])
            top = max(top, power * (np.float32(_LOG_2) - value))
    own = math.exp(-top)
    total: Any = own
    unweighted: Any = own
    for c in range(ids.shape[1]):
        value, _ = _logistic(positive - score_grads[b, 1 + c])
        each = math.exp(power * (np.float32(_LOG_2) - value) - top) if ids[b, c] >= 0 else np.float32(0.0)
        total += weights[b, c] * each
        unweighted += each
    weighted, against, pull = total - own, np.float32(0.0), np.float32(0.0)
    for c in range(ids.shape[1]):
        value, slope = _logistic(positive - score_grads[b, 1 + c])
        each = math.exp(power * (np.float32(_LOG_2) - value) - top) if ids[b, c] >= 0 else np.float32(0.0)
        grad = power * slope * weights[b, c] * each / total
        pull += grad
        against += power * slope * each / unweighted
        if config.weight_gradient:
            grad += weights[b, c] * (each - weighted) / total
        score_grads[b, 1 + c] = grad
    score_grads[b, 0] = -pull
    return math.log(total) + top, against


def _pairwise_loss_grad(config: Any, b: Any, ids: Any, weights: Any, score_grads: Any) -> Any:
    """A pairwise or pointwise term for each negative; the largest slope is that of one negative."""
    positive = score_grads[b, 0]
    pointwise = config.loss == CROSS_ENTROPY
    loss = np.float32(0.0)
    own = np.float32(0.0)
    max_slope = np.float32(0.0)
    mean = np.float32(0.0)
    if config.weight_gradient:
        for c in range(ids.shape[1]):
            mean += weights[b, c] * _pair(config, positive, score_grads[b, 1 + c])[0]
    if pointwise:
        value, slope = _logistic(-positive)
        loss = np.float32(config.positive_weight) * value
        own = -np.float32(config.positive_weight) * slope
        max_slope = slope
    for c in range(ids.shape[1]):
        weight = weights[b, c]
        value, slope = _pair(config, positive, score_grads[b, 1 + c])
        if ids[b, c] < 0:
            weight = np.float32(0.0)
            slope = np.float32(0.0)
            value = np.float32(0.0)
        loss += weight * value
        grad = weight * slope
        if not pointwise:
            own -= grad
        if config.weight_gradient:
            grad += weight * (value - mean)
        score_grads[b, 1 + c] = grad
        max_slope = max(max_slope, slope)
    score_grads[b, 0] = own
    return loss, max_slope


_LOSS_GRADS = {
    StepConfig: _pairwise_loss_grad,
    SoftmaxStepConfig: _softmax_loss_grad,
    BilateralStepConfig: _bilateral_loss_grad,
    PairwiseSoftmaxStepConfig: _pairwise_softmax_loss_grad,
}
