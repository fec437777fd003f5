"""Lists of items as the command line reads and shows them: files of ids and histories, filters, picks."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vitalrank._util.display import printable
from vitalrank.cli.output import print_json

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vitalrank.models.base import Recommender
    from vitalrank.serving import ItemTable

_WHOLE = re.compile(r"-?[0-9]{1,20}")  # what 64 bits hold, not all that Python calls a digit


def filters_of(
    model: Recommender,
    names: Path | None,
    items: Path | None,
    exclude_items: Path | None,
    within: Sequence[str] | None,
    seen: bool = False,
) -> tuple[Any, dict[str, Any]]:
    """The item table and the filters that were typed, as the library takes them."""
    import vitalrank as vr

    table = None if names is None else vr.serving.ItemTable.read(names)
    files = {"items": items, "exclude_items": exclude_items}
    filters: dict[str, Any] = {
        key: [id_like(model.train.item_ids, one) for _, one in _lines(path)]
        for key, path in files.items()
        if path is not None
    }
    if within:
        if table is None:
            raise vr.SettingError("--within needs the table that has the column: give --names.")
        pairs = [one.partition("=") for one in within]
        bare = [column for column, equals, _ in pairs if not equals]
        if bare and len(pairs) > 1:
            raise vr.SettingError("--within without a value stands alone; give values to all columns, or one column.")
        values: dict[str, list[str]] = {}
        for column, _, value in pairs:
            values.setdefault(column, []).append(value)
        filters |= {"within": bare[0] if bare else values, "table": table}
    return table, {**filters, "seen": True} if seen else filters


def _lines(path: Path) -> list[tuple[int, str]]:
    """The lines of a file that hold something, with their numbers from 1."""
    from vitalrank.errors import DataError

    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise DataError(f"{printable(path)}: no such file; give a text file in UTF-8.") from error
    except (OSError, UnicodeError) as error:
        raise DataError(
            f"{printable(path)}: cannot be read ({type(error).__name__}); give a text file in UTF-8."
        ) from error
    return [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1) if line.strip()]


def read_histories(path: Path, ids: NDArray[Any]) -> dict[int, list[Any]]:
    """The history on each line of a file, by the number of the line; empty lines hold none."""
    import json as json_format

    from vitalrank.errors import DataError

    found: dict[int, list[Any]] = {}
    for number, line in _lines(path):
        if not line.startswith("["):
            found[number] = [id_like(ids, one) for one in re.split(r"[\s,]+", line) if one]
            continue
        try:
            history = json_format.loads(line)
            if not all(isinstance(one, str | int) and not isinstance(one, bool) for one in history):
                raise ValueError("ids are texts or whole numbers")
            found[number] = [id_like(ids, str(one)) for one in history]
        except (ValueError, RecursionError) as error:
            raise DataError(f"{printable(path)}, line {number}: not a JSON list of item ids; mend the line.") from error
    if not found:
        raise DataError(f"{printable(path)}: holds no history; write the item ids of one person on each line.")
    return found


def picks_of(ids: NDArray[Any], scores: NDArray[Any], table: ItemTable | None) -> list[dict[str, Any]]:
    """Items with their scores; the places that a list longer than the items left has at its end are dropped."""
    pairs = zip(ids.tolist(), scores.tolist(), strict=True)
    picks = [{"item": item, "score": score} for item, score in pairs if score > -math.inf]
    if table is not None:
        for pick, name in zip(picks, table.names([pick["item"] for pick in picks]), strict=True):
            pick["name"] = name
    return picks


def print_lists(
    names: Iterable[Any], found: tuple[Any, Any], table: ItemTable | None, json: bool, bare: bool = False
) -> None:
    """A list for each name, of the items and scores that were found."""
    rows = zip(names, *found, strict=True)
    lists = {str(name): picks_of(ids, scores, table) for name, ids, scores in rows}
    if json:
        print_json(lists)
        return
    for who, picks in lists.items():
        if not bare:
            print(f"{printable(who)}:")
        print_picks(picks)


def print_picks(picks: list[dict[str, Any]]) -> None:
    for place, pick in enumerate(picks, 1):
        name = f"  {printable(pick['name'])}" if pick.get("name") else ""
        print(f"  {place:>3}  {printable(pick['item'])}  {pick['score']:.4f}{name}")


def id_like(ids: NDArray[Any], text: str) -> int | str:
    """What was typed, in the type of the log's ids."""
    import numpy as np

    is_number = np.issubdtype(ids.dtype, np.integer) and _WHOLE.fullmatch(text)
    return int(text) if is_number else text
