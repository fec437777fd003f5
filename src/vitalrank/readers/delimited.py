"""CSV, TSV and their kin: lines of fields between separators."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from vitalrank.readers.lines import Block, Layout, LogRow, SlowPathNeeded

ONE_BYTE = "\x1f"  # stands in for a separator of several bytes
PARSE_BYTES = 1 << 22
_RETRIES = 20  # lines that failed records may take, as a multiple of the lines of a block


@dataclass(frozen=True)
class Delimited:
    """Lines of fields between separators."""

    separator: str
    width: int
    places: dict[str, int]  # of user, item and perhaps time and weight

    @property
    def layout(self) -> Layout:
        return Layout("delimited text", "time" in self.places)

    @cached_property
    def _names(self) -> list[str]:
        """Names for Arrow; those of a header may occur twice, or be no UTF-8."""
        return list(map(str, range(self.width)))

    def fast(self, data: bytes) -> pa.Table:
        has_quotes = b'"' in data
        if has_quotes and np.count_nonzero(np.frombuffer(data, np.uint8) == ord('"')) % 2:
            raise SlowPathNeeded  # Arrow takes all that follows a quote that is never closed for one value
        types = {self._names[place]: pa.string() for place in self.places.values()}
        data = _one_byte(data, self.separator)
        table = pacsv.read_csv(
            pa.py_buffer(data),
            read_options=pacsv.ReadOptions(column_names=self._names, block_size=PARSE_BYTES),
            parse_options=pacsv.ParseOptions(
                delimiter=_letter(self.separator), newlines_in_values=has_quotes, ignore_empty_lines=True
            ),
            convert_options=pacsv.ConvertOptions(include_columns=list(types), column_types=types),
        )
        if has_quotes and (any(map(_has_newline, table.columns)) or _swallows(data, table.num_rows, self.separator)):
            raise SlowPathNeeded
        return table.rename_columns(list(self.places))

    def slow(self, block: Block) -> Iterator[LogRow]:
        for line, fields, problem in split_lines(block, self.separator, self._problem):
            yield LogRow(line, problem=problem) if problem else LogRow(line, **self._values(fields))

    def _values(self, fields: Sequence[str]) -> dict[str, Any]:
        """User, item and perhaps time and weight."""
        return {role: fields[place] for role, place in self.places.items()}

    def _problem(self, fields: Sequence[str]) -> str | None:
        if len(fields) != self.width:
            return f"{len(fields)} columns instead of {self.width}"
        values = self._values(fields)
        for role, value in values.items():
            if "\n" in value:
                return f"the {role} goes on over the end of the line"
        return _not_utf8(list(values.values()))


def _letter(separator: str) -> str:
    return separator if len(separator.encode()) == 1 else ONE_BYTE


def _one_byte(data: bytes, separator: str) -> bytes:
    return data if len(separator.encode()) == 1 else data.replace(separator.encode(), ONE_BYTE.encode())


def _has_newline(column: pa.ChunkedArray) -> bool:
    texts = (chunk.buffers()[2] for chunk in column.chunks)
    return any(bool((np.frombuffer(text, np.uint8) == ord("\n")).any()) for text in texts if text)


def _swallows(data: bytes, rows: int, separator: str) -> bool:
    """Whether a quote that is open over the end of a line is closed in the middle of a field, as by a stray quote."""
    text = np.frombuffer(data, np.uint8)
    is_end = text == ord("\n")
    if np.count_nonzero(is_end) + (not data.endswith(b"\n")) <= rows:
        return False  # a row per line
    ends, quotes = np.flatnonzero(is_end), np.flatnonzero(text == ord('"'))
    opened, closed = quotes[::2], quotes[1::2]
    long = np.searchsorted(ends, opened) < np.searchsorted(ends, closed)
    after = text[np.minimum(closed[long] + 1, len(text) - 1)]
    return not np.isin(after, [ord(letter) for letter in (_letter(separator), "\r", "\n", '"')]).all()


def _not_utf8(values: Sequence[str]) -> str | None:
    for value in values:
        try:
            value.encode()
        except UnicodeEncodeError as error:
            return f"byte 0x{ord(value[error.start]) - 0xDC00:02x} is not UTF-8 text"
    return None


def split_lines(
    block: Block, separator: str, find_problem: Callable[[list[str]], str | None] | None = None
) -> Iterator[tuple[int, list[str], str | None]]:
    """Line number, fields and problem of every line that is not blank; bytes that are not UTF-8 become surrogates.

    A stray quote takes the lines that follow into its field. So with ``find_problem``, which judges fields, reading
    goes on at the line after the first of a bad record. Where that happens so often that the time would grow with the
    square of the size, records of several lines are no longer tried.
    """
    text = _one_byte(block.data, separator).decode("utf-8", "surrogateescape")
    lines = _Lines(re.split(r"(?<=\n)", text))
    reader = csv.reader(lines, delimiter=_letter(separator))
    retries = _RETRIES * len(lines)
    while True:
        first, problem = lines.place, None
        lines.end = len(lines) if retries > 0 else min(first + 1, len(lines))
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            fields, problem = [], str(error)
        if lines.exhausted:
            problem = "a quote is opened and never closed"
        elif lines.place > first + 1 and (problem or not _is_strict(lines.since(first), _letter(separator))):
            problem = "a quote goes on over the end of the line"
        elif fields and find_problem is not None:
            problem = find_problem(fields)
        if problem and find_problem is not None:
            retries -= lines.place - first - 1
            lines.go_to(first + 1)
        if fields or problem:
            yield block.line + first, fields, problem


def _is_strict(lines: list[str], letter: str) -> bool:
    """Whether a record of several lines closes its quotes where fields end; on one line, a title may be sloppy."""
    try:
        return bool(list(csv.reader(lines, delimiter=letter, strict=True)))
    except csv.Error:
        return False


class _Lines:
    """An iterator over lines that can be moved, and that may end early."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self.place = 0
        self.end = len(lines)
        self.exhausted = False  # whether one more was asked for than there are

    def __len__(self) -> int:
        return len(self._lines)

    def go_to(self, place: int) -> None:
        self.place, self.exhausted = place, False

    def since(self, place: int) -> list[str]:
        return self._lines[place : self.place]

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        if self.place >= self.end:
            self.exhausted = True
            raise StopIteration
        self.place += 1
        return self._lines[self.place - 1]
