"""The k-core and the chronological split, as row positions, counts and masks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.checks import check_count, is_number
from vitalrank.errors import SettingError

Rows = NDArray[np.int64]


def core_rows(users: NDArray[Any], items: NDArray[Any], min_user: int, min_item: int) -> Rows | None:
    """Positions of the largest part in which all users and items keep that many rows; None when that is every row."""
    for name, least in (("user", min_user), ("item", min_item)):
        check_count(f"k_core's {name}", least, least=0)
    core: Rows | None = None
    while True:
        weak_users = np.bincount(users) < min_user
        weak_items = np.bincount(items) < min_item
        drop = weak_users[users] | weak_items[items]
        if not drop.any():
            break
        stay = np.flatnonzero(~drop)
        users, items = users[stay], items[stay]
        core = stay if core is None else core[stay]
    return core


def held_out(degree: Rows, fraction: float, valid: float | None) -> tuple[Rows, Rows]:
    """Rows of each user that go to the test and to the validation part.

    Test takes ``ceil(fraction * n)``, validation ``floor(valid * rest)`` but at least one; both shrink so that the
    user keeps one training row.
    """
    for name, share in (("fraction", fraction), ("valid", 0.0 if valid is None else valid)):
        if not (is_number(share) and 0 <= share < 1):
            raise SettingError(f"split_last({name}={share!r}): give a number from 0 to below 1.")
    # 0.2 * 35 is 7.000000000000001 in floats; the nudge makes it the 7 that was meant.
    test = np.minimum(np.ceil(degree * fraction - 1e-9).astype(np.int64), degree - 1)
    rest = degree - test
    if not valid:
        return test, np.zeros_like(test)
    wanted = np.maximum(np.floor(rest * valid + 1e-9).astype(np.int64), 1)
    return test, np.minimum(wanted, rest - 1)


def rows_between(begin: Rows, end: Rows, n_rows: int) -> NDArray[np.bool_]:
    """Mask of the rows ``begin[u]:end[u]`` of every user."""  # (N,)
    # +1 where a user's range begins, -1 where it ends: the running sum is the mask.
    marks = np.zeros(n_rows + 1, np.int8)
    np.add.at(marks, begin, 1)
    np.add.at(marks, end, -1)
    return np.cumsum(marks[:-1], dtype=np.int8).view(np.bool_)
