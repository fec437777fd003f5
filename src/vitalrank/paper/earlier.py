"""Fill gaps of a study with the data of an earlier one; every such figure is marked."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy

from vitalrank.paper.experiment import Data
from vitalrank.paper.methods import METHODS, MODEL_LABELS
from vitalrank.paper.quality import standings

MARK = "‡"
_HOLDERS = ("rows", *MODEL_LABELS)  # levels between a log and its methods


def fill_in(data: Data, past: Data) -> Data:
    """The data of an experiment, with the methods it lacks taken from an earlier study's data of it.

    Each of them says which command made it and has its place in the order, but VINS is compared with those of this
    study alone: the runs it came of may be gone.

    Examples
    --------
    >>> uni, dns = {"label": "Uni", "seconds": 3.0}, {"label": "DNS", "seconds": 2.0}
    >>> past = {"logs": {"a": {"uni": uni, "dns": dns}}, "facts": {"command": "old"}}
    >>> fill_in({"logs": {"a": {"uni": {"label": "Uni", "seconds": 1.0}}}}, past)["logs"]["a"]
    {'uni': {'label': 'Uni', 'seconds': 1.0}, 'dns': {'label': 'DNS', 'seconds': 2.0, 'earlier': 'old'}}
    """
    filled = deepcopy(data)
    for log, found in filled["logs"].items():
        _fill(found, past["logs"].get(log, {}), past["facts"]["command"])
        if "rows" in found:
            placed = standings(found["rows"])
            found.update({name: placed[name] for name in ("order", "order_on_valid")})
    return filled


def _fill(found: Data, past: Data, command: str) -> None:
    for name, was in past.items():
        if name in METHODS and _is_missing(found.get(name)) and _is_row(was):
            found[name] = {**was, "earlier": was.get("earlier", command)}
        elif name in _HOLDERS:
            _fill(found.setdefault(name, {}), was, command)
    ordered = [name for name in METHODS if name in found]
    for name in ordered:  # as if all had been run now
        found[name] = found.pop(name)


def _is_missing(row: Data | None) -> bool:
    return not row or row.get("metrics", row) is None


def _is_row(found: Data) -> bool:
    """Whether it is a finished line of a table; what has no label is a curve or a set of cells, and is run anew."""
    return "label" in found and not _is_missing(found)


def mark_of(row: Data) -> str:
    """The mark after a figure of an earlier study."""
    return MARK if row.get("earlier") else ""


def label_of(row: Data) -> str:
    """A method's name, marked if its figures are of an earlier study."""
    return f"{row['label']}{mark_of(row)}"


def earlier_note(data: Data) -> str:
    """What the mark means, if there is one; the commands that made such figures."""
    commands = dict.fromkeys(_commands(data["logs"]))
    made = " and ".join(f"`{command}`" for command in commands)
    said = f"{MARK}: of an earlier study, not compared with the VINS of this one; made by {made}"
    return f"{said}, in the version of its day." if commands else ""


def _commands(found: object) -> Iterator[str]:
    if isinstance(found, dict):
        if "earlier" in found:
            yield found["earlier"]
        for inner in found.values():
            yield from _commands(inner)
