"""Item neighbours, EASE and ALS as their formulas say, on dense float64 matrices."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


def similarities(seen: Matrix, similarity: str, k1: float, b: float, shrinkage: float) -> Matrix:
    """How alike each pair of items is; 0 for pairs that no user shares, and on the diagonal."""
    users, items = seen.shape
    count = [seen[:, i].sum() for i in range(items)]
    rarity = [math.log(1 + items / max(seen[u].sum(), 1)) ** 2 for u in range(users)]
    weight = [1.0] * users if similarity == "cosine" else rarity
    if similarity == "bm25":
        length = [1 - b + b * count[i] / np.mean(count) for i in range(items)]
        norm = [(1 + k1 * length[i]) / (1 + k1) for i in range(items)]
    else:
        norm = [math.sqrt(sum(weight[u] for u in range(users) if seen[u, i])) for i in range(items)]
    alike = np.zeros((items, items))
    for i in range(items):
        for j in range(items):
            shared = sum(weight[u] for u in range(users) if seen[u, i] and seen[u, j])
            if i != j and shared > 0:
                alike[j, i] = shared / (norm[j] * norm[i] + shrinkage)
    return alike


def nearest(alike: Matrix, i: int, neighbours: int) -> list[int]:
    """The items most like ``i``, the lower one first of equals."""
    # Rounded, so that equal similarities are equal in any arithmetic.
    order = sorted(range(len(alike)), key=lambda j: (-round(alike[j, i], 6), j))
    return [j for j in order if alike[j, i] > 0][:neighbours]


def item_knn(alike: Matrix, neighbours: int, neighbours_of: str = "predicted") -> Matrix:
    """Column i, or row i with ``"history"``: the similarities of the nearest neighbours of i."""
    weights = np.zeros_like(alike)
    for i in range(len(alike)):
        for j in nearest(alike, i, neighbours):
            weights[j, i] = alike[j, i]
    return weights if neighbours_of == "predicted" else weights.T


def ease(seen: Matrix, reg: float, dropout: float = 0.0) -> Matrix:
    """Each item regressed on all others: one linear system per item, none of them inverted at once."""
    everything = range(seen.shape[1])
    return regressed(seen, reg, {i: [j for j in everything if j != i] for i in everything}, dropout)


def regressed(seen: Matrix, reg: float, support: dict[int, list[int]], dropout: float = 0.0) -> Matrix:
    """Column i: the ridge regression of item i on the items in its support.

    With dropout ``p`` the mean over rows in which an item is left out with probability ``p``, those that stay divided
    by ``1 - p``: its products with other items stay, its square grows by ``1 / (1 - p)``.
    """
    weights = np.zeros((seen.shape[1],) * 2)
    for i, chosen in support.items():
        x = seen[:, chosen]
        gram = x.T @ x
        squares = np.diag(np.diag(gram) * (1 / (1 - dropout) - 1))
        weights[chosen, i] = np.linalg.solve(gram + squares + reg * np.eye(len(chosen)), x.T @ seen[:, i])
    return weights


def decayed_scores(histories: list[list[int]], weights: Matrix, decay: float) -> Matrix:
    """The scores of users whose items are given oldest first."""
    scores = np.zeros((len(histories), len(weights)))
    for user, items in enumerate(histories):
        for later, item in enumerate(reversed(items)):
            scores[user] += decay**later * weights[item]
    return scores


def als_loss(seen: Matrix, confidence: Matrix, users: Matrix, items: Matrix, reg: float) -> float:
    """The objective of ALS over all cells."""
    error = confidence * (seen - users @ items.T) ** 2
    return float(error.sum() + reg * ((users**2).sum() + (items**2).sum()))


def als_solve(seen: Matrix, confidence: Matrix, fixed: Matrix, reg: float) -> Matrix:
    """The best vector of each row of ``seen``, the other side fixed."""
    rows = []
    for x, c in zip(seen, confidence, strict=True):
        normal = fixed.T @ np.diag(c) @ fixed + reg * np.eye(fixed.shape[1])
        rows.append(np.linalg.solve(normal, fixed.T @ (c * x)))
    return np.array(rows)
