"""Data frames of any library, by way of Arrow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa

from vitalrank._util.display import first_line, listed
from vitalrank.errors import DataError
from vitalrank.interactions.columns import recognise
from vitalrank.interactions.encoding import as_column
from vitalrank.interactions.unrecognised_time import first_values

CHUNK = 1 << 16  # rows
Name = str | int | None  # frames of pandas have numbers for names, too


def columns_of(frame: object, user: Name, item: Name, time: Name, weight: Name = None) -> tuple[Any, Any, Any, Any]:
    """The user, item, time and weight columns of a frame, as Arrow columns; no other is read where that can be."""
    source = _source(frame)
    names = _names(source)
    by_text = {str(name): name for name in names}
    asked: list[Any] = [str(name) if type(name) is int else name for name in (user, item, time, weight)]
    who, what, when, how_much = asked
    found = recognise(
        list(map(str, names)), who, what, when, weight=how_much,
        values=lambda name: _first(_column(source, by_text[name])),
    )  # fmt: skip
    columns = {name: _column(source, by_text[name]) for name in found if name}
    return columns[found.user], columns[found.item], columns.get(found.time or ""), columns.get(found.weight or "")


def table_of_rows(rows: Iterable[Sequence[Any]], columns: Sequence[str]) -> pa.Table:
    """Rows, read in chunks, as a table; a row that is shorter than others names fewer columns.

    Examples
    --------
    >>> table_of_rows([("ann", 7), ("bob", 9)], ["user", "item", "time"]).column_names
    ['user', 'item']
    """
    names = list(columns)
    chunks: list[pa.Table] = []
    read, rest = 0, iter(rows)
    while chunk := list(islice(rest, CHUNK)):
        width = len(chunks[0].columns) if chunks else len(chunk[0])
        bad = next((place for place, row in enumerate(chunk, read) if len(row) != width), None)
        if bad is not None or not 2 <= width <= len(names):
            bad = read if bad is None else bad
            raise DataError(
                f"Row {bad} has {len(chunk[bad - read])} values for columns {listed(names)}; say columns=..."
            )
        arrays = [as_column(list(values), name) for name, values in zip(names, zip(*chunk, strict=True), strict=False)]
        chunks.append(pa.table(arrays, names[:width]))
        read += len(chunk)
    if not chunks:
        raise DataError("There are no rows; give at least one interaction.")
    try:
        return pa.concat_tables(chunks, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise DataError(f"Rows are of several types ({first_line(error)}); give all ints or all strings.") from error


def is_frame(value: object) -> bool:
    """Whether it is a table of named columns.

    Examples
    --------
    >>> is_frame({"user": [1], "item": [2]}), is_frame([1, 2])
    (True, False)
    """
    return isinstance(value, Mapping) or hasattr(value, "__arrow_c_stream__") or hasattr(value, "columns")


def _source(frame: object) -> Any:
    """What gives its columns by name: the frame itself, or a table of it where it only gives rows."""
    if isinstance(frame, Mapping):
        return frame
    if hasattr(frame, "collect_schema") and hasattr(frame, "collect"):  # a lazy frame of polars
        frame = frame.collect()
    is_query = hasattr(frame, "__arrow_c_stream__") and not hasattr(frame, "__array__")
    return frame if hasattr(frame, "columns") and not is_query else _table(frame)


def _table(frame: object) -> pa.Table:
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
