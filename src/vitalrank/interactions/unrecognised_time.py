"""A time column under a name we do not know: without its times, "the last rows" would be whatever the file has last."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import date, datetime
from itertools import islice
from numbers import Real
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vitalrank._util.display import printable, quoted
from vitalrank.errors import DataError

NameT = TypeVar("NameT", str, int)
SAMPLE = 50  # values of a column that we look at
TIME_WORDS = {"time", "timestamp", "datetime", "date", "day", "dt", "ts", "when", "epoch"}
ID_ENDS = ("id", "isbn", "asin")  # their digits may look like unix times
FIRST, END = 1e8, 4.2e9  # unix seconds from 1973 to 2103; smaller numbers may be ratings or counts
_LONGEST_TIME = 80  # characters
UNITS = (1, 1e3, 1e6, 1e9)  # seconds down to nanoseconds
BLANK = {"", "none", "null", "nan", "nat", "<na>"}


def ask_about_time(names: Iterable[NameT], values: Callable[[NameT], Iterable[Any]], where: str) -> None:
    """Refuse to guess when one of these columns, none of which has a role yet, may hold the times."""
    found = [name for name in names if _is_time_name(name) or (not _is_id(name) and all_times(values(name)))]
    if found:
        which = " or ".join(f"column {quoted(name)}" for name in found[:5])
        advice = f"say time={quoted(found[0])} or time=False (--time {printable(found[0], 80)} or --no-time)"
        raise DataError(f"{where}: no known time column, but {which} may be the time; {advice}.")


def all_times(values: Iterable[Any]) -> bool:
    """Whether the first values, blank ones aside, look like times, and there is one."""
    found = False
    for value in islice(values, SAMPLE):
        if str(value).strip().lower() not in BLANK:
            if not _looks_like_time(value):
                return False
            found = True
    return found


def first_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The first values of an Arrow column as text; none where it has no text."""
    try:
        head = column[:SAMPLE]
        if isinstance(head, pa.DictionaryArray):  # cut before they are repeated: a value may take megabytes
            texts = pc.utf8_slice_codeunits(head.dictionary.cast(pa.string()), 0, _LONGEST_TIME)
            return list(texts.take(head.indices).to_pylist())
        return list(head.cast(pa.string()).to_pylist())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return []


def _is_time_name(name: str | int) -> bool:
    """Whether a word of the name says so: ``visit_date``, ``dateAdded``, ``finished_at``; not ``update`` or ``lat``."""
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", str(name).split(":")[0])
    plain = [word.lower() for word in words]
    return bool(TIME_WORDS & set(plain)) or (len(plain) > 1 and plain[-1] == "at")


def _is_id(name: str | int) -> bool:
    return str(name).split(":")[0].lower().endswith(ID_ENDS)


def _looks_like_time(value: object) -> bool:
    """A date, an ISO date, or a number that is a moment of our days in some unit of unix time."""
    if isinstance(value, date | np.datetime64):
        return True
    if isinstance(value, str):
        try:
            datetime.fromisoformat(value.strip())
            return True
        except ValueError:
            pass
        try:
            value = float(value)
        except ValueError:
            return False
    return isinstance(value, Real) and unit_of(float(value)) is not None


def unit_of(moment: float) -> float | None:
    """How many units of unix time make a second, by the size of a time; None where it is no moment of our days.

    Examples
    --------
    >>> unit_of(1_600_000_000), unit_of(1_600_000_000_000), unit_of(17)
    (1, 1000.0, None)
    """
    return next((unit for unit in UNITS if FIRST <= moment / unit < END), None)
