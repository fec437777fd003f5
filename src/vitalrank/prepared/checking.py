"""What the rows of a prepared log are checked for as they are first read."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.typing import Array
from vitalrank.interactions.encoding import bad_times
from vitalrank.interactions.weighting import bad_weight
from vitalrank.prepared.arrays import PieceCheck


def piece_check(name: str, indptr: NDArray[np.int64], n_items: int) -> PieceCheck:
    """Whether a piece of an array of this name is part of a log with these rows.

    Compiled code follows the positions, and finds seen items by a binary search among the sorted ones.
    """

    def is_right(values: Array, first: int, last: int) -> bool:
        piece = values[first:last]
        if name == "times":
            return bad_times(piece) is None and ascends(values, first, last, indptr)
        if name == "weights":
            return bad_weight(piece) is None
        if name == "item_degree":
            return bool(piece.min() >= 0 and piece.max() < len(indptr))
        in_range = bool(piece.min() >= 0 and piece.max() < n_items)
        return in_range and (name == "items" or ascends(values, first, last, indptr, strictly=True))

    return is_right


def ascends(values: Array, first: int, last: int, indptr: NDArray[np.int64], strictly: bool = False) -> bool:
    """Whether each user's values ascend from place ``first`` to before ``last``.

    Examples
    --------
    >>> indptr = np.array([0, 2, 2, 4])
    >>> ascends(np.array([5, 7, 1, 1]), 0, 4, indptr), ascends(np.array([5, 7, 1, 1]), 0, 4, indptr, strictly=True)
    (True, False)
    """
    begin = max(first - 1, 0)
    piece = values[begin:last]
    right = piece[1:] > piece[:-1] if strictly else piece[1:] >= piece[:-1]  # of row begin + 1 and those behind it
    starts = indptr[np.searchsorted(indptr, begin + 1) : np.searchsorted(indptr, last)]
    right[starts - begin - 1] = True
    return bool(right.all())
