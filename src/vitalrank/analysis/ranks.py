"""How far the rank guessed from one search is off: psi(r) of the paper, by formula, by series and by trial."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from vitalrank._util.typing import Values
from vitalrank.errors import SettingError


def rank_bias(rank: ArrayLike, Z: float) -> Values:
    r"""Relative error of the rank ``Z / K`` that is guessed after K draws, in expectation.

    .. math:: \psi(r) = \sum_{k \ge 2} \frac{1}{k} \left(1 - \frac{r}{Z}\right)^{k-1}
              = \frac{-\ln p}{1 - p} - 1, \qquad p = \frac{r}{Z}

    Parameters
    ----------
    rank
        True ranks, above 0 and at most ``Z``.
    Z
        The rank of the last: number of items, or the sum of ``pi``.

    References
    ----------
    Yu et al., arXiv 2005.09272, Section 4, "Rank Estimation Bias Discussion".

    Examples
    --------
    >>> rank_bias([1, 50, 100], Z=100).round(3).tolist()
    [3.652, 0.386, 0.0]
    """
    miss = _miss(rank, Z)
    bias = np.zeros_like(miss)
    np.divide(-np.log1p(-miss), miss, out=bias, where=miss > 1e-12)
    return np.where(miss > 1e-12, bias - 1.0, miss / 2)


def rank_bias_series(rank: ArrayLike, Z: float, terms: int = 10_000) -> Values:
    """The first ``terms`` terms of the sum that :func:`rank_bias` gives in closed form.

    Examples
    --------
    >>> rank_bias_series([50], Z=100).round(3).tolist()
    [0.386]
    """
    miss = _miss(rank, Z)
    total, power = np.zeros_like(miss), np.ones_like(miss)
    for k in range(2, terms + 2):
        power *= miss
        total += power / k
    return total


def rank_bias_simulated(
    rank: ArrayLike, Z: float, rounds: int = 10_000, seed: int = 0, kappa: int | None = None
) -> Values:
    """The same by trial: draw until a hit of probability ``rank / Z``, guess ``Z / K``, average the relative error.

    Parameters
    ----------
    rank, Z
        As for :func:`rank_bias`.
    rounds, seed
        Searches for each rank, and the seed of their draws.
    kappa
        Stop a search after so many draws, as the samplers do; None searches on.

    Examples
    --------
    >>> rank_bias_simulated([50], Z=100, rounds=100_000).round(2).tolist()
    [0.39]
    """
    hit = 1.0 - _miss(rank, Z)
    draws = np.random.default_rng(seed).geometric(hit, (rounds, len(hit)))  # K
    if kappa is not None:
        draws = np.minimum(draws, kappa)
    return np.asarray((1.0 / draws).mean(axis=0) / hit - 1.0, np.float64)


def _miss(rank: ArrayLike, Z: float) -> Values:
    """``1 - r / Z`` of checked ranks."""
    ranks = np.atleast_1d(np.asarray(rank, np.float64))
    if not Z > 0 or not (ranks > 0).all() or not (ranks <= Z).all():
        raise SettingError(f"ranks must lie above 0 and not above Z, which is {Z!r}.")
    return 1.0 - ranks / Z
