"""Weights of a pair by the estimated rank of its positive: the sooner a violator is found, the worse the rank."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.checks import check_choice


def log2_weight(rank: NDArray[np.float64]) -> NDArray[np.float64]:
    """``1 + 0.5 (ceil(log2(r + 1)) - 1)``: the numerator of the paper's Eq. (w_ui).

    Examples
    --------
    >>> log2_weight(np.array([1.0, 3.0, 1000.0])).tolist()
    [1.0, 1.5, 5.5]
    """
    return 1.0 + 0.5 * (np.ceil(np.log2(rank + 1.0)) - 1.0)


def harmonic_weight(rank: NDArray[np.float64]) -> NDArray[np.float64]:
    """``sum of 1/z for z = 1 .. r``: WARP's weight (Weston, Bengio and Usunier, IJCAI 2011), used by LFM-W.

    Examples
    --------
    >>> harmonic_weight(np.array([0.0, 1.0, 2.0])).tolist()
    [0.0, 1.0, 1.5]
    """
    top = int(rank.max(initial=0.0))
    return np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, top + 1))])[rank.astype(np.int64)]


def no_weight(rank: NDArray[np.float64]) -> NDArray[np.float64]:
    """1, whatever the rank."""
    return np.ones_like(rank)


WEIGHTS: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "log2": log2_weight,
    "harmonic": harmonic_weight,
    "none": no_weight,
}


def weight_name(name: str | None) -> str:
    """The name of a weight in ``WEIGHTS``; None is "none", since that is how command lines and files read the word.

    Examples
    --------
    >>> weight_name("log2"), weight_name(None)
    ('log2', 'none')
    """
    known = "none" if name is None else name
    check_choice("weight", known, WEIGHTS)
    return known


def weights_by_try(name: str, Z: float, kappa: int) -> NDArray[np.float32]:
    """Weight for K = 0 .. kappa tries: of the rank ``r = floor(Z / K)``, over its value at Z; 0 for no try.

    Examples
    --------
    >>> [round(float(w), 2) for w in weights_by_try("harmonic", Z=4, kappa=2)]
    [0.0, 1.0, 0.72]
    """
    tries = np.arange(1, kappa + 1)
    ranks = np.concatenate([[Z], np.floor(Z / tries)])
    values = WEIGHTS[name](ranks)
    return np.concatenate([[0.0], values[1:] / values[0]]).astype(np.float32)
