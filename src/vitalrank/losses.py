"""Losses: functions of scores and weights, on NumPy arrays or torch tensors alike."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from vitalrank.errors import SettingError


def bpr(pos: Any, neg: Any, weights: Any = None) -> Any:
    """Logistic loss of pairs: mean over positives of ``sum_j w_j * -ln sigma(s_i - s_j)``.

    Parameters
    ----------
    pos
        Scores of the positives, ``(B,)`` or ``(B, 1)``.
    neg
        Scores of the negatives, ``(B, k)``.
    weights
        Weight of each negative, ``(B, k)``; None stands for ones.

    References
    ----------
    Rendle, Freudenthaler, Gantner and Schmidt-Thieme, "BPR: Bayesian personalized ranking from implicit
    feedback", UAI 2009.

    Examples
    --------
    >>> float(bpr(np.zeros(2), np.zeros((2, 1)), np.ones((2, 1)))).__round__(4)
    0.6931
    """
    return _mean(_softplus(neg - _column(pos)), weights)


def hinge(pos: Any, neg: Any, weights: Any = None, margin: float = 1.0) -> Any:
    """Hinge loss of pairs: mean over positives of ``sum_j w_j * max(0, margin - (s_i - s_j))``.

    Parameters are those of :func:`bpr`, and ``margin``, the lead a positive must have.

    References
    ----------
    Weston, Bengio and Usunier, "WSABIE: scaling up to large vocabulary image annotation", IJCAI 2011.

    Examples
    --------
    >>> float(hinge(np.array([2.0]), np.array([[0.5, 1.5]])))
    0.5
    """
    return _mean((neg - _column(pos) + margin).clip(0.0), weights)


def cross_entropy(pos: Any, neg: Any, weights: Any = None) -> Any:
    """Cross entropy of points: mean over positives of ``-ln sigma(s_i) - sum_j w_j * ln sigma(-s_j)``.

    Parameters are those of :func:`bpr`.

    References
    ----------
    Mikolov, Sutskever, Chen, Corrado and Dean, "Distributed representations of words and phrases and their
    compositionality", NIPS 2013.

    Examples
    --------
    >>> float(cross_entropy(np.zeros(1), np.zeros((1, 1)))).__round__(4)
    1.3863
    """
    return _softplus(-_column(pos)).mean() + _mean(_softplus(neg), weights)


class Loss(NamedTuple):
    """A loss: the function, the number the kernels know it by, and its value per unit of weight at equal scores."""

    function: Callable[..., Any]
    code: int
    start: float


LOSSES = {
    "bpr": Loss(bpr, 0, math.log(2.0)),
    "hinge": Loss(hinge, 1, 1.0),
    "cross_entropy": Loss(cross_entropy, 2, math.log(2.0)),
}


def find_loss(name: str) -> Loss:
    """The loss of that name.

    Examples
    --------
    >>> find_loss("bpr").code
    0
    """
    if name not in LOSSES:
        raise SettingError(f"unknown loss {name!r}; choose one of {', '.join(LOSSES)}.")
    return LOSSES[name]


def _column(pos: Any) -> Any:
    return pos.reshape(-1, 1)  # (B, 1)


def _mean(values: Any, weights: Any) -> Any:
    """Weighted sum over the negatives, mean over the positives."""
    return (values if weights is None else values * weights).sum(-1).mean()


def _softplus(x: Any) -> Any:
    """``ln(1 + e^x)`` without overflow."""
    if type(x).__module__.partition(".")[0] != "torch":
        return np.logaddexp(0.0, x)
    from torch.nn.functional import softplus

    return softplus(x)
