"""Which users belong to which rank."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.typing import Array
from vitalrank.distributed.process_group import ProcessGroup


def rank_bounds(indptr: Array, size: int) -> tuple[NDArray[np.int64], list[int]]:
    """Where each rank's rows of the log and its users begin, (R + 1,) each; the ranks have about as many rows.

    Examples
    --------
    >>> rows, users = rank_bounds(np.array([0, 5, 6, 8, 10]), size=2)
    >>> rows.tolist(), users
    ([0, 5, 10], [0, 1, 4])
    >>> rank_bounds(np.array([0, 3]), size=2)[1]  # more ranks than users: some have none
    [0, 1, 1]
    """
    users = np.searchsorted(indptr, indptr[-1] * np.arange(size + 1) / size)
    users[0], users[-1] = 0, len(indptr) - 1
    return indptr[users].astype(np.int64), users.tolist()


def own_part(users: NDArray[np.int64], indptr: NDArray[np.int64], group: ProcessGroup) -> slice:
    """Which of some users (ascending) belong to this rank: the same as in training; none after the last rank."""
    if group.size == 1:
        return slice(None)
    bounds = rank_bounds(indptr, group.size)[1]
    first, last = np.searchsorted(users, [*bounds, bounds[-1]][group.rank : group.rank + 2])
    return slice(int(first), int(last))
