"""Pairs of a query and a positive, however they were given, and the log that they make."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from vitalrank._util.checks import is_count
from vitalrank._util.display import first_line, printable
from vitalrank._util.typing import Array
from vitalrank.errors import DataError
from vitalrank.interactions import Interactions
from vitalrank.mining.vectors import DAMAGED


def read_pairs(positives: ArrayLike | str | os.PathLike[str], n_queries: int, n_items: int) -> Interactions:
    """The log of queries and their positives, both by row number, over all queries and items.

    Parameters
    ----------
    positives
        One item for each query, (Q,); pairs (M, 2); a sequence of sequences of items; or a file of either array,
        ``.npy``, or of two columns, ``.parquet``.
    n_queries, n_items
        Rows of the vectors.

    Examples
    --------
    >>> read_pairs([[4], [0, 2]], 2, 5).csr.toarray().tolist()
    [[0.0, 0.0, 0.0, 0.0, 1.0], [1.0, 0.0, 1.0, 0.0, 0.0]]
    """
    given = _from_file(Path(positives)) if isinstance(positives, (str, os.PathLike)) else positives
    queries, items = _columns(given.detach().cpu().numpy() if hasattr(given, "detach") else given, n_queries)
    for name, ids, limit in (("query", queries, n_queries), ("item", items, n_items)):
        if ids.size and (ids.min() < 0 or ids.max() >= limit):
            wrong = ids.min() if ids.min() < 0 else ids.max()
            raise DataError(f"positives name {name} {wrong}; row numbers are 0 to {limit - 1}.")
    if not len(queries):
        raise DataError("positives are empty; give at least one pair of a query and an item.")
    keys = np.unique(queries.astype(np.int64) * n_items + items)
    queries, items = keys // n_items, keys % n_items
    indptr = np.searchsorted(queries, np.arange(n_queries + 1)).astype(np.int64)
    return Interactions(indptr, items.astype(np.int32), None, np.arange(n_queries), np.arange(n_items))


def _columns(given: Any, n_queries: int) -> tuple[Array, Array]:
    if not isinstance(given, np.ndarray):
        lengths = [len(one) if hasattr(one, "__len__") else -1 for one in given]
        if lengths and min(lengths) >= 0:
            if len(lengths) != n_queries:
                raise DataError(f"positives are {len(lengths)} lists but there are {n_queries} queries; give one each.")
            items = [item for one in given for item in one]
            if not all(is_count(item, least=-(2**63)) and item < 2**63 for item in items):
                raise DataError("positives are lists of other things than whole numbers; give row numbers of items.")
            return np.repeat(np.arange(n_queries), lengths), np.asarray(items, np.int64)
        try:
            given = np.asarray(given)
        except ValueError as error:
            raise DataError("positives are ragged; give one item for each query, or a list for each.") from error
    if given.dtype.kind not in "iu" or given.ndim == 0:
        raise DataError(f"positives are {given.dtype}; give whole numbers, the rows of queries and items.")
    if given.ndim == 2 and given.shape[1] == 2:
        return given[:, 0], given[:, 1]
    if given.shape != (n_queries,):
        raise DataError(f"positives are {given.shape}; give one item for each query, ({n_queries},), or pairs (M, 2).")
    return np.arange(n_queries), given


def _from_file(path: Path) -> Array:
    try:
        if path.suffix == ".npy":
            array: Array = np.load(path, allow_pickle=False)
            return array
        if path.suffix == ".parquet":
            import pyarrow.parquet

            table = pyarrow.parquet.read_table(path)
            if table.num_columns == 2:
                return np.column_stack([table.column(number).to_numpy() for number in range(2)])
            raise DataError(f"{printable(path)}: has {table.num_columns} columns; give two, query and item.")
    except DataError:
        raise
    except FileNotFoundError as error:
        raise DataError(f"{printable(path)}: no such file.") from error
    except DAMAGED as error:
        raise DataError(f"{printable(path)}: cannot be read ({first_line(error)}).") from error
    raise DataError(f"{printable(path)}: is of no known kind; give positives as .npy or .parquet.")
