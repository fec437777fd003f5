"""Validation of arguments that must be a log."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from vitalrank.errors import DataError, SettingError
from vitalrank.interactions.encoding import bad_times
from vitalrank.interactions.frames import is_frame
from vitalrank.interactions.log import Interactions
from vitalrank.interactions.weighting import bad_weight


def check_log(name: str, given: object) -> None:
    """Reject what is no log, such as a path, a frame or a matrix, and say how to make one of it.

    Examples
    --------
    >>> check_log("train", "log.tsv")
    Traceback (most recent call last):
    ...
    vitalrank.errors.SettingError: train is of type str; give a log: vr.read(train).
    """
    if isinstance(given, Interactions):
        return
    kind = type(given).__name__
    if isinstance(given, str | PathLike):
        raise SettingError(f"{name} is of type {kind}; give a log: vr.read({name}).")
    if issparse(given):
        raise SettingError(f"{name} is of type {kind}; give a log: vr.Interactions.from_csr({name}).")
    if is_frame(given):
        raise SettingError(f"{name} is of type {kind}; give a log: vr.Interactions.from_frame({name}).")
    raise SettingError(f"{name} is of type {kind}; give a log, as vr.read or Interactions.from_arrays makes it.")


def check_rows(indptr: NDArray[Any], items: NDArray[Any], n_users: int, n_items: int) -> None:
    """Refuse arrays that are no compressed rows, whose positions compiled code would follow out of its memory.

    Examples
    --------
    >>> check_rows(np.array([0, 1, 3]), np.array([0, 0, 5]), n_users=2, n_items=4)
    Traceback (most recent call last):
    ...
    ValueError: the log names items outside 0 to 3
    """
    for name, array in (("indptr", indptr), ("items", items)):
        if array.ndim != 1 or array.dtype not in (np.int32, np.int64):
            raise ValueError(f"{name} is {array.dtype} {array.shape}, not a row of whole numbers")
    if len(indptr) != n_users + 1 or indptr[0] != 0 or indptr[-1] != len(items) or (np.diff(indptr) < 0).any():
        raise ValueError(f"the log has no rows of {n_users} users")
    if len(items) and not (items.min() >= 0 and items.max() < n_items):
        raise ValueError(f"the log names items outside 0 to {n_items - 1}")


def check_parts(log: Interactions) -> None:
    """Refuse arrays that are no log although their positions are right: repeated pairs, times out of order.

    Examples
    --------
    >>> log = Interactions(np.array([0, 2]), np.array([1, 1], np.int32), None, np.array([7]), np.array([8, 9]))
    >>> check_parts(log)
    Traceback (most recent call last):
    ...
    ValueError: a user has an item twice
    """
    inside = np.ones(len(log) + 1, np.bool_)  # (N + 1,) not the first row of a user
    inside[log.indptr[:-1]] = False
    same_user = inside[1:-1]  # (N - 1,) row p + 1 is of the user of row p
    if (np.diff(log.sorted_items) == 0)[same_user].any():
        raise ValueError("a user has an item twice")
    if log.weights is not None:
        if log.weights.shape != log.items.shape or log.weights.dtype != np.float32:
            raise ValueError(f"weights are {log.weights.dtype} {log.weights.shape}, not one float32 per row")
        if bad_weight(log.weights) is not None:
            raise ValueError("a weight is negative or no number")
    if log.times is None:
        return
    if log.times.shape != log.items.shape or log.times.dtype not in (np.int64, np.float64):
        raise ValueError(f"times are {log.times.dtype} {log.times.shape}, not one number per row")
    if bad_times(log.times) is not None or (np.diff(log.times) < 0)[same_user].any():
        raise ValueError("the times of a user are not in order, or no times")


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
