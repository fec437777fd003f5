"""Losses: functions of scores and weights, on NumPy arrays or torch tensors alike."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np  # noqa: F401, for the examples

from vitalrank._util.checks import check_choice
from vitalrank._util.loss_terms import log_of, log_one_more, log_sum, mean_of_pairs, mean_of_rows, softplus, to_column
from vitalrank._util.typing import S

VANISHED = 0.01  # a positive for whose negatives all the loss has a smaller slope, weights aside, no longer teaches


def bpr(pos: S, neg: S, weights: S | None = None, *, sample_weight: S | None = None) -> S:
    """Logistic loss of pairs: mean over positives of ``sum_j w_j * -ln sigma(s_i - s_j)``.

    Parameters
    ----------
    pos
        Scores of the positives, ``(B,)`` or ``(B, 1)``.
    neg
        Scores of the negatives, ``(B, k)``.
    weights
        Weight of each negative, ``(B, k)``; None stands for ones.
    sample_weight
        Weight of each positive, ``(B,)``, by which its whole loss is multiplied; None stands for ones.

    References
    ----------
    Rendle, Freudenthaler, Gantner and Schmidt-Thieme, "BPR: Bayesian personalized ranking from implicit
    feedback", UAI 2009.

    Examples
    --------
    >>> float(bpr(np.zeros(2), np.zeros((2, 1)), np.ones((2, 1)))).__round__(4)
    0.6931
    """
    loss: S = mean_of_pairs(softplus(neg - to_column(pos, neg, weights)), weights, sample_weight)
    return loss


def hinge(pos: S, neg: S, weights: S | None = None, margin: float = 1.0, *, sample_weight: S | None = None) -> S:
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
    loss: S = mean_of_pairs((neg - to_column(pos, neg, weights) + margin).clip(0.0), weights, sample_weight)
    return loss


def cross_entropy(pos: S, neg: S, weights: S | None = None, *, sample_weight: S | None = None) -> S:
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
    return gbce(pos, neg, weights, sample_weight=sample_weight)


def softmax(pos: S, neg: S, weights: S | None = None, *, sample_weight: S | None = None) -> S:
    """Softmax over the positive and its negatives: mean of ``-ln(e^s_i / (e^s_i + sum_j w_j e^s_j))``.

    With negatives from ``Uniform`` this is the sampled softmax. With ``Popularity(beta=1)`` it is the in-batch softmax
    without correction, but for three things: the negatives are drawn for each positive instead of shared by the batch,
    items the user has seen are left out, and there are k of them whatever the batch. Weights ``1 / (k q_j)`` correct
    for the proposal q of the k draws: then ``sum_j w_j e^s_j`` estimates the sum over all items that q may draw without
    bias. With ``Draw.log_q`` they are ``exp(-log_q) / k``; training does so with ``correct="logq"``.

    Parameters are those of :func:`bpr`.

    References
    ----------
    Bengio and Senecal, "Adaptive importance sampling to accelerate training of a neural probabilistic language
    model", IEEE Transactions on Neural Networks 19(4), 2008. Yi et al., "Sampling-bias-corrected neural modeling for
    large corpus item recommendations", RecSys 2019, for the in-batch softmax.

    Examples
    --------
    >>> float(softmax(np.zeros(1), np.zeros((1, 3)))).__round__(4)
    1.3863
    """
    logits = neg - to_column(pos, neg, weights)  # (B, k)
    loss: S = mean_of_rows(log_one_more(logits, weights), sample_weight)
    return loss


def gbce(
    pos: S, neg: S, weights: S | None = None, positive_weight: float = 1.0, *, sample_weight: S | None = None
) -> S:
    """Generalised binary cross entropy: mean over positives of ``-b ln sigma(s_i) - sum_j w_j * ln sigma(-s_j)``.

    With k negatives of the n items the weight of the positive's term is ``b = 1 - t (1 - k / (n - 1))``
    (:func:`gbce_weight`): ``t = 1`` makes the scores of a model that was trained on few negatives as calibrated as by
    all items, ``t = 0`` is :func:`cross_entropy`.

    Parameters are those of :func:`bpr`, and ``positive_weight``, which is b.

    References
    ----------
    Petrov and Macdonald, "gSASRec: reducing overconfidence in sequential recommendation trained with negative
    sampling", RecSys 2023.

    Examples
    --------
    >>> float(gbce(np.zeros(1), np.zeros((1, 1)), positive_weight=gbce_weight(1.0, k=1, n_items=3))).__round__(4)
    1.0397
    """
    own = positive_weight * softplus(-to_column(pos, neg, weights))
    loss: S = mean_of_pairs(own, None, sample_weight) + mean_of_pairs(softplus(neg), weights, sample_weight)
    return loss


def gbce_weight(calibration: float, k: int, n_items: int) -> float:
    """The weight b of a positive's term in :func:`gbce`, with k of the ``n_items - 1`` other items as negatives.

    Examples
    --------
    >>> gbce_weight(0.0, k=1, n_items=101), round(gbce_weight(0.75, k=1, n_items=101), 4)
    (1.0, 0.2575)
    """
    return 1.0 - calibration * (1.0 - min(k / max(n_items - 1, 1), 1.0))


def bsl(pos: S, neg: S, weights: S | None = None, bilateral: float = 1.0, *, sample_weight: S | None = None) -> S:
    """Bilateral softmax loss: mean over positives of ``-s_i + b ln sum_j w_j e^s_j``.

    Unlike :func:`softmax` the positive is not in the sum, and the side of the negatives weighs b: over scores divided
    by a temperature t (training does so with ``temperature=``) it is the ratio of the temperatures of both sides in the
    paper's loss, for one positive a term. ``b = 1`` is the softmax loss without the positive in its denominator; above
    1 hard negatives count more against noisy positives. The loss may be negative. A positive whose negatives
    all weigh 0 adds nothing. Made for cosine scores, such as ``MF(normalize=True)``.

    Parameters are those of :func:`bpr`, and ``bilateral``, which is b.

    References
    ----------
    Wu, Chen, Wu, Shi, Zhang and Wang, "BSL: understanding and improving softmax loss for recommendation", ICDE 2024.

    Examples
    --------
    >>> float(bsl(np.zeros(1), np.zeros((1, 3)), bilateral=2.0)).__round__(4)
    2.1972
    """
    positives = to_column(pos, neg, weights)
    logits = neg if weights is None else neg + log_of(weights)  # (B, k)
    loss: S = mean_of_rows(log_sum(logits, bilateral, positives[:, 0]), sample_weight)
    return loss


def psl(pos: S, neg: S, weights: S | None = None, temperature: float = 1.0, *, sample_weight: S | None = None) -> S:
    """Pairwise softmax loss: mean over positives of ``ln(1 + sum_j w_j (1 + tanh(d_j / 2))^(1 / t))``.

    ``d_j = s_j - s_i``, t is the temperature. :func:`softmax` of scores divided by t has ``e^(d_j / t)`` there; this
    grows slower where a negative outscores its positive, so a false negative pulls less. The 1 is the positive's own
    term. Made for cosine scores, of which it reads halves as the paper does, such as ``MF(normalize=True)``; t is not
    applied to the scores.

    Parameters are those of :func:`bpr`, and ``temperature``, which is t.

    References
    ----------
    Yang, Chen, Xin, Zhou, Hu, Feng, Chen and Wang, "PSL: rethinking and improving softmax loss from pairwise
    perspective for recommendation", NeurIPS 2024; here with its tanh.

    Examples
    --------
    >>> float(psl(np.zeros(1), np.zeros((1, 3)), temperature=0.1)).__round__(4)
    1.3863
    """
    gaps = neg - to_column(pos, neg, weights)  # (B, k)
    logits = (math.log(2.0) - softplus(-gaps)) / temperature  # 1 + tanh(d / 2) = 2 sigma(d)
    loss: S = mean_of_rows(log_one_more(logits, weights), sample_weight)
    return loss


class Loss(NamedTuple):
    """A loss: its function, its number in the kernels, its value at equal scores, and what else tells it apart."""

    function: Callable[..., Any]
    code: int
    start: float  # at equal scores and one unit of weight; more costs as much each, at most; a share of the margin
    has_margin: bool = False
    is_pointwise: bool = False  # a positive costs something of its own, as much as one unit of weight
    shares_softmax: bool = False  # the negatives of a positive stand in one softmax, not each in a term
    is_calibrated: bool = False  # the weight of a positive's own term follows from the number of negatives
    has_temperature: bool = False  # it applies the temperature itself, not to the scores that it reads
    is_bilateral: bool = False  # the positive is not in the softmax, so that the loss may be negative

    @property
    def is_pairwise(self) -> bool:
        """Whether its value for a positive is a sum over pairs and nothing else."""
        return not (self.is_pointwise or self.shares_softmax)

    def at_start(self, margin: float, weight: float = 1.0, positives: float = 0) -> float:
        """Its sum at equal scores over so much weight of negatives and so many positives.

        Examples
        --------
        >>> find_loss("hinge").at_start(margin=3.0)
        3.0
        """
        return self.start * (margin if self.has_margin else 1.0) * (weight + (positives if self.is_pointwise else 0))


LOSSES = {
    "bpr": Loss(bpr, 0, math.log(2.0)),
    "hinge": Loss(hinge, 1, 1.0, has_margin=True),
    "cross_entropy": Loss(cross_entropy, 2, math.log(2.0), is_pointwise=True),
    "gbce": Loss(gbce, 2, math.log(2.0), is_pointwise=True, is_calibrated=True),  # the kernels' cross entropy
    "softmax": Loss(softmax, 3, math.log(2.0), shares_softmax=True),
    "bsl": Loss(bsl, 4, 1.0, shares_softmax=True, is_bilateral=True),
    "psl": Loss(psl, 5, math.log(2.0), shares_softmax=True, has_temperature=True),
}


def find_loss(name: str) -> Loss:
    """The loss of that name.

    Examples
    --------
    >>> find_loss("bpr").code
    0
    """
    check_choice("loss", name, LOSSES)
    return LOSSES[name]
