"""The files of a prepared log: ``prepared.json``, which is written last, and the folder of arrays that it names."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from vitalrank._util.display import first_line, printable, quoted
from vitalrank.errors import StorageError

FORMAT = 1
META = "prepared.json"
DATA = re.compile(r"data-[0-9a-f]{12}")  # the folder of arrays; a new one for each preparation
WHOLE, TRAIN = "log", "train"  # the one part of a log that is not split, and the first of one that is
PARTS = (WHOLE, TRAIN, "valid", "test")
FIELDS = {"indptr": "<i8", "items": "<i4", "sorted_items": "<i4", "item_degree": "<i8"}  # of every part
OPTIONAL = {"times": ("<i8", "<f8"), "weights": ("<f4",)}
SIDES = ("users", "items")
ID_FIELDS = {"int": {"ids": "<i8"}, "text": {"offsets": "<i8", "text": "|u1"}}
_REDO = "prepare it again"


@dataclass(frozen=True)
class ArrayEntry:
    """What ``prepared.json`` says of an array: its type and length, and the SHA-256 of each of its blocks."""

    dtype: str
    length: int
    sha256: tuple[str, ...]


@dataclass(frozen=True)
class PartEntry:
    """A part of the log: its rows, the fingerprint of the log that it is, its arrays by name."""

    rows: int
    fingerprint: str
    arrays: dict[str, ArrayEntry]


@dataclass(frozen=True)
class Contents:
    """``prepared.json``."""

    data: str  # name of the folder of arrays
    users: int
    items: int
    repeats: int
    skipped: int
    ids: dict[str, dict[str, ArrayEntry]]  # side -> field -> entry
    parts: dict[str, PartEntry]
    made: dict[str, Any]  # how it was made, for people

    def to_json(self, library: str) -> str:
        """The text of ``prepared.json``."""
        return json.dumps({"format": FORMAT, "library": library, **asdict(self)}, indent=1) + "\n"


def is_prepared(path: str | PathLike[str]) -> bool:
    """Whether a folder holds a whole prepared log.

    Examples
    --------
    >>> is_prepared("no/such/folder")
    False
    """
    return (Path(path) / META).is_file()


def is_unfinished(path: str | PathLike[str]) -> bool:
    """Whether a folder holds what an interrupted preparation left, and no prepared log."""
    folder = Path(path)
    return folder.is_dir() and not is_prepared(folder) and any(DATA.fullmatch(entry.name) for entry in folder.iterdir())


def read_contents(folder: Path) -> Contents:
    """``prepared.json``, checked; the arrays themselves are not looked at."""
    name = printable(folder)
    try:
        found = json.loads((folder / META).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        what = "a preparation that did not finish" if is_unfinished(folder) else f"no {META}"
        raise StorageError(f"{name}: holds {what}; run data prepare, then give its --out folder.") from error
    except (OSError, ValueError, RecursionError) as error:
        raise StorageError(f"{name}/{META}: cannot be read ({first_line(error)}); {_REDO}.") from error
    if not isinstance(found, dict) or not isinstance(found.get("format"), int):
        raise StorageError(f"{name}/{META}: not written by vitalrank; give the --out folder of data prepare.")
    if found["format"] != FORMAT:
        written = f"written by vitalrank {printable(found.get('library'), 40)}"
        raise StorageError(f"{name}: format {found['format']}, {written}; this version reads {FORMAT}, so {_REDO}.")
    try:
        return _contents(found)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise StorageError(f"{name}/{META}: changed since it was written ({first_line(error)}); {_REDO}.") from error


def _contents(found: dict[str, Any]) -> Contents:
    users, items, repeats, skipped = (_count(found[name]) for name in ("users", "items", "repeats", "skipped"))
    if not DATA.fullmatch(found["data"]):
        raise ValueError(f"data is {quoted(found['data'])}")
    ids = {side: _ids(found["ids"][side], length) for side, length in zip(SIDES, (users, items), strict=True)}
    parts = {name: _part(entry, users, items) for name, entry in found["parts"].items()}
    names = tuple(parts)
    if names != (WHOLE,) and not (names[:1] == (TRAIN,) and set(names) <= set(PARTS[1:])):
        raise ValueError(f"the parts are {quoted(names)}")
    return Contents(found["data"], users, items, repeats, skipped, ids, parts, dict(found["made"]))


def _ids(found: dict[str, Any], length: int) -> dict[str, ArrayEntry]:
    entries = {name: _entry(entry) for name, entry in found.items()}
    kinds = {name: entry.dtype for name, entry in entries.items()}
    if kinds not in ID_FIELDS.values():
        raise ValueError(f"ids are {quoted(kinds)}")
    first = next(iter(entries.values()))
    if first.length != length + ("text" in entries):
        raise ValueError(f"{first.length} ids, not {length}")
    return entries


def _part(found: dict[str, Any], users: int, items: int) -> PartEntry:
    rows = _count(found["rows"])
    arrays = {name: _entry(entry) for name, entry in found["arrays"].items()}
    lengths = {"indptr": users + 1, "item_degree": items}
    for name in (*FIELDS, *arrays):
        known = (FIELDS[name],) if name in FIELDS else OPTIONAL[name]
        if arrays[name].dtype not in known or arrays[name].length != lengths.get(name, rows):
            raise ValueError(f"{name} is {arrays[name].dtype} of {arrays[name].length}")
    return PartEntry(rows, str(found["fingerprint"]), arrays)


def _entry(found: dict[str, Any]) -> ArrayEntry:
    return ArrayEntry(str(found["dtype"]), _count(found["length"]), tuple(map(str, found["sha256"])))


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 48:
        raise ValueError(f"{quoted(value)} is no count")
    return value
