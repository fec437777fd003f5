"""Data frames of any make, by way of Arrow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from vitalrank.errors import DataError
from vitalrank.readers.columns import recognise


def columns_of(frame: Any, user: str | None, item: str | None, time: str | bool | None) -> tuple[Any, Any, Any]:
    """The user, item and time columns of a frame, as Arrow columns; no other column is touched."""
    source = frame if hasattr(frame, "columns") or isinstance(frame, Mapping) else _table(frame)
    found = recognise(_names(source), user, item, time)
    columns = {name: _column(source, name) for name in found if name}
    return columns[found.user], columns[found.item], columns[found.time] if found.time else None


def _table(frame: Any) -> pa.Table:
    try:
        return pa.table(frame)
    except (TypeError, pa.ArrowInvalid, AttributeError) as error:
        kind = type(frame).__name__
        raise DataError(f"Cannot read a {kind} as a table; give a pandas, polars or Arrow frame.") from error


def _names(source: Any) -> list[str]:
    if isinstance(source, pa.Table | pa.RecordBatch):
        return list(source.column_names)
    return [str(name) for name in (source if isinstance(source, Mapping) else source.columns)]


def _column(source: Any, name: str) -> Any:
    column = source[name]
    to_arrow = getattr(column, "to_arrow", None)
    return to_arrow() if to_arrow is not None else column
