"""Sparse matrices of users by items as pairs of ids."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix, sparray, spmatrix

from vitalrank.errors import DataError
from vitalrank.interactions.encoding import as_column


def pairs_of(
    matrix: sparray | spmatrix, user_ids: ArrayLike | None, item_ids: ArrayLike | None
) -> tuple[pa.Array | NDArray[Any], pa.Array | NDArray[Any], NDArray[Any]]:
    """The user, the item and the value of every nonzero entry, row by row."""
    given: Any = matrix  # stubs know neither shapes nor every dtype
    if not isinstance(matrix, sparray | spmatrix) or given.ndim != 2:
        raise DataError(f"from_csr takes a sparse matrix of users by items, not {type(matrix).__name__}.")
    entries: Any = csr_matrix(given, copy=True)
    n_users, n_items = entries.shape
    entries.sum_duplicates()
    entries.eliminate_zeros()
    users, items = entries.nonzero()
    return _ids_of(users, user_ids, n_users, "user"), _ids_of(items, item_ids, n_items, "item"), entries.data


def known_negatives(negatives: csr_matrix, positives: csr_matrix) -> csr_matrix:
    """The entries of one matrix of ones that are not in the other, indices sorted.

    Examples
    --------
    >>> known_negatives(csr_matrix([[1.0, 1.0, 0.0]]), csr_matrix([[1.0, 0.0, 1.0]])).toarray()
    array([[0., 1., 0.]])
    """
    left: csr_matrix = negatives - negatives.multiply(positives)
    left.eliminate_zeros()
    left.sort_indices()
    return left


def _ids_of(positions: NDArray[Any], ids: ArrayLike | None, size: int, side: str) -> pa.Array | NDArray[Any]:
    if ids is None:
        return positions.astype(np.int64)
    column = as_column(ids, side)
    if len(column) != size:
        raise DataError(f"{len(column):,} {side}_ids for a matrix with {size:,} {side}s; give one for each.")
    return column.take(pa.array(positions))
