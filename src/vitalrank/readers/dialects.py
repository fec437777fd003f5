"""Delimited files from their first lines: the separator, whether there is a header, and which column is which."""

from __future__ import annotations

from collections import Counter

from vitalrank._util.display import listed, quoted
from vitalrank.errors import DataError
from vitalrank.interactions.columns import WELL_KNOWN, is_known, normalized, recognise
from vitalrank.interactions.unrecognised_time import all_times, ask_about_time
from vitalrank.readers.delimited import Delimited, split_lines
from vitalrank.readers.lines import Block, Wanted

SEPARATORS = ("::", "\t", ",", ";", "|", " ")
SAMPLE_LINES = 50
Cells = list[str]


def find_dialect(
    block: Block, wanted: Wanted, sep: str | None, header: bool | None, source: str
) -> tuple[Delimited, Block]:
    """A parser for the file, and its first block without the header line."""
    sample = Block(_head(block.data), block.line)
    separator = sep or _separator(sample, source)
    lines = _split(sample, separator)
    if not lines:
        raise DataError(f"{source}, line {block.line}: cannot be split at {quoted(separator)}; say sep=... (--sep).")
    first = [field.strip() for field in lines[0]]
    lines = [fields for fields in lines if len(fields) == len(first)]
    if header is None:
        header = _has_header(first, lines[1:], wanted, source)
    if not header:
        return Delimited(separator, len(first), _by_position(wanted, lines, source)), block
    user, item, time, weight = (_name_at(first, column, source) for column in wanted)
    below = dict(zip(first, zip(*lines[1:], strict=True), strict=False))  # nothing where there is no other line
    columns = recognise(first, user, item, time, source, lambda name: below.get(name, ()), weight)  # type: ignore[arg-type]
    places = {role: first.index(name) for role, name in columns.present.items()}
    end = block.data.find(b"\n") + 1 or len(block.data)
    return Delimited(separator, len(first), places), Block(block.data[end:], block.line + 1)


def _head(data: bytes) -> bytes:
    end = 0
    for _ in range(SAMPLE_LINES):
        end = data.find(b"\n", end) + 1
        if not end:
            return data
    return data[:end]


def _split(sample: Block, separator: str) -> list[Cells]:
    return [fields for _, fields, problem in split_lines(sample, separator) if not problem]


def _separator(sample: Block, source: str) -> str:
    """The one at which most of the first lines fall into the same number of fields, at least two."""
    best, most = "", 0
    for separator in SEPARATORS:
        widths = Counter(len(fields) for fields in _split(sample, separator))
        lines = max((count for width, count in widths.items() if width > 1), default=0)
        if lines > most:
            best, most = separator, lines
    if not best:
        raise DataError(f"{source}: no separator found in the first lines; say sep=... (--sep).")
    return best


def _has_header(first: Cells, others: list[Cells], wanted: Wanted, source: str) -> bool:
    if any(isinstance(column, str) for column in wanted) or is_known(first):
        return True
    if any(map(_is_value, first)):
        return False
    if isinstance(wanted[0], int) and isinstance(wanted[1], int):
        # Nothing would notice a row lost as a header: columns that are counted need no known names.
        sure = _names_a_role(first, wanted) or _heads_numbers(others, wanted)
    else:
        sure = any(_is_value(field) for fields in others for field in fields)
    if sure:
        return True
    advice = "Say header=True (--header) or header=False (--no-header)"
    raise DataError(f"{source}: is the first line ({listed(first)}) a header? {advice}.")


def _names_a_role(first: Cells, wanted: Wanted) -> bool:
    roles = {wanted[0]: "user", wanted[1]: "item"}
    return any(normalized(field) in WELL_KNOWN[roles.get(place, "time")] for place, field in enumerate(first))


def _heads_numbers(others: list[Cells], wanted: Wanted) -> bool:
    """Whether a column has numbers or dates below a word; ids do not count, some of which happen to be digits."""
    columns = [values for place, values in enumerate(zip(*others, strict=True)) if place not in wanted[:2]]
    return any(all(map(_is_value, values)) for values in columns)


def _is_value(text: str) -> bool:
    """A number or a date: no name of a column."""
    try:
        float(text)
    except ValueError:
        return all_times([text])
    return True


def _name_at(names: Cells, column: str | int | bool | None, source: str) -> str | bool | None:
    if not isinstance(column, int) or isinstance(column, bool):
        return column
    return names[_place(column, len(names), source)]


def _place(column: int, width: int, source: str) -> int:
    if not 0 <= column < width:
        raise DataError(f"{source}: no column {column}; there are {width}, counted from 0.")
    return column


def _by_position(wanted: Wanted, lines: list[Cells], source: str) -> dict[str, int]:
    """Positions in a file without header: those given, else user, item, perhaps a rating, and time last."""
    width = len(lines[0])
    for column in wanted:
        if isinstance(column, str):
            raise DataError(f"{source}: no header, so no column {quoted(column)}; give positions from 0.")
    user, item, time, weight = wanted
    if user is None and item is None and 2 <= width <= 4:
        user, item = 0, 1
        if time is None and width > 2 + (weight is not None) and weight != width - 1:
            time = _last_if_time(lines, source)
    if user is None or item is None:
        raise DataError(
            f"{source}: {width} columns without header; say user= and item= (--user, --item) as positions from 0."
        )
    roles = {"user": user, "item": item, "time": None if time is False else time, "weight": weight}
    places = {role: _place(int(place), width, source) for role, place in roles.items() if place is not None}
    if len(set(places.values())) < len(places):
        raise DataError(f"{source}: one column has two roles; give different positions.")
    if time is None:
        others = [place for place in range(width) if place not in places.values()]
        ask_about_time(others, lambda place: (fields[place] for fields in lines), source)
    return places


def _last_if_time(lines: list[Cells], source: str) -> int:
    last = len(lines[0]) - 1
    if not all_times(fields[last] for fields in lines):
        advice = f"say time={last} (--time {last}) or time=False (--no-time)"
        raise DataError(f"{source}: no header, and the last column may be no time; {advice}.")
    return last
