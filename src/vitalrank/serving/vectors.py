"""Vectors of people outside the log, and how alike vectors are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.typing import Array, Floats

REG = 0.03  # of solve_query


def solve_query(item_table: Floats, items: Array, *, reg: float = REG, constant_columns: int = 0) -> Floats:
    """The query vector that explains a history on a fixed item table.

    It minimises, by L-BFGS and from zero, the convex function

        f(q) = -1/|H| sum_{i in H} ln softmax(V q)_i + reg/2 m |q|^2

    over the whole catalogue ``V``: the history's items should be the likely ones. ``m`` is the mean squared length
    of the item vectors, so that ``reg`` means the same for tables of any scale. The last ``constant_columns``
    coordinates (a bias) stay 1.

    Examples
    --------
    >>> table = np.array([[1, 0], [0.9, 0.1], [0, 1]], np.float32)
    >>> query = solve_query(table, np.array([0]))
    >>> (table @ query).argsort()[::-1].tolist()
    [0, 1, 2]
    """
    free = item_table.shape[1] - constant_columns
    from scipy.optimize import minimize  # slow to import

    vectors, offset = item_table[:, :free], item_table[:, free:].sum(axis=1)  # (I, d), (I,)
    target = vectors[items].mean(axis=0)  # (d,)
    strength = l2_strength(vectors, reg)

    def loss(query: Array) -> tuple[float, Array]:
        logits = vectors @ query.astype(np.float32) + offset  # (I,)
        top = logits.max()
        weights = np.exp(logits - top)
        total = weights.sum()
        value = np.log(total) + top - target @ query - offset[items].mean() + strength / 2 * query @ query
        return float(value), (weights @ vectors / total - target + strength * query).astype(np.float64)

    query = minimize(loss, np.zeros(free), jac=True, method="L-BFGS-B", options={"maxiter": 100}).x
    return np.concatenate([query, np.ones(constant_columns)]).astype(np.float32)


def cosines(table: Floats, vector: Floats) -> Floats:
    """Cosine of each row of ``table`` to ``vector``; 0 where either is zero.

    Examples
    --------
    >>> cosines(np.array([[2, 0], [0, 0], [0, 3]], np.float32), np.array([1, 0], np.float32)).tolist()
    [1.0, 0.0, 0.0]
    """
    norms = np.sqrt(np.einsum("ij,ij->i", table, table)) * np.sqrt(vector @ vector)
    cosines = np.zeros(len(table), np.float32)
    np.divide(table @ vector, norms, out=cosines, where=norms > 0)
    return cosines


def l2_strength(vectors: Floats, reg: float = REG) -> float:
    """``reg m`` of :func:`solve_query`: ``m`` is the mean squared length of the item vectors."""
    return reg * float(np.mean(np.einsum("ij,ij->i", vectors, vectors)))


def query_shares(vectors: Floats, items: Array, query: Floats, offset: Floats) -> NDArray[np.float64]:
    """What each item of a history adds to the query that :func:`solve_query` finds, as ``(H, d)`` rows that sum to it.

    Where the gradient vanishes, the query is ``1 / (reg m |H|) sum_j (V_j - E)``, with ``E`` the mean item vector
    under the softmax of the query's own scores: each item draws it from what is likely anyway towards itself.
    """
    logits = (vectors @ query + offset).astype(np.float64)  # (I,)
    weights = np.exp(logits - logits.max())
    expected = weights @ vectors / weights.sum()  # (d,)
    shares: NDArray[np.float64] = (vectors[items] - expected) / (l2_strength(vectors) * len(items))
    return shares
