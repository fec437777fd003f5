"""What a positive and its negatives feel: ``kernels.cpu.pulls`` for a whole row of negatives at once."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from vitalrank.losses import LOSSES

HINGE = tl.constexpr(LOSSES["hinge"].code)
SOFTMAX = tl.constexpr(LOSSES["softmax"].code)
CROSS_ENTROPY = tl.constexpr(LOSSES["cross_entropy"].code)


@triton.jit
def logistic(x: tl.tensor) -> Any:
    """``ln(1 + e^x)`` and its derivative."""
    small = tl.exp(-tl.abs(x))
    return tl.maximum(x, 0.0) + tl.log(1.0 + small), tl.where(x >= 0.0, 1.0, small) / (1.0 + small)


@triton.jit
def pull_row(
    positive: tl.tensor,
    negative: tl.tensor,
    weight: tl.tensor,
    drawn: tl.tensor,
    margin: tl.tensor,
    LOSS: tl.constexpr,
    WEIGHT_GRADIENT: tl.constexpr,
) -> Any:
    """Loss, derivative by the positive's score and by the negatives', strongest slope."""
    if LOSS == SOFTMAX:
        return pull_softmax(positive, negative, weight, drawn, WEIGHT_GRADIENT)
    return pull_pairs(positive, negative, weight, drawn, margin, LOSS, WEIGHT_GRADIENT)


@triton.jit
def pull_softmax(
    positive: tl.tensor, negative: tl.tensor, weight: tl.tensor, drawn: tl.tensor, WEIGHT_GRADIENT: tl.constexpr
) -> Any:
    """The same where the negatives share one softmax; the strongest slope is the positive's."""
    logit = tl.where(drawn, negative, -float("inf"))
    top = tl.maximum(positive, tl.max(logit, axis=1)[:, None])
    own = tl.exp(positive - top)
    each = tl.exp(logit - top)
    against = tl.sum(each, axis=1)[:, None]
    weighted = tl.sum(weight * each, axis=1)[:, None]
    total = own + weighted
    pull = weight * each / total
    if WEIGHT_GRADIENT:
        pull += weight * (each - weighted) / total
    return tl.log(total) + top - positive, -weighted / total, pull, against / (own + against)


@triton.jit
def pull_pairs(
    positive: tl.tensor,
    negative: tl.tensor,
    weight: tl.tensor,
    drawn: tl.tensor,
    margin: tl.tensor,
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
    pull = weight * slope
    loss = tl.sum(weight * value, axis=1)[:, None]
    strongest = tl.max(slope, axis=1)[:, None]
    if LOSS == CROSS_ENTROPY:
        own_loss, own_slope = logistic(-positive)
        loss += own_loss
        own = -own_slope
        strongest = tl.maximum(strongest, own_slope)
    else:
        own = -tl.sum(pull, axis=1)[:, None]
    if WEIGHT_GRADIENT:
        pull += weight * (value - mean)
    return loss, own, pull, strongest
