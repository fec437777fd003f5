"""What came before: items of a user's history, found by position in the time-sorted log."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitalrank.interactions import Interactions

Array = NDArray[Any]


def context_before(log: Interactions, rows: Array, users: Array, length: int) -> NDArray[np.int64]:
    """The ``length`` items before each row of the log, oldest first; -1 behind a shorter history.

    Examples
    --------
    >>> log = Interactions.from_arrays([7, 7, 7, 8], [3, 1, 2, 3], times=[1, 2, 3, 1])
    >>> context_before(log, np.array([0, 1, 2, 3]), np.array([0, 0, 0, 1]), length=2).tolist()
    [[-1, -1], [2, -1], [2, 0], [-1, -1]]
    """
    return _gathered(log, log.indptr[users], rows, length)


def last_context(log: Interactions, users: Array, length: int) -> NDArray[np.int64]:
    """The last ``length`` items of each user, oldest first; -1 behind a shorter history.

    Examples
    --------
    >>> log = Interactions.from_arrays([7, 7, 7, 8], [3, 1, 2, 3], times=[1, 2, 3, 1])
    >>> last_context(log, np.array([1, 0]), length=2).tolist()
    [[2, -1], [0, 1]]
    """
    return _gathered(log, log.indptr[users], log.indptr[users + 1], length)


def repeat_last(context: Any) -> Any:
    """The same with each -1 replaced by the history's last item; rows without history stay -1.

    Examples
    --------
    >>> repeat_last(np.array([[4, 2, -1], [-1, -1, -1]])).tolist()
    [[4, 2, 2], [-1, -1, -1]]
    """
    last = (context >= 0).sum(1) - 1  # (B,), -1 without history: that row is -1 throughout
    steps = np.minimum(np.arange(context.shape[1]), np.maximum(last, 0)[:, None])  # (B, L)
    return np.take_along_axis(context, steps, axis=1)


def _gathered(log: Interactions, begin: Array, end: Array, length: int) -> NDArray[np.int64]:
    """Items at positions ``max(begin, end - length) .. end - 1`` of the log."""  # (B, L)
    at = np.maximum(begin, end - length)[:, None] + np.arange(length)
    inside = at < end[:, None]
    return np.where(inside, log.items[np.where(inside, at, 0)], -1).astype(np.int64)
