"""One record per line: JSON objects, or the Python literals of some review files (parsed, never evaluated)."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.json as pajson

from vitalrank._util.display import quoted
from vitalrank.errors import DataError
from vitalrank.interactions.columns import Columns, recognise
from vitalrank.readers.lines import Block, Layout, LogRow, Wanted

PARSE_BYTES = 1 << 22
ARROW_TYPES: dict[type, pa.DataType] = {int: pa.int64(), float: pa.float64(), str: pa.string()}
_TOO_LARGE = 1 << 63  # for an id
KIND_NAMES = {int: "an int", str: "a string"}


@dataclass(frozen=True)
class Records:
    """Lines that are dictionaries."""

    columns: Columns
    load: Callable[[str], Any]
    id_types: tuple[type, type]  # of users and items, as in the first record
    schema: pa.Schema | None  # None: no fast path

    @property
    def layout(self) -> Layout:
        users, items = (kind.__name__ for kind in self.id_types)
        return Layout("JSON lines", self.columns.time is not None, users, items)

    def fast(self, data: bytes) -> pa.Table | None:
        if self.schema is None:
            return None
        table = pajson.read_json(
            pa.py_buffer(data),
            read_options=pajson.ReadOptions(block_size=PARSE_BYTES),
            parse_options=pajson.ParseOptions(explicit_schema=self.schema, unexpected_field_behavior="ignore"),
        )
        table = table.select(list(self.columns.present.values()))
        table.validate(full=True)  # the parser lets bytes pass that are not UTF-8
        return table.rename_columns(list(self.columns.present))

    def slow(self, block: Block) -> Iterator[LogRow]:
        for line, data in enumerate(block.data.split(b"\n"), block.line):
            if data.strip():
                yield self._row(line, data)

    def _row(self, line: int, data: bytes) -> LogRow:
        try:
            record = parse_record(data, self.load)
        except ValueError as error:
            return LogRow(line, problem=str(error))
        values = {role: record.get(name) for role, name in self.columns.present.items()}
        for role, name in self.columns.present.items():
            if values[role] is None:
                return LogRow(line, problem=f"no {quoted(name)}")
        user, item = values["user"], values["item"]
        for name, value, kind in zip(self.columns[:2], (user, item), self.id_types, strict=True):
            if type(value) is not kind:
                return LogRow(
                    line, problem=f"{quoted(name)} is {quoted(value)}, where other lines have {KIND_NAMES[kind]}"
                )
            if isinstance(value, int) and not -_TOO_LARGE <= value < _TOO_LARGE:
                return LogRow(line, problem=f"{quoted(name)} is {quoted(value)}, more than 64 bits hold")
            if isinstance(value, str) and not _is_unicode(value):
                return LogRow(line, problem=f"{quoted(name)} is {quoted(value)}, which UTF-8 cannot write")
        return LogRow(line, **values)


def _is_unicode(text: str) -> bool:
    r"""Whether it can be encoded: JSON may hold a lone surrogate, ``"\ud800"``."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def parse_record(data: bytes, load: Callable[[str], Any]) -> dict[str, Any]:
    """One line as a dictionary; ValueError says what it is instead."""
    try:
        text = data.decode().strip()
    except UnicodeDecodeError as error:
        raise ValueError(f"byte 0x{data[error.start]:02x} is not UTF-8 text") from None
    try:
        record = load(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise ValueError(f"not a record: {quoted(text, 40)}") from None
    if not isinstance(record, dict) or not all(isinstance(name, str) for name in record):
        raise ValueError(f"not a record: {quoted(text, 40)}")
    return record


def find_records(block: Block, wanted: Wanted, source: str) -> Records:
    """A parser for the file, its columns and types taken from the first line."""
    first = block.data.split(b"\n", 1)[0]
    for load in (json.loads, ast.literal_eval):
        try:
            record = parse_record(first, load)
            break
        except ValueError as error:
            problem = str(error)
    else:
        raise DataError(f"{source}, line {block.line}: {problem}; give one JSON object per line.")
    if any(isinstance(column, int) and not isinstance(column, bool) for column in wanted):
        raise DataError(f"{source}: records have names and no positions; give the names of the fields.")
    user, item, time, weight = wanted
    columns = recognise(list(record), user, item, time, source, lambda name: [record[name]], weight)  # type: ignore[arg-type]
    id_types = (type(record[columns.user]), type(record[columns.item]))
    for name, kind in zip((columns.user, columns.item), id_types, strict=True):
        if kind not in KIND_NAMES:
            raise DataError(
                f"{source}, line {block.line}: {quoted(name)} is {quoted(record[name])}; ids are ints or strings."
            )
    schema = _schema(record, columns) if load is json.loads else None
    return Records(columns, load, id_types, schema)


def _schema(record: dict[str, Any], columns: Columns) -> pa.Schema | None:
    kinds = [(name, ARROW_TYPES.get(type(record[name]))) for name in columns.present.values()]
    return pa.schema(kinds) if all(kind for _, kind in kinds) else None
