"""Data frames of any library, by way of Arrow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from vitalrank.errors import DataError
from vitalrank.interactions.columns import recognise
from vitalrank.interactions.unrecognised_time import first_values

Name = str | int | None  # frames of pandas have numbers for names, too


def columns_of(frame: Any, user: Name, item: Name, time: Name) -> tuple[Any, Any, Any]:
    """The user, item and time columns of a frame, as Arrow columns; no other column is read where that can be."""
    source = _source(frame)
    names = _names(source)
    by_text = {str(name): name for name in names}
    asked: list[Any] = [str(name) if type(name) is int else name for name in (user, item, time)]
    who, what, when = asked
    found = recognise(
        list(map(str, names)), who, what, when, values=lambda name: _first(_column(source, by_text[name]))
    )
    columns = {name: _column(source, by_text[name]) for name in found if name}
    return columns[found.user], columns[found.item], columns[found.time] if found.time else None


def is_frame(value: Any) -> bool:
    """Whether it is a table of named columns.

    Examples
    --------
    >>> is_frame({"user": [1], "item": [2]}), is_frame([1, 2])
    (True, False)
    """
    return isinstance(value, Mapping) or hasattr(value, "__arrow_c_stream__") or hasattr(value, "columns")


def _source(frame: Any) -> Any:
    """What gives its columns by name: the frame itself, or a table of it where it only gives rows."""
    if isinstance(frame, Mapping):
        return frame
    if hasattr(frame, "collect_schema") and hasattr(frame, "collect"):  # a lazy frame of polars
        frame = frame.collect()
    is_query = hasattr(frame, "__arrow_c_stream__") and not hasattr(frame, "__array__")
    return frame if hasattr(frame, "columns") and not is_query else _table(frame)


def _table(frame: Any) -> pa.Table:
    try:
        return pa.table(frame)
    except (TypeError, pa.ArrowInvalid, AttributeError) as error:
        kind = type(frame).__name__
        raise DataError(f"Cannot read a {kind} as a table; give a pandas, polars or Arrow frame.") from error


def _names(source: Any) -> list[Any]:
    if isinstance(source, pa.Table | pa.RecordBatch):
        return list(source.column_names)
    return list(source if isinstance(source, Mapping) else source.columns)


def _column(source: Any, name: Any) -> Any:
    column = source[name]
    to_arrow = getattr(column, "to_arrow", None)
    return to_arrow() if to_arrow is not None else column


def _first(column: Any) -> Iterable[Any]:
    return first_values(column) if isinstance(column, pa.Array | pa.ChunkedArray) else column
