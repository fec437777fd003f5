"""Loss and score gradients, as ``kernels.cpu.training.gradients``, for a whole row of negatives at once."""

from __future__ import annotations

import math
from typing import Any

import triton
import triton.language as tl

from vitalrank.kernels import step_config

HINGE, SOFTMAX = tl.constexpr(step_config.HINGE), tl.constexpr(step_config.SOFTMAX)
CROSS_ENTROPY = tl.constexpr(step_config.CROSS_ENTROPY)
BSL, PSL = tl.constexpr(step_config.BSL), tl.constexpr(step_config.PSL)
LOG_2 = tl.constexpr(math.log(2.0))


@triton.jit
def logistic(x: tl.tensor) -> Any:
    """``ln(1 + e^x)`` and its derivative."""
    small = tl.exp(-tl.abs(x))
    return tl.maximum(x, 0.0) + tl.log(1.0 + small), tl.where(x >= 0.0, 1.0, small) / (1.0 + small)


@triton.jit
def loss_grad(
    positive: tl.tensor,
    negative: tl.tensor,
    weight: tl.tensor,
    drawn: tl.tensor,
    margin: tl.tensor,
    positive_weight: tl.tensor,
    power: tl.tensor,
    LOSS: tl.constexpr,
    WEIGHT_GRADIENT: tl.constexpr,
) -> Any:
    """Loss, derivative by the positive's score and by the negatives', largest slope."""
    if LOSS == SOFTMAX:
        return softmax_loss_grad(positive, negative, weight, drawn, WEIGHT_GRADIENT)
    if LOSS == BSL:
        return bilateral_loss_grad(positive, negative, weight, drawn, power, WEIGHT_GRADIENT)
    if LOSS == PSL:
        return pairwise_softmax_loss_grad(positive, negative, weight, drawn, power, WEIGHT_GRADIENT)
    return pairwise_loss_grad(positive, negative, weight, drawn, margin, positive_weight, LOSS, WEIGHT_GRADIENT)


@triton.jit
def softmax_loss_grad(
    positive: tl.tensor, negative: tl.tensor, weight: tl.tensor, drawn: tl.tensor, WEIGHT_GRADIENT: tl.constexpr
) -> Any:
    """The same where the negatives share one softmax; the largest slope is the positive's."""
    logit = tl.where(drawn, negative, -float("inf"))
    top = tl.maximum(positive, tl.max(logit, axis=1)[:, None])
    own = tl.exp(positive - top)
    each = tl.exp(logit - top)
    against = tl.sum(each, axis=1)[:, None]
    weighted = tl.sum(weight * each, axis=1)[:, None]
    total = own + weighted
    grad = weight * each / total
    if WEIGHT_GRADIENT:
        grad += weight * (each - weighted) / total
    return tl.log(total) + top - positive, -weighted / total, grad, against / (own + against)


@triton.jit
def bilateral_loss_grad(
    positive: tl.tensor,
    negative: tl.tensor,
    weight: tl.tensor,
    drawn: tl.tensor,
    power: tl.tensor,
    WEIGHT_GRADIENT: tl.constexpr,
) -> Any:
    """The same without the positive in the softmax: its slope is always 1."""
    here = drawn & (weight > 0.0)
    logit = tl.where(here, negative, -float("inf"))
    some = tl.max(here.to(tl.int32), axis=1)[:, None] > 0
    top = tl.where(some, tl.max(logit, axis=1)[:, None], 0.0)
    each = tl.exp(logit - top)
    weighted = tl.where(some, tl.sum(weight * each, axis=1)[:, None], 1.0)
    grad = power * weight * each / weighted
    if WEIGHT_GRADIENT:
        grad += power * weight * (each - weighted) / weighted
    one = tl.where(some, 1.0, 0.0)
    loss = (power * (tl.log(weighted) + top) - positive) * one
    return loss, -one, grad * one, one


@triton.jit
def pairwise_softmax_loss_grad(
    positive: tl.tensor,
    negative: tl.tensor,
    weight: tl.tensor,
    drawn: tl.tensor,
    power: tl.tensor,
    WEIGHT_GRADIENT: tl.constexpr,
) -> Any:
    """The same of ``power ln(2 sigma(s_j - s_i))``, the positive's being 0."""
    value, slope = logistic(positive - negative)
    logit = tl.where(drawn, power * (LOG_2 - value), -float("inf"))
    top = tl.maximum(tl.max(logit, axis=1)[:, None], 0.0)
    own = tl.exp(-top)
    each = tl.exp(logit - top)
    weighted = tl.sum(weight * each, axis=1)[:, None]
    total = own + weighted
    grad = power * slope * weight * each / total
    pull = tl.sum(grad, axis=1)[:, None]
    against = tl.sum(power * slope * each, axis=1)[:, None] / (own + tl.sum(each, axis=1)[:, None])
    if WEIGHT_GRADIENT:
        grad += weight * (each - weighted) / total
    return tl.log(total) + top, -pull, grad, against


@triton.jit
def pairwise_loss_grad(
    positive: tl.tensor,
    negative: tl.tensor,
    weight: tl.tensor,
    drawn: tl.tensor,
    margin: tl.tensor,
    positive_weight: tl.tensor,
    LOSS: tl.constexpr,
    WEIGHT_GRADIENT: tl.constexpr,
) -> Any:
    """The same where each negative makes a pair, or a point, of its own."""
    if LOSS == HINGE:
        x = negative - positive + margin
        value = tl.maximum(x, 0.0)
        slope = tl.where(x > 0.0, 1.0, 0.0)
    elif LOSS == CROSS_ENTROPY:
        value, slope = logistic(negative)
    else:
        value, slope = logistic(negative - positive)
    mean = tl.sum(weight * value, axis=1)[:, None]
    weight = tl.where(drawn, weight, 0.0)
    value = tl.where(drawn, value, 0.0)
    slope = tl.where(drawn, slope, 0.0)
    grad = weight * slope
    loss = tl.sum(weight * value, axis=1)[:, None]
    max_slope = tl.max(slope, axis=1)[:, None]
    if LOSS == CROSS_ENTROPY:
        own_loss, own_slope = logistic(-positive)
        loss += positive_weight * own_loss
        own = -positive_weight * own_slope
        max_slope = tl.maximum(max_slope, own_slope)
    else:
        own = -tl.sum(grad, axis=1)[:, None]
    if WEIGHT_GRADIENT:
        grad += weight * (value - mean)
    return loss, own, grad, max_slope
