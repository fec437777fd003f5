"""What every text format provides: a fast parser for whole blocks, a careful one for the lines in doubt."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

Wanted = tuple[str | int | None, str | int | None, str | int | bool | None]


class Suspect(Exception):  # noqa: N818 - a signal, not a failure
    """Something in a block is not as expected; the careful parser will find out what."""


class Block(NamedTuple):
    """Whole lines and the number of the first of them, counted from 1."""

    data: bytes
    line: int


class Row(NamedTuple):
    """One line as the careful parser sees it: its values, or what is wrong with it."""

    line: int
    user: Any = None
    item: Any = None
    time: Any = None
    problem: str | None = None


class Parser(Protocol):
    """One text format, its columns known."""

    @property
    def timed(self) -> bool:
        """Whether there is a time column."""

    @property
    def text_ids(self) -> bool:
        """Whether ids carry no type, so that whole numbers among them are found out at the end."""

    def fast(self, data: bytes) -> pa.Table | None:
        """Columns user, item and perhaps time; ArrowInvalid when in doubt, None when the format has no fast way."""

    def careful(self, block: Block) -> Iterator[Row]:
        """The lines of a block, one by one."""
