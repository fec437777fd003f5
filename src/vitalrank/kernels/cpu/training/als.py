"""Alternating least squares: one regularised normal equation per row, solved by conjugate gradient.

Rows are independent of each other and every sum has a fixed order, so the bits do not depend on the threads.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitalrank.kernels.compiling import FAST, njit
from vitalrank.kernels.cpu.runtime.parallel import run_parallel, threads_for

_BLOCKS = 32  # of rows, whose Gram matrices are added in their order
_TINY = 1e-20  # squared residual at which the conjugate gradient has arrived


def gram(table: NDArray[np.float32], wanted: int | None = None) -> NDArray[np.float64]:
    """``table^T table`` (d, d), or its first ``wanted`` rows.

    It is summed in blocks of rows whose bounds do not depend on the threads.

    Examples
    --------
    >>> gram(np.array([[1, 2], [3, 4]], np.float32)).tolist()
    [[10.0, 14.0], [14.0, 20.0]]
    """
    rows, dim = table.shape
    wanted = dim if wanted is None else wanted
    bounds = np.linspace(0, rows, _BLOCKS + 1).astype(np.int64)
    sums = np.zeros((_BLOCKS, wanted, dim))
    n_threads = threads_for(rows * wanted * dim // 1000)
    run_parallel(
        *(partial(_gram_blocks, thread, n_threads, bounds, table, sums) for thread in range(n_threads))
    )  # fmt: skip
    total: NDArray[np.float64] = sums.sum(axis=0)
    return total


def solve_rows(
    indptr: Any, indices: Any, excess: Any, fixed: Any, normal: NDArray[np.float32], steps: int, solved: Any
) -> float:
    """Move each row of ``solved`` towards the solution of its normal equation.

    The equation of row ``u`` is ``(G + sum_j e_uj y_j y_j^T) x = sum_j (1 + e_uj) y_j`` over the row's entries ``j``.

    Parameters
    ----------
    indptr, indices, excess
        Compressed rows: the entries of each, and by how much their confidence exceeds 1.
    fixed
        (n, d) the vectors of the other side, ``y``.
    normal
        (d, d) ``G``: ``fixed^T fixed`` plus the penalty on its diagonal.
    steps
        Of the conjugate gradient, from what ``solved`` holds.
    solved
        (m, d) in and out.

    Returns
    -------
    float
        ``sum_uj (1 + e_uj) (1 - x_u . y_j)^2 - (x_u . y_j)^2``: the loss without the squares of all
        scores and the penalty.
    """
    losses = np.zeros(len(solved))

    def shard(begin: int, end: int) -> None:
        _solve(begin, end, indptr, indices, excess, fixed, normal, steps, solved, losses)

    _balanced(indptr, fixed.shape[1], shard)
    return float(losses.sum())


def _balanced(indptr: Any, dim: int, shard: Callable[[int, int], None]) -> None:
    """Call ``shard`` on ranges of rows of about equal cost, in parallel."""
    rows = len(indptr) - 1
    cost = np.asarray(indptr, np.int64) + np.arange(rows + 1) * (dim // 2)  # each row multiplies by (d, d) besides
    n_threads = threads_for(int(cost[-1]) * dim // 500)
    cuts = np.searchsorted(cost, np.linspace(0, cost[-1], n_threads + 1)[1:-1])
    bounds = [0, *cuts.tolist(), rows]
    run_parallel(*(partial(shard, begin, end) for begin, end in pairwise(bounds)))


@njit(nogil=True, cache=True)
def _gram_blocks(thread: Any, n_threads: Any, bounds: Any, table: Any, sums: Any) -> None:
    dim = table.shape[1]
    for block in range(thread, len(bounds) - 1, n_threads):
        for row in range(bounds[block], bounds[block + 1]):
            for f in range(sums.shape[1]):
                value = np.float64(table[row, f])
                for g in range(dim):
                    sums[block, f, g] += value * table[row, g]


@njit(nogil=True, cache=True, fastmath=FAST)
def _solve(
    begin: Any, end: Any, indptr: Any, indices: Any, excess: Any, fixed: Any, normal: Any, steps: Any, solved: Any,
    losses: Any,
) -> None:  # fmt: skip
    dim = fixed.shape[1]
    residual, direction, product = np.empty(dim, np.float32), np.empty(dim, np.float32), np.empty(dim, np.float32)
    for row in range(begin, end):
        x = solved[row]
        first, last = indptr[row], indptr[row + 1]
        _multiply(normal, x, residual)
        for f in range(dim):
            residual[f] = -residual[f]
        for index in range(first, last):
            other, more = indices[index], excess[index]
            weight = np.float32(1.0) + more - more * _dot(fixed, other, x)
            for f in range(dim):
                residual[f] += weight * fixed[other, f]
        direction[:] = residual
        norm = _norm(residual)
        for _ in range(steps):
            if norm < _TINY:
                break
            _multiply(normal, direction, product)
            for index in range(first, last):
                other = indices[index]
                weight = excess[index] * _dot(fixed, other, direction)
                for f in range(dim):
                    product[f] += weight * fixed[other, f]
            curvature = np.float32(0.0)
            for f in range(dim):
                curvature += direction[f] * product[f]
            if not curvature > 0.0:
                break
            size = norm / curvature
            for f in range(dim):
                x[f] += size * direction[f]
                residual[f] -= size * product[f]
            before = norm
            norm = _norm(residual)
            for f in range(dim):
                direction[f] = residual[f] + (norm / before) * direction[f]
        loss = 0.0
        for index in range(first, last):
            score = np.float64(_dot(fixed, indices[index], x))
            loss += (1.0 + excess[index]) * (1.0 - score) ** 2 - score**2
        losses[row] = loss


@njit(nogil=True, cache=True, fastmath=FAST)
def _multiply(matrix: Any, vector: Any, result: Any) -> None:
    """``matrix @ vector`` of a symmetric matrix, as a sum of its rows."""
    result[:] = 0.0
    for f in range(len(vector)):
        value = vector[f]
        for g in range(len(vector)):
            result[g] += value * matrix[f, g]


@njit(nogil=True, cache=True, fastmath=FAST)
def _dot(table: Any, row: Any, vector: Any) -> Any:
    total = np.float32(0.0)
    for f in range(len(vector)):
        total += table[row, f] * vector[f]
    return total


@njit(nogil=True, cache=True, fastmath=FAST)
def _norm(vector: Any) -> Any:
    total = np.float32(0.0)
    for f in range(len(vector)):
        total += vector[f] * vector[f]
    return total
