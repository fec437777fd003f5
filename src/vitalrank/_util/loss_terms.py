"""Parts of the losses: shapes checked, means of rows, and logarithms of sums without overflow; NumPy or torch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vitalrank._util.checks import is_tensor
from vitalrank._util.typing import S
from vitalrank.errors import SettingError


def to_column(pos: S, neg: S, weights: S | None) -> S:
    """The positives' scores beside those of their negatives; other shapes would be stretched to fit each other."""
    given, asked = tuple(np.shape(pos)), tuple(np.shape(neg))
    if len(asked) != 2 or given not in (asked[:1], (asked[0], 1)):
        raise SettingError(f"pos is of shape {given} and neg of {asked}; give (B,) or (B, 1), and (B, k).")
    if weights is not None and tuple(np.shape(weights)) != asked:
        raise SettingError(f"weights are of shape {tuple(np.shape(weights))}; give that of neg, {asked}.")
    return pos.reshape(-1, 1)  # (B, 1)


def mean_of_pairs(values: S, weights: S | None, sample_weight: S | None) -> S:
    """Weighted sum over the negatives, mean over the positives."""
    return mean_of_rows((values if weights is None else values * weights).sum(-1), sample_weight)


def mean_of_rows(rows: S, sample_weight: S | None) -> S:
    """Mean over the positives of the loss of each, (B,), times its weight."""
    if sample_weight is None:
        plain: S = rows.mean()
        return plain
    if tuple(np.shape(sample_weight)) != tuple(np.shape(rows)):
        raise SettingError(f"sample_weight is of shape {tuple(np.shape(sample_weight))}; give {tuple(np.shape(rows))}.")
    mean: S = (rows * sample_weight).mean()
    return mean


def softplus(x: Any) -> Any:
    """``ln(1 + e^x)`` without overflow."""
    if not is_tensor(x):
        return np.logaddexp(0.0, x)
    from torch.nn.functional import softplus

    return softplus(x)


def log_of(weights: Any) -> Any:
    """Logarithms; -inf where the weight is 0."""
    if is_tensor(weights):
        return weights.log()
    with np.errstate(divide="ignore"):
        return np.log(weights)


def log_one_more(logits: Any, weights: Any) -> Any:
    """``ln(1 + sum_j w_j e^x_j)`` of each row, without overflow; None stands for weights of 1."""  # (B,)
    if weights is not None:
        logits = logits + log_of(weights)
    if is_tensor(logits):
        from torch import finfo

        # Of a row that is all -inf the gradient would be inf - inf; the lowest number adds as little, with gradient 0.
        return softplus(logits.clamp(min=finfo(logits.dtype).min).logsumexp(-1))
    top = logits.max(-1, initial=0.0)
    with np.errstate(under="ignore"):
        return top + np.log(np.exp(-top) + np.exp(logits - top[:, None]).sum(-1))


def log_sum(logits: Any, factor: float, positives: Any) -> Any:
    """``factor ln sum_j e^x_j`` less the positive's score, of each row; 0 where all logits are -inf."""  # (B,)
    if is_tensor(logits):
        from torch import finfo

        some = (logits > -math.inf).any(-1)
        sums = logits.clamp(min=finfo(logits.dtype).min).logsumexp(-1)
        return (factor * sums - positives).where(some, positives * 0)
    top = logits.max(-1, initial=-math.inf)
    some = top > -math.inf
    with np.errstate(under="ignore", invalid="ignore", divide="ignore"):
        sums = top + np.log(np.exp(logits - np.where(some, top, 0.0)[:, None]).sum(-1))
        return np.where(some, factor * sums - positives, 0.0)
