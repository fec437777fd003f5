"""Checks of what is handed over as a log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitalrank.errors import DataError, SettingError
from vitalrank.interactions.log import Interactions


def check_log(name: str, given: Any) -> None:
    """Refuse what is no log: a path, a frame, a matrix, a tuple of parts.

    Examples
    --------
    >>> check_log("train", "log.tsv")
    Traceback (most recent call last):
    ...
    vitalrank.errors.SettingError: train is of type str; give a log, as vr.read or Interactions.from_arrays makes it.
    """
    if not isinstance(given, Interactions):
        kind = type(given).__name__
        raise SettingError(f"{name} is of type {kind}; give a log, as vr.read or Interactions.from_arrays makes it.")


def check_rows(indptr: NDArray[Any], items: NDArray[Any], n_users: int, n_items: int) -> None:
    """Refuse arrays that are no rows of a log, which compiled code would follow out of its memory.

    Examples
    --------
    >>> check_rows(np.array([0, 1, 3]), np.array([0, 0, 5]), n_users=2, n_items=4)
    Traceback (most recent call last):
    ...
    ValueError: the log names items outside 0 to 3
    """
    if len(indptr) != n_users + 1 or indptr[0] != 0 or indptr[-1] != len(items) or (np.diff(indptr) < 0).any():
        raise ValueError(f"the log has no rows of {n_users} users")
    if len(items) and not (items.min() >= 0 and items.max() < n_items):
        raise ValueError(f"the log names items outside 0 to {n_items - 1}")


def logs_of(exclude: Interactions | Sequence[Interactions] | None) -> Sequence[Interactions]:
    """The logs to leave out, however they were given."""
    if exclude is None:
        return ()
    return exclude if isinstance(exclude, Sequence) else (exclude,)


def check_same_ids(train: Interactions, other: Interactions, name: str) -> None:
    """Refuse a log whose internal ids mean other users or items than those of ``train``."""
    check_log(name, other)
    for what in ("user_ids", "item_ids"):
        ours, theirs = getattr(train, what), getattr(other, what)
        if ours is not theirs and not np.array_equal(ours, theirs):
            raise DataError(
                f"{name} has other {what} than the model's training log ({len(theirs)} against {len(ours)}); "
                "take all parts from one split_last."
            )
