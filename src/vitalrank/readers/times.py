"""The time column of a file: numbers or ISO dates, one kind throughout."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vitalrank._util.display import printable, quoted
from vitalrank.interactions.encoding import DATE_TYPES, NUMBER_TYPES, bad_times, to_numbers
from vitalrank.readers.lines import SlowPathNeeded

_TOO_LARGE = 1 << 63  # for int64
_LONGEST = 64  # bytes of a time that is written as text
_SHOWN = 40  # characters of it in a message
_LARGEST = sys.float_info.max


class TimeReader:
    """Turns times into numbers and requires the kind (numbers or dates) that the first rows had."""

    def __init__(self) -> None:
        self._dates: bool | None = None

    def column(self, column: pa.Array) -> NDArray[Any]:
        """Numbers of a whole column; `SlowPathNeeded` when any value is not a time."""
        if column.null_count:
            raise SlowPathNeeded
        if pa.types.is_dictionary(column.type):
            column = _decoded(column)
        if not pa.types.is_string(column.type):
            return self._checked(to_numbers(column, "time"), dates=pa.types.is_temporal(column.type))
        for kind in self._kinds():
            try:
                numbers = to_numbers(column.cast(kind), "time")
            except pa.ArrowInvalid:
                continue
            return self._checked(numbers, dates=kind in DATE_TYPES)
        raise SlowPathNeeded

    def _kinds(self) -> tuple[pa.DataType, ...]:
        if self._dates is None:
            return NUMBER_TYPES + DATE_TYPES
        return DATE_TYPES if self._dates else NUMBER_TYPES

    def _checked(self, numbers: NDArray[Any], dates: bool) -> NDArray[Any]:
        if bad_times(numbers) is not None or self._dates not in (None, dates):
            raise SlowPathNeeded
        self._dates = dates
        return numbers

    def single(self, value: object) -> int | float:
        """Number of one value; ValueError says what is wrong with it."""
        number, dates = _number(value)
        if not 0 <= number <= _LARGEST:
            shown = printable(value, _SHOWN) if isinstance(value, str) else quoted(value, _SHOWN)
            raise ValueError(f"time {shown} is not a finite number >= 0")
        if self._dates not in (None, dates):
            other = "dates" if self._dates else "numbers"
            raise ValueError(f"time {quoted(value)}, where other lines have {other}")
        self._dates = dates
        return number if isinstance(number, float) or number < _TOO_LARGE else float(number)


def _decoded(column: pa.DictionaryArray) -> pa.Array:
    texts = column.dictionary
    if texts.null_count or pc.max(pc.binary_length(texts)).as_py() > _LONGEST:
        raise SlowPathNeeded
    return texts.take(column.indices)


def _number(value: object) -> tuple[int | float, bool]:
    """A number as it is, a date as seconds since 1970; and which of the two it was."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value, False
    text = value.strip() if isinstance(value, str) else ""
    for kind in (int, float):
        try:
            return kind(text), False
        except ValueError:
            continue
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"time {quoted(value)} is neither a number nor an ISO date") from None
    seconds = moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()
    return int(seconds) if seconds.is_integer() else seconds, True
