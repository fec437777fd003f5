"""Parquet, one batch of the needed columns at a time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from vitalrank._util.display import first_line, quoted
from vitalrank.errors import DataError
from vitalrank.interactions.columns import Columns, recognise
from vitalrank.interactions.unrecognised_time import SAMPLE, first_values
from vitalrank.readers.collecting import Collector
from vitalrank.readers.lines import ROLES, Layout, LogRow, SlowPathNeeded, Wanted
from vitalrank.readers.sources import open_file
from vitalrank.readers.stores import StoredFile, unreadable

BATCH_ROWS = 1 << 18
_TEXT = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_binary)
_TARGETS = (
    (pa.types.is_integer, pa.int64()),
    (pa.types.is_floating, pa.float64()),
    (pa.types.is_temporal, pa.timestamp("us")),
    *((belongs, pa.string()) for belongs in _TEXT),
)


def read_parquet(path: Path | StoredFile, wanted: Wanted, collector: Collector) -> None:
    """Stream a Parquet file into the collector."""
    if any(isinstance(column, int) and not isinstance(column, bool) for column in wanted):
        raise DataError(f"{collector.source}: Parquet columns have names; give them and no positions.")
    try:
        with open_file(path) as raw:
            _read(raw, wanted, collector)
    except (pa.ArrowException, UnicodeError, OSError) as error:
        if isinstance(path, StoredFile) and isinstance(error, OSError):  # the connection, or damaged pages
            raise unreadable(path.address, error) from error
        raise DataError(f"{collector.source}: damaged Parquet file ({first_line(error)}); write it again.") from error


def _read(raw: pa.NativeFile, wanted: Wanted, collector: Collector) -> None:
    schema = pq.ParquetFile(raw).schema_arrow
    # Strings stay dictionary-encoded: a short file may repeat a long one a million times.
    texts = [field.name for field in schema if any(belongs(field.type) for belongs in _TEXT)]
    file = pq.ParquetFile(raw, read_dictionary=texts)
    user, item, time, weight = wanted
    first = partial(_first, file)
    columns = recognise(schema.names, user, item, time, collector.source, first, weight)  # type: ignore[arg-type]
    names = list(columns.present.values())
    row = 0
    for batch in file.iter_batches(BATCH_ROWS, columns=names):
        table = _table(batch, columns, collector.source)
        collector.expect(_layout(table, collector.source))
        try:
            collector.add(table)
        except SlowPathNeeded:
            collector.add_rows(_rows(table, row), place="row")
        row += batch.num_rows


def _first(file: pq.ParquetFile, name: str) -> list[Any]:
    return next((first_values(batch[name]) for batch in file.iter_batches(SAMPLE, columns=[name])), [])


def _table(batch: pa.RecordBatch, columns: Columns, source: str) -> pa.Table:
    return pa.table(
        {role: _plain(batch[name], f"{source}, column {quoted(name)}") for role, name in columns.present.items()}
    )


def _plain(column: pa.Array, where: str) -> pa.Array:
    """Ids as int64 or strings, times as numbers, timestamps or strings; strings dictionary-encoded."""
    is_encoded = pa.types.is_dictionary(column.type)
    kind = column.type.value_type if is_encoded else column.type
    target = next((target for belongs, target in _TARGETS if belongs(kind)), None)
    if target is None:
        raise DataError(f"{where} is of type {quoted(str(kind))}; ids are ints or strings, times numbers or dates.")
    try:
        if target == pa.string():
            encoded = column if is_encoded else column.dictionary_encode()
            return pa.DictionaryArray.from_arrays(encoded.indices, encoded.dictionary.cast(target))
        # What is below a microsecond is dropped; what is beyond its range is an error.
        return pc.cast(column, options=pc.CastOptions(target_type=target, allow_time_truncate=True))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise DataError(f"{where} cannot be read as {target} ({first_line(error)}); write it as such.") from error


def _layout(table: pa.Table, source: str) -> Layout:
    types = []
    for role in ROLES[:2]:
        kind = table[role].type
        if kind != pa.int64() and not pa.types.is_dictionary(kind):
            raise DataError(f"{source}: {role} ids of type {kind}; give ints or strings.")
        types.append("int" if kind == pa.int64() else "string")
    return Layout("Parquet", "time" in table.column_names, *types)


def _rows(table: pa.Table, row: int) -> Iterator[LogRow]:
    for place in range(table.num_rows):
        try:
            yield LogRow(row + place, **{role: table[role][place].as_py() for role in table.column_names})
        except (ValueError, OverflowError) as error:  # bytes that are not UTF-8, a year after 9999
            yield LogRow(row + place, problem=f"a value cannot be read ({first_line(error)})")
