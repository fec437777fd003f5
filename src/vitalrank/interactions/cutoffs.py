"""Moments at which a log is cut, and lengths of time, in the unit of the log's times."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.checks import check_count, is_number
from vitalrank._util.display import quoted
from vitalrank.errors import DataError, SettingError
from vitalrank.interactions.encoding import as_times
from vitalrank.interactions.splits import check_share
from vitalrank.interactions.unrecognised_time import unit_of

Time = float | str | date
NumPyTime = np.integer[Any] | np.floating[Any]  # of a log's column
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400, "y": 365.25 * 86400}
_LENGTH = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([smhdwy])\s*")


def to_time(moment: Time | None, times: NDArray[Any], name: str) -> float:
    """A number or a date in the unit of the log's times.

    Examples
    --------
    >>> to_time("2020-09-13", np.array([1_600_000_000_000]), "cutoff")
    1599955200000.0
    """
    if isinstance(moment, str) and _is_number(moment):
        return float(moment)
    if is_number(moment):
        return moment
    seconds: float = as_times([_as_date(moment, name)]).item()
    return seconds * _unit(times, f"{name}={quoted(str(moment))}")


def to_cutoff(moment: Time | None, times: NDArray[Any], name: str) -> float:
    """The same, after the first time of the log and not after the last."""
    at = to_time(moment, times, name)
    if not times.min() < at <= times.max():
        where = "not after the first row" if at <= times.min() else "after the last row"
        raise DataError(
            f"{name}={quoted(str(moment))} lies {where}; give a time after {times.min()} and up to {times.max()}."
        )
    return at


def cutoff_of_share(times: NDArray[Any], share: float, name: str) -> float:
    """The time from which on the latest rows are, a share of all."""
    held = rows_of_share(len(times), share, name)
    if not held:
        return np.inf
    return checked_cut(np.partition(times, len(times) - held)[len(times) - held], times.min(), share, name)


def rows_of_share(count: int, share: float, name: str) -> int:
    """How many of so many rows a share is.

    Examples
    --------
    >>> rows_of_share(35, 0.2, "share")
    7
    """
    check_share(f"split_time({name}", share)
    return min(int(np.ceil(count * share - 1e-9)), count)


def checked_cut(at: NumPyTime, least: NumPyTime, share: float, name: str) -> float:
    """The time of a cut as a number of Python, unless it leaves nothing before it."""
    if at <= least:
        raise DataError(
            f"{name}={share}: the cut falls on the first time of the log ({at}), so nothing is left before it; give a "
            "smaller share."
        )
    cut: float = at.item()
    return cut


def fold_cutoffs(times: NDArray[Any], folds: int, share: float, given: Sequence[Time] | None) -> list[Any]:
    """The first time of each fold's test set, ascending."""
    if given is not None:
        found = [to_cutoff(moment, times, "cutoffs") for moment in given]
    else:
        check_count("folds", folds)
        check_share("rolling_folds(share", share)
        held = int(np.ceil(len(times) * share - 1e-9))
        ordered = np.sort(times)
        found = [ordered[len(times) - held + held * fold // folds].item() for fold in range(folds)] if held else []
        if found and found[0] <= ordered[0]:
            raise DataError(f"share={share}: nothing is left before the first fold; give a smaller share.")
    if not found or any(later <= sooner for sooner, later in pairwise(found)):
        raise DataError("Two folds begin at the same time, or none at all; give fewer folds, or ascending cutoffs.")
    return found


def length_of_time(length: float | str, times: NDArray[Any], name: str) -> float:
    """A length of time such as ``"30d"``, or a number, in the unit of the log's times.

    Examples
    --------
    >>> length_of_time("1.5h", np.array([1_600_000_000_000]), "half_life")
    5400000.0
    """
    if is_number(length) and length > 0 and np.isfinite(length):
        return float(length)
    match = _LENGTH.fullmatch(length) if isinstance(length, str) else None
    if match is None or not float(match[1]):
        raise SettingError(
            f"{name}={quoted(length)}: give a number above 0 or a length such as '30d' (s, m, h, d, w or y)."
        )
    return float(match[1]) * _SECONDS[match[2]] * _unit(times, f"{name}={quoted(length)}")


def _unit(times: NDArray[Any], what: str) -> float:
    """How many units of the log's times make a second."""
    unit = unit_of(float(times.max()))
    if unit is None:
        raise DataError(
            f"{what}: the log's times, up to {times.max()}, are no unix times; give a number in their own unit."
        )
    return unit


def _as_date(moment: Any, name: str) -> date | np.datetime64 | str:
    if isinstance(moment, date | np.datetime64):
        return moment
    try:
        return date.fromisoformat(moment.strip()) if len(moment.strip()) == 10 else _checked(moment)
    except (AttributeError, TypeError, ValueError, DataError):
        raise SettingError(f"{name}={quoted(str(moment))}: give a number or an ISO date such as 2024-05-01.") from None


def _checked(text: str) -> str:
    as_times([text])
    return text.strip()


def _is_number(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False
