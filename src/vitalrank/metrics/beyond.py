r"""Metrics beyond accuracy: how new, varied, surprising, well proportioned and evenly spread the lists are.

``recommended`` (U, N) holds the internal ids of each user's list, best first, below 0 where a place is empty. Below,
:math:`L_u` is the list of a user without its empty places. Arguments that say what is known of the catalogue come
from the training log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vitalrank._util.typing import Array, Values
from vitalrank.interactions.stats import gini

if TYPE_CHECKING:
    from scipy.sparse import coo_array, coo_matrix, csc_array, csc_matrix, csr_array, csr_matrix

    Sparse = csr_array | csr_matrix | csc_array | csc_matrix | coo_array | coo_matrix

ALPHA = 0.01  # share of the target in the distribution of a list, which keeps its logarithm finite
_CELLS = 1 << 22  # of a block of lists against all users


def novelty(recommended: ArrayLike, degree: ArrayLike, n_users: int) -> Values:
    r"""Mean self-information of the items of a list, in bits; rare items have more.

    .. math:: \frac{1}{|L_u|} \sum_{i \in L_u} -\log_2 \frac{d_i}{|U|}

    ``degree`` :math:`d_i` (I,) is how many of the ``n_users`` training users have item i; one that nobody has counts
    as 1. An empty list has novelty 0.

    References
    ----------
    Zhou, Kuscsik, Liu, Medo, Wakeling and Zhang, "Solving the apparent diversity-accuracy dilemma of recommender
    systems", PNAS 2010.

    Examples
    --------
    >>> novelty([[0, 1]], degree=[8, 2], n_users=8).tolist()
    [1.0]
    """
    bits = -np.log2(np.maximum(np.asarray(degree, np.float64), 1) / n_users)  # (I,)
    items, shown = _places(recommended)
    return _mean(np.where(shown, bits[items], 0.0), shown)


def diversity(recommended: ArrayLike, interactions: Sparse) -> Values:
    r"""Intra-list diversity: mean distance of the pairs of a list, one minus the cosine of the items' users.

    .. math:: \frac{2}{|L_u| (|L_u| - 1)} \sum_{i < j} 1 - \frac{|U_i \cap U_j|}{\sqrt{|U_i| |U_j|}}

    ``interactions`` is the training log as a sparse matrix (users, I), such as ``train.csr``: :math:`U_i` are the users
    of item i. An item that nobody has is at distance 1 from all others. A list of fewer than two items has diversity 0.

    References
    ----------
    Ziegler, McNee, Konstan and Lausen, "Improving recommendation lists through topic diversification", WWW 2005.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> log = csr_array([[1, 1, 0], [1, 1, 0], [0, 0, 1]])
    >>> diversity([[0, 1], [0, 2]], log).round(3).tolist()
    [0.0, 1.0]
    """
    return pair_distances(recommended, unit_rows(interactions))


def unit_rows(interactions: Sparse) -> csr_array:
    """The users of each item as a sparse row of length 1, or an empty one: (I, users)."""
    from scipy.sparse import csr_array, diags_array

    by_item = csr_array(interactions).astype(bool).astype(np.float64).T.tocsr()
    degree = np.asarray(by_item.sum(axis=1)).ravel()
    return csr_array(diags_array(1 / np.sqrt(np.maximum(degree, 1))) @ by_item)


def pair_distances(recommended: ArrayLike, unit: csr_array) -> Values:
    """The :func:`diversity` of each list, from the items' unit rows."""
    from scipy.sparse import csr_array

    items, shown = _places(recommended)
    size, owned = shown.sum(axis=1), (np.diff(unit.indptr) > 0).astype(np.float64)
    twice = np.empty(len(items))  # the cosines of all ordered pairs: |sum of unit rows|^2 without the diagonal
    block = max(1, _CELLS // max(1, unit.shape[1]))
    for start in range(0, len(items), block):
        rows = slice(start, start + block)
        bounds = np.concatenate([[0], np.cumsum(size[rows])])
        ids = items[rows][shown[rows]]
        lists = csr_array((np.ones(len(ids)), ids, bounds), shape=(len(bounds) - 1, unit.shape[0]))
        total = (lists @ unit).tocsr()
        twice[rows] = np.asarray(total.multiply(total).sum(axis=1)).ravel() - lists @ owned
    pairs = size * (size - 1)
    values = np.divide(pairs - twice, pairs, out=np.zeros(len(items)), where=pairs > 0)
    return np.asarray(values.clip(0, 1), np.float64)


def serendipity(hits: ArrayLike, expected: ArrayLike, length: int | None = None) -> Values:
    r"""Share of the list that hits and that a primitive method would not have shown.

    .. math:: \frac{1}{N} \sum_{p=1}^{N} h_p \, [L_u(p) \notin E_u]

    ``hits`` (U, N) says which places hit, ``expected`` (U, N) which of them hold an item of :math:`E_u`, the list of N
    that the primitive method makes for that user. :func:`vitalrank.evaluate` takes the most popular unseen items. It
    is at most the precision; the difference is what popularity alone would have got right.

    ``length`` is N where ``hits`` leaves out places at the end that hold no item.

    References
    ----------
    Ge, Delgado-Battenfeld and Jannach, "Beyond accuracy: evaluating recommender systems by coverage and
    serendipity", RecSys 2010.

    Examples
    --------
    >>> serendipity([[True, True, False, False]], [[True, False, False, True]]).tolist()
    [0.25]
    """
    useful = np.asarray(hits, bool) & ~np.asarray(expected, bool)  # (U, N)
    return np.asarray(useful.sum(axis=1) / (length or useful.shape[1]), np.float64)


def calibration(recommended: ArrayLike, history: Sparse | Array, categories: ArrayLike, alpha: float = ALPHA) -> Values:
    r"""How far the categories of a list are from those of the user's history; 0 is calibrated, more is worse.

    .. math:: \sum_g p(g|u) \ln \frac{p(g|u)}{(1 - \alpha)\, q(g|u) + \alpha\, p(g|u)}

    the Kullback-Leibler divergence of the history's shares :math:`p` from the list's shares :math:`q`. ``history`` is
    a sparse matrix (U, I) of what each user has, one row for each list; ``categories`` (I, G) holds the share of each
    category in an item, with rows that sum to 1, or to 0 for an item that has none and does not count. A user whose
    history has no category gets 0.

    References
    ----------
    Steck, "Calibrated recommendations", RecSys 2018. With the bands of popularity as categories: Abdollahpouri,
    Mansoury, Burke and Mobasher, "The connection between popularity bias, calibration, and fairness in
    recommendation", RecSys 2020.

    Examples
    --------
    >>> import numpy as np
    >>> kinds = np.array([[1, 0], [1, 0], [0, 1], [0, 1]])  # of four items
    >>> calibration([[1, 3], [1, 0]], np.array([[1, 0, 1, 0], [1, 0, 1, 0]]), kinds).round(2).tolist()
    [0.0, 1.96]
    """
    shares = np.asarray(categories, np.float64)  # (I, G)
    wanted = _shares(np.asarray(history @ shares, np.float64))
    items, shown = _places(recommended)
    found = _shares((shares[items] * shown[:, :, None]).sum(axis=1))
    mixed = (1 - alpha) * found + alpha * wanted
    ratio = np.divide(wanted, mixed, out=np.ones_like(wanted), where=wanted > 0)
    return np.asarray((wanted * np.log(ratio)).sum(axis=1), np.float64)


def coverage(recommended: ArrayLike, n_items: int) -> float:
    r"""Share of the catalogue that appears in at least one list; ids below 0 (empty places) do not count.

    .. math:: \frac{1}{n} \left| \bigcup_u L_u \right|

    References
    ----------
    Ge, Delgado-Battenfeld and Jannach, "Beyond accuracy: evaluating recommender systems by coverage and
    serendipity", RecSys 2010.

    Examples
    --------
    >>> coverage([[0, 1], [1, -1]], n_items=4)
    0.5
    """
    ids = np.unique(np.asarray(recommended))
    return float(np.count_nonzero(ids >= 0) / n_items)


def gini_of_exposure(recommended: ArrayLike, n_items: int) -> float:
    r"""Gini coefficient of exposure: 0 if every item of the catalogue is shown equally often, near 1 if one item is.

    .. math:: \frac{\sum_{k=1}^{n} (2k - n - 1)\, c_{(k)}}{n \sum_k c_{(k)}}

    over the counts :math:`c_{(1)} \le \dots \le c_{(n)}` of how often each of the n items is in a list, items that are
    in none included.

    References
    ----------
    Fleder and Hosanagar, "Blockbuster culture's next rise or fall: the impact of recommender systems on sales
    diversity", Management Science 2009.

    Examples
    --------
    >>> gini_of_exposure([[0, 1], [2, 3]], n_items=4), gini_of_exposure([[0], [0]], n_items=4)
    (0.0, 0.75)
    """
    ids = np.asarray(recommended).ravel()
    return gini(np.bincount(ids[ids >= 0], minlength=n_items))


def _places(recommended: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Ids with 0 in the empty places, and which places are not empty."""
    ids = np.asarray(recommended, np.int64)
    return np.maximum(ids, 0), ids >= 0


def _mean(values: Values, shown: NDArray[np.bool_]) -> Values:
    return np.asarray(values.sum(axis=1) / np.maximum(shown.sum(axis=1), 1), np.float64)


def _shares(amounts: Values) -> Values:
    """Rows that sum to 1, or to 0 where there is nothing."""
    total = amounts.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(amounts, total, out=np.zeros_like(amounts), where=total > 0), np.float64)
