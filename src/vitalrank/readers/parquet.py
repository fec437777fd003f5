"""Parquet, one batch of the needed columns at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from vitalrank.errors import DataError
from vitalrank.readers.collecting import Collector
from vitalrank.readers.columns import recognise
from vitalrank.readers.lines import Row, Suspect, Wanted
from vitalrank.readers.unrecognised_time import SAMPLE, first_values

BATCH_ROWS = 1 << 18
ROLES = ["user", "item", "time"]


def read_parquet(path: Path, wanted: Wanted, collector: Collector) -> None:
    """Stream a Parquet file into the collector."""
    if any(isinstance(column, int) and not isinstance(column, bool) for column in wanted):
        raise DataError(f"{collector.source}: Parquet columns have names; give them and no positions.")
    try:
        file = pq.ParquetFile(path)
        names = file.schema_arrow.names
        columns = recognise(names, *wanted, collector.source, lambda name: _first(file, name))  # type: ignore[arg-type]
        row = 0
        for batch in file.iter_batches(BATCH_ROWS, columns=[name for name in columns if name]):
            arrays = [_plain(batch[name], f"{collector.source}, column {name!r}") for name in columns if name]
            _add(pa.table(arrays, ROLES[: len(arrays)]), row, collector)
            row += batch.num_rows
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"{collector.source}: damaged Parquet file ({reason}); fetch or write it again.") from error


def _first(file: pq.ParquetFile, name: str) -> list[Any]:
    return next((first_values(batch[name]) for batch in file.iter_batches(SAMPLE, columns=[name])), [])


def _plain(column: pa.Array, where: str) -> pa.Array:
    """Ids as int64 or string, times as numbers, stamps or strings."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    for belongs, target in _TARGETS:
        if belongs(kind):
            return _cast(column, target, where)
    raise DataError(f"{where} is of type {kind}; ids are ints or strings, times numbers or dates.")


def _cast(column: pa.Array, target: pa.DataType, where: str) -> pa.Array:
    try:
        return column.cast(target, safe=not pa.types.is_temporal(target))  # moments lose what is below a microsecond
    except pa.ArrowInvalid as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"{where} cannot be read as {target} ({reason}); write it as such.") from error


_TARGETS = (
    (pa.types.is_integer, pa.int64()),
    (pa.types.is_floating, pa.float64()),
    (pa.types.is_string, pa.string()),
    (pa.types.is_large_string, pa.string()),
    (pa.types.is_string_view, pa.string()),
    (pa.types.is_binary, pa.string()),
    (pa.types.is_temporal, pa.timestamp("us")),
)


def _add(table: pa.Table, row: int, collector: Collector) -> None:
    for role in ("user", "item"):
        if table[role].type not in (pa.int64(), pa.string()):
            raise DataError(f"{collector.source}: {role} ids of type {table[role].type}; give ints or strings.")
    try:
        collector.add(table)
    except Suspect:
        collector.add_rows(_rows(table, row), timed="time" in table.column_names, place="row")


def _rows(table: pa.Table, row: int) -> Iterator[Row]:
    for place, values in enumerate(zip(*(column.to_pylist() for column in table.columns), strict=True), row):
        yield Row(place, *values)
