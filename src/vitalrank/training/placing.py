"""First vectors of new users and items: a ridge regression from what they interacted with, the other side fixed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from vitalrank._util.typing import Array
from vitalrank.kernels.cpu.training.als import gram

_RIDGE = 1e-3  # of the mean diagonal of the normal matrix
_LEARNT_FROM = 16  # rows for each feature; more would cost as much as an epoch and change little


def place_rows(table: Array, fixed: Array, log: csr_matrix) -> Array:
    """Vectors of the rows of ``log`` that a trained table does not have yet.

    The trained rows tell how the vector of a row follows from its interactions: with the sum ``s`` of the fixed
    vectors of the ``n`` rows of the other side, the features ``x = [s / (n + 1), s / sqrt(n + 1), ln(n + 1), 1]``
    and the vectors ``y`` give ``W = argmin sum |x W - y|^2 + lambda |W|^2``, and a new row begins at ``x W``. Scale
    and bias are thus those of the table, whatever loss trained it. Of a large table, evenly spaced rows are enough.
    No step depends on the number of threads.

    Parameters
    ----------
    table
        Trained vectors of the first rows, (R, d).
    fixed
        Trained vectors of the first columns, (C, e).
    log
        Interactions of all rows with all columns; those with columns that have no vector yet do not count.

    Examples
    --------
    >>> log = csr_matrix(np.array([[1, 0], [0, 1], [1, 1], [1, 0]], np.float32))
    >>> place_rows(np.eye(2, dtype=np.float32)[[0, 1, 0]], np.eye(2, dtype=np.float32), log).shape
    (1, 2)
    """
    known = len(table)
    if log.shape[0] == known:
        return np.zeros((0, table.shape[1]), np.float32)
    log = log[:, : len(fixed)]
    shown = np.arange(0, known, max(1, known // (_LEARNT_FROM * (2 * fixed.shape[1] + 2))))
    features = _features(fixed, log[shown])  # (S, m)
    width = features.shape[1]
    squares = gram(np.concatenate([features, table[shown]], axis=1))
    normal = squares[:width, :width]
    normal += (_RIDGE * np.trace(normal) / width + 1e-12) * np.eye(width)
    weights = _solve(normal, squares[:width, width:])
    new = _features(fixed, log[known:]).astype(np.float64)
    placed: Array = np.einsum("nm,md->nd", new, weights)  # not BLAS, as in _solve
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
        rows[pivot] /= rows[pivot, pivot]
        others = np.arange(size) != pivot
        rows[others] -= rows[others, pivot, None] * rows[pivot]
    return rows[:, size:]
