"""What a command prints: one JSON object for scripts, tables for people."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table


def print_json(value: Mapping[str, Any]) -> None:
    """One JSON object on standard output, for scripts."""
    print(json.dumps(_finite(value), default=str, allow_nan=False))


def _finite(value: object) -> object:
    """The value with null for what is infinite or no number, which JSON does not have."""
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def ranking_table(header: Sequence[str], rows: Iterable[Sequence[str]], caption: str | None = None) -> Table:
    """A table without lines for the terminal: names to the left, numbers to the right."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, caption=caption, caption_justify="left")
    for place, name in enumerate(header):
        table.add_column(name, justify="right" if place else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table
