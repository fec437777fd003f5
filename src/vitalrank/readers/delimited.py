"""CSV, TSV and their kin: lines of fields between separators."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.csv as pacsv

from vitalrank.readers.columns import Columns
from vitalrank.readers.lines import Block, Row

ONE_BYTE = "\x1f"  # stands in for a separator of several letters
PARSE_BYTES = 1 << 22


@dataclass(frozen=True)
class Delimited:
    """Lines of fields between separators."""

    separator: str
    names: tuple[str, ...]  # unique, one per column
    columns: Columns
    text_ids: bool = True

    @property
    def timed(self) -> bool:
        return self.columns.time is not None

    def fast(self, data: bytes) -> pa.Table:
        types = {name: pa.string() for name in self.columns if name}
        table = pacsv.read_csv(
            pa.py_buffer(_one_byte(data, self.separator)),
            read_options=pacsv.ReadOptions(column_names=self.names, block_size=PARSE_BYTES),
            parse_options=pacsv.ParseOptions(
                delimiter=_letter(self.separator), newlines_in_values=b'"' in data, ignore_empty_lines=True
            ),
            convert_options=pacsv.ConvertOptions(include_columns=list(types), column_types=types),
        )
        return table.rename_columns(["user", "item", "time"][: len(types)])

    def careful(self, block: Block) -> Iterator[Row]:
        places = [self.names.index(name) if name else None for name in self.columns]
        for line, fields, problem in split_lines(block, self.separator):
            if not problem and len(fields) != len(self.names):
                problem = f"{len(fields)} columns instead of {len(self.names)}"
            if problem:
                yield Row(line, problem=problem)
                continue
            user, item, time = (None if place is None else fields[place] for place in places)
            yield Row(line, user, item, time, _not_utf8((user, item, time)))


def _letter(separator: str) -> str:
    return separator if len(separator) == 1 else ONE_BYTE


def _one_byte(data: bytes, separator: str) -> bytes:
    return data if len(separator) == 1 else data.replace(separator.encode(), ONE_BYTE.encode())


def _not_utf8(values: Sequence[str | None]) -> str | None:
    for value in values:
        try:
            (value or "").encode()
        except UnicodeEncodeError as error:
            return f"byte 0x{ord((value or '')[error.start]) - 0xDC00:02x} is not UTF-8 text"
    return None


def split_lines(block: Block, separator: str) -> Iterator[tuple[int, list[str], str | None]]:
    """Line number, fields and problem of every line that is not blank; bytes that are not UTF-8 become surrogates."""
    text = _one_byte(block.data, separator).decode("utf-8", "surrogateescape")
    reader = csv.reader(re.split(r"(?<=\n)", text), delimiter=_letter(separator))
    while True:
        line = block.line + reader.line_num
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield line, [], str(error)
            continue
        if fields:
            yield line, fields, None
