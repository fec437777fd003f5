"""First vectors of new users and items: a ridge regression from what they interacted with, the other side fixed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from vitalrank._util.typing import Array
from vitalrank.kernels.cpu.training.als import gram

Ints = NDArray[np.int64]
_RIDGE = 1e-3  # of the mean diagonal of the normal matrix
_LEARNT_FROM = 16  # rows for each feature; more would cost as much as an epoch and change little


def place_rows(table: Array, fixed: Array, log: csr_matrix, known: Ints, new: Ints) -> Array:
    """Vectors of new rows, by their interactions.

    The trained rows tell how the vector of a row follows from its interactions: with the sum ``s`` of the fixed
    vectors of the ``n`` rows of the other side, the features ``x = [s / (n + 1), s / sqrt(n + 1), ln(n + 1), 1]``
    and the vectors ``y`` give ``W = argmin sum |x W - y|^2 + lambda |W|^2``, and a new row begins at ``x W``. Scale
    and bias are thus those of the table, whatever loss trained it. Of a large table, evenly spaced rows are enough.
    No step depends on the number of threads.

    Parameters
    ----------
    table
        Trained vectors, (R, d).
    fixed
        Trained vectors of the other side, (C, e).
    log
        Interactions with the other side, C columns.
    known, new
        Which rows of ``log`` are those of the table, (R,), and which are to be placed, (N,).

    Examples
    --------
    >>> log = csr_matrix(np.array([[1, 0], [0, 1], [1, 1], [1, 0]], np.float32))
    >>> table, fixed = np.eye(2, dtype=np.float32)[[0, 1, 0]], np.eye(2, dtype=np.float32)
    >>> place_rows(table, fixed, log, known=np.arange(3), new=np.array([3])).shape
    (1, 2)
    """
    shown = np.arange(0, len(known), max(1, len(known) // (_LEARNT_FROM * (2 * fixed.shape[1] + 2))))
    features = _features(fixed, log[known[shown]])  # (S, m)
    width = features.shape[1]
    squares = gram(np.concatenate([features, table[shown]], axis=1), wanted=width)
    normal = squares[:, :width]
    normal += (_RIDGE * np.trace(normal) / width + 1e-12) * np.eye(width)
    weights = _solve(normal, squares[:, width:])
    unplaced = _features(fixed, log[new]).astype(np.float64)
    placed: Array = np.einsum("nm,md->nd", unplaced, weights)  # not BLAS, as in _solve
    rows: Array = placed.astype(np.float32)
    return rows


def _features(fixed: Array, log: csr_matrix) -> Array:
    ones = csr_matrix((np.ones(log.nnz, np.float32), log.indices, log.indptr), shape=log.shape)
    count = np.diff(log.indptr)[:, None].astype(np.float32)  # (R, 1)
    sums = ones @ np.ascontiguousarray(fixed, np.float32)  # (R, e)
    parts = [sums / (count + 1), sums / np.sqrt(count + 1), np.log1p(count), np.ones_like(count)]
    return np.concatenate(parts, axis=1).astype(np.float32)


def _solve(matrix: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Gaussian elimination of a positive definite system: LAPACK's bits depend on its number of threads."""
    rows = np.concatenate([matrix, right], axis=1)
    size = len(matrix)
    for pivot in range(size):
        rest = rows[:, pivot:]  # nothing reads the columns before it any more
        rest[pivot] /= rest[pivot, 0]
        factors = rest[:, 0].copy()
        factors[pivot] = 0.0
        rest -= factors[:, None] * rest[pivot]
    return rows[:, size:]
