r"""Metrics of accuracy, one function each.

All take the same two arrays and return one value per user:

- ``hits`` (U, N): whether the item at each place of a user's list, best first, is one of the user's test items;
- ``relevant`` (U,): how many test items the user has, at least 1.

Below, :math:`h_p \in \{0, 1\}` is the hit at place :math:`p = 1..N` and :math:`R` the number of relevant items.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from vitalrank._util.typing import Values


def precision(hits: ArrayLike, relevant: ArrayLike, length: int | None = None) -> Values:
    r"""Share of the list that hits: :math:`\frac{1}{N} \sum_p h_p`. It divides by N, whatever R is.

    ``length`` is N where ``hits`` leaves out places at the end that hold no item.

    References
    ----------
    Manning, Raghavan and Schütze, "Introduction to Information Retrieval", 2008, section 8.4.

    Examples
    --------
    >>> precision([[True, False, True, False]], [3]).tolist()
    [0.5]
    """
    gains = np.asarray(hits, np.float64)  # (U, N)
    return _per_user(gains.sum(axis=1) / (length or gains.shape[1]))


def recall(hits: ArrayLike, relevant: ArrayLike) -> Values:
    r"""Share of the relevant items that the list holds: :math:`\frac{1}{R} \sum_p h_p`.

    References
    ----------
    Manning, Raghavan and Schütze, "Introduction to Information Retrieval", 2008, section 8.4.

    Examples
    --------
    >>> recall([[True, False, True, False]], [4]).tolist()
    [0.5]
    """
    return _per_user(np.asarray(hits, np.float64).sum(axis=1) / np.asarray(relevant))


def harmonic_mean(a: ArrayLike, b: ArrayLike) -> Values:
    r"""Harmonic mean :math:`2ab / (a + b)`, 0 where both are 0.

    Examples
    --------
    >>> harmonic_mean([1.0, 0.0], [0.5, 0.0]).round(3).tolist()
    [0.667, 0.0]
    """
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    total = np.asarray(a + b)
    return _per_user(np.divide(2 * a * b, total, out=np.zeros_like(total), where=total > 0))


def f1(hits: ArrayLike, relevant: ArrayLike, length: int | None = None) -> Values:
    r"""Harmonic mean of one user's precision and recall: :math:`2PR / (P + R)`.

    ``evaluate`` reports the harmonic mean of the *averaged* precision and recall, which is not the mean of these.

    References
    ----------
    van Rijsbergen, "Information Retrieval", 1979, chapter 7.

    Examples
    --------
    >>> f1([[True, False, True, False]], [2]).round(3).tolist()
    [0.667]
    """
    return harmonic_mean(precision(hits, relevant, length), recall(hits, relevant))


def ndcg(hits: ArrayLike, relevant: ArrayLike) -> Values:
    r"""Discounted gain over that of a perfect list, with binary gain.

    .. math:: \frac{\sum_{p=1}^{N} h_p / \log_2(p + 1)}{\sum_{p=1}^{\min(N, R)} 1 / \log_2(p + 1)}

    References
    ----------
    Järvelin and Kekäläinen, "Cumulated gain-based evaluation of IR techniques", TOIS 2002.

    Examples
    --------
    >>> ndcg([[True, True], [False, True]], [5, 1]).round(3).tolist()
    [1.0, 0.631]
    """
    gains = np.asarray(hits, np.float64)  # (U, N)
    discounts = 1 / np.log2(np.arange(gains.shape[1]) + 2)  # (N,)
    ideal = np.cumsum(discounts)[np.minimum(relevant, gains.shape[1]) - 1]  # (U,)
    return _per_user(gains @ discounts / ideal)


def hit_rate(hits: ArrayLike, relevant: ArrayLike) -> Values:
    r"""1 if anything in the list hits, else 0: :math:`\max_p h_p`.

    References
    ----------
    Deshpande and Karypis, "Item-based top-N recommendation algorithms", TOIS 2004.

    Examples
    --------
    >>> hit_rate([[False, True], [False, False]], [1, 1]).tolist()
    [1.0, 0.0]
    """
    return _per_user(np.asarray(hits, bool).any(axis=1))


def average_precision(hits: ArrayLike, relevant: ArrayLike) -> Values:
    r"""Precision at each hit, over the hits a list of N can have; its mean over users is MAP@N.

    .. math:: \frac{1}{\min(N, R)} \sum_{p=1}^{N} h_p \, \frac{1}{p} \sum_{q \le p} h_q

    References
    ----------
    Manning, Raghavan and Schütze, "Introduction to Information Retrieval", 2008, section 8.4.

    Examples
    --------
    >>> average_precision([[True, False, True]], [2]).round(3).tolist()
    [0.833]
    """
    gains = np.asarray(hits, np.float64)  # (U, N)
    places = np.arange(gains.shape[1]) + 1  # (N,)
    total = (gains * np.cumsum(gains, axis=1) / places).sum(axis=1)  # (U,)
    return _per_user(total / np.minimum(relevant, gains.shape[1]))


def mrr(hits: ArrayLike, relevant: ArrayLike) -> Values:
    r"""One over the place of the first hit, 0 without one: :math:`\max_p h_p / p`.

    References
    ----------
    Voorhees, "The TREC-8 question answering track report", 1999.

    Examples
    --------
    >>> mrr([[False, True, True], [False, False, False]], [2, 2]).tolist()
    [0.5, 0.0]
    """
    gains = np.asarray(hits, np.float64)  # (U, N)
    return _per_user((gains / (np.arange(gains.shape[1]) + 1)).max(axis=1))


def _per_user(values: ArrayLike) -> Values:
    return np.asarray(values, np.float64)


METRICS: dict[str, Callable[..., Values]] = {
    "precision": precision,
    "recall": recall,
    "f1": f1,
    "ndcg": ndcg,
    "hit_rate": hit_rate,
    "map": average_precision,
    "mrr": mrr,
}
BY_LENGTH = ("precision", "f1")  # count the places that hold no item too
# Sums over hits: their value splits into the shares of groups of items.
ADDITIVE = ("precision", "recall", "ndcg")
