"""Text formats: recognised from the first lines, parsed block by block, doubtful lines parsed one by one."""

from __future__ import annotations

import pyarrow as pa

from vitalrank.errors import DataError
from vitalrank.readers.collecting import Collector
from vitalrank.readers.dialects import find_dialect
from vitalrank.readers.lines import Block, Parser, SlowPathNeeded, Wanted
from vitalrank.readers.records import find_records
from vitalrank.readers.sources import TextSource, last_line_end

SLOW_BYTES = 1 << 16


def read_text(source: TextSource, wanted: Wanted, sep: str | None, header: bool | None, collector: Collector) -> None:
    """Recognise the format from the first block and read everything."""
    parser: Parser | None = None
    for block in source:
        if parser is None:
            parser, block = _recognise(block, wanted, sep, header, collector.source)
            collector.expect(parser.layout)
        _parse(parser, block, collector)


def _recognise(block: Block, wanted: Wanted, sep: str | None, header: bool | None, source: str) -> tuple[Parser, Block]:
    """The parser for this file and what the first block holds besides a header."""
    stripped = block.data.lstrip()
    if not stripped:
        raise DataError(f"{source} holds only blank lines.")
    block = Block(stripped, block.line + block.data[: -len(stripped)].count(b"\n"))
    if stripped.startswith(b"["):
        raise DataError(f"{source} is one JSON array; write one record per line (JSON lines).")
    if stripped.startswith(b"{") and sep is None:
        return find_records(block, wanted, source), block
    return find_dialect(block, wanted, sep, header, source)


def _parse(parser: Parser, block: Block, collector: Collector) -> None:
    """Parse fast; where that fails, halve the block until it is small, and parse its lines one by one."""
    if not block.data:
        return
    try:
        table = parser.fast(block.data)
        if table is not None:
            collector.add(table)
            return
        cut = 0
    except (pa.ArrowInvalid, SlowPathNeeded):
        size = len(block.data)
        cut = last_line_end(block.data, size // 2) if size > SLOW_BYTES else 0
    if not cut:
        collector.add_rows(parser.slow(block))
        return
    _parse(parser, Block(block.data[:cut], block.line), collector)
    _parse(parser, Block(block.data[cut:], block.line + block.data.count(b"\n", 0, cut)), collector)
