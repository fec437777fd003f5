"""Text of unknown origin in messages and terminals: control characters escaped, length bounded."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence

_LONGEST = 80  # characters of one quoted value
_LONGEST_LIST = 300  # characters of several names


def printable(text: object, longest: int | None = None) -> str:
    """``str(text)`` with control characters, line breaks, bidirectional marks and lone surrogates escaped.

    Examples
    --------
    >>> print(printable("caf\\u00e9 \\x1b[2J\\n"))
    café \\x1b[2J\\n
    >>> printable("a" * 50, longest=10)
    'aaaaaaa...'
    """
    words = str(text)
    if longest is not None:
        words = _cut(words, longest)
    return words if words.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in words)


def quoted(value: object, longest: int = _LONGEST) -> str:
    """``repr(value)`` on one line of bounded length.

    Examples
    --------
    >>> quoted("a\\tb"), quoted("a" * 500, longest=12)
    ("'a\\\\tb'", "'aaaaaaaa...")
    """
    if isinstance(value, str | bytes):
        value = value[: longest + 1]  # repr of a long text is longer still
    elif isinstance(value, int) and value.bit_length() > 4 * longest:
        return f"a whole number of {value.bit_length():,} bits"  # Python refuses to write very long ones
    return printable(_cut(repr(value), longest))


def listed(names: Iterable[object]) -> str:
    """Names for a message, the first ones if there are many.

    Examples
    --------
    >>> listed(["a", "b"])
    'a, b'
    >>> listed(range(100_000))[-30:]
    ', 74, 75, 76 and 99,923 others'
    """
    shown: list[str] = []
    every = list(names)
    length = 0
    for name in every:
        text = printable(name, _LONGEST)
        length += len(text) + 2
        if length > _LONGEST_LIST and shown:
            break
        shown.append(text)
    left = len(every) - len(shown)
    return ", ".join(shown) + (f" and {left:,} others" if left else "")


def first_line(error: BaseException, longest: int = 200) -> str:
    """The first line of what another library says about a failure."""
    lines = str(error).splitlines()
    return printable(lines[0] if lines else type(error).__name__, longest)


def spreadsheet_cell(value: object) -> object:
    """Text that a spreadsheet would take for a formula, marked as text; anything else as it is.

    Examples
    --------
    >>> spreadsheet_cell("=1+1"), spreadsheet_cell("uni"), spreadsheet_cell(-0.5)
    ("'=1+1", 'uni', -0.5)
    """
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def csv_table(rows: Sequence[Mapping[str, object]]) -> str:
    """Rows as CSV, their columns those of the first; a spreadsheet reads no cell of it as a formula.

    Examples
    --------
    >>> csv_table([{"a": 1, "b": "=1"}])
    "a,b\\n1,'=1\\n"
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: spreadsheet_cell(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 3] + "..."
