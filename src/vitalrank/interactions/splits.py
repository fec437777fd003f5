"""The k-core and the splits, as row positions, counts and masks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.checks import check_count, is_number
from vitalrank.errors import SettingError

Ints = NDArray[np.int64]


def core_rows(users: NDArray[Any], items: NDArray[Any], min_user: int, min_item: int) -> Ints | None:
    """Positions of the largest part in which all users and items keep that many rows; None when that is every row."""
    for name, least in (("user", min_user), ("item", min_item)):
        check_count(f"k_core's {name}", least, least=0)
    core: Ints | None = None
    while min_user or min_item:
        weak_users = np.bincount(users) < min_user
        weak_items = np.bincount(items) < min_item
        drop = weak_users[users] | weak_items[items]
        if not drop.any():
            break
        stay = np.flatnonzero(~drop)
        users, items = users[stay], items[stay]
        core = stay if core is None else core[stay]
    return core


def held_out(degree: Ints, fraction: float, valid: float | None, name: str = "split_last") -> tuple[Ints, Ints]:
    """Rows of each user that go to the test and to the validation set.

    Test takes ``ceil(fraction * n)``, validation ``floor(valid * rest)`` but at least one; both shrink so that the
    user keeps one training row.
    """
    check_share(f"{name}(fraction", fraction)
    check_share(f"{name}(valid", 0.0 if valid is None else valid)
    # 0.2 * 35 is 7.000000000000001 in floats; the nudge makes it the 7 that was meant.
    test = np.minimum(np.ceil(degree * fraction - 1e-9).astype(np.int64), degree - 1)
    rest = degree - test
    if not valid:
        return test, np.zeros_like(test)
    wanted = np.maximum(np.floor(rest * valid + 1e-9).astype(np.int64), 1)
    return test, np.minimum(wanted, rest - 1)


def held_out_counts(degree: Ints, fraction: float | None, valid: float | None, count: int | None) -> tuple[Ints, Ints]:
    """The same, by a share or by a number of rows.

    Examples
    --------
    >>> held_out_counts(np.array([1, 2, 9]), None, valid=1, count=2)
    (array([0, 1, 2]), array([0, 0, 1]))
    """
    if (fraction is None) == (count is None):
        raise SettingError("split_last takes either a fraction or count=; give one of them.")
    if count is None:
        return held_out(degree, float(fraction) if is_number(fraction) else fraction, valid)  # type: ignore[arg-type]
    check_count("split_last's count", count)
    test = np.minimum(count, degree - 1)
    if valid is None:
        return test, np.zeros_like(test)
    check_count("split_last's valid, a number of rows beside count", valid, least=0)
    return test, np.minimum(int(valid), degree - test - 1)


def check_share(name: str, share: float) -> None:
    """Refuse what is no number from 0 to below 1."""
    if not (is_number(share) and 0 <= share < 1):
        raise SettingError(f"{name}={share!r}): give a number from 0 to below 1.")


def last_of_users(indptr: Ints, counts: Ints) -> NDArray[np.bool_]:
    """Mask of the last ``counts[u]`` rows of every user."""  # (N,)
    # +1 where a user's range begins, -1 where it ends: the running sum is the mask.
    marks = np.zeros(int(indptr[-1]) + 1, np.int8)
    np.add.at(marks, indptr[1:] - counts, 1)
    np.add.at(marks, indptr[1:], -1)
    return np.cumsum(marks[:-1], dtype=np.int8).view(np.bool_)


def random_order(users: NDArray[Any], seed: int) -> Ints:
    """The rows by user, those of a user in random order; the same for a seed on every machine."""  # (N,)
    keys = np.random.Philox(key=seed).random_raw(len(users))
    return np.lexsort((keys, users))
