"""What every text format provides: a fast parser for whole blocks, a slow one that explains single lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

Name = str | int | None
Wanted = tuple[Name, Name, Name | bool, Name]  # user, item, time and weight as the caller named them
ROLES = ("user", "item", "time", "weight")


class SlowPathNeeded(Exception):  # noqa: N818 - control flow, not a failure
    """Something in a block is not as expected; the slow parser finds out what."""


class Block(NamedTuple):
    """Whole lines and the number of the first of them, counted from 1."""

    data: bytes
    line: int


class LogRow(NamedTuple):
    """One line as the slow parser sees it: its values, or what is wrong with it."""

    line: int
    user: Any = None
    item: Any = None
    time: Any = None
    weight: Any = None
    problem: str | None = None


class Layout(NamedTuple):
    """What the files of one log must have in common."""

    format: str
    has_time: bool
    user_type: str = "untyped"
    item_type: str = "untyped"


class Parser(Protocol):
    """One text format, its columns known."""

    @property
    def layout(self) -> Layout:
        """Format, and types of the columns; ids are untyped where only their text says whether they are integers."""

    def fast(self, data: bytes) -> pa.Table | None:
        """The columns there are; ArrowInvalid when in doubt, None when the format has no fast path."""

    def slow(self, block: Block) -> Iterator[LogRow]:
        """The lines of a block, one by one."""
