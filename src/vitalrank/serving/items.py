"""A table of items beside the log: names for people, and columns to filter by."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from vitalrank._util.display import listed, printable, quoted
from vitalrank.errors import DataError, SettingError
from vitalrank.interactions import Interactions
from vitalrank.interactions.columns import ITEM_NAMES, normalized

NAME_COLUMNS = ("name", "itemname", "title", "label", "description", "productname")
_ID_COLUMNS = ("id", *ITEM_NAMES)


@dataclass(frozen=True)
class ItemTable:
    """Columns of text about items, one row per item; a value that is missing is ``""``.

    Parameters
    ----------
    ids
        Item ids, as in the log or as text.
    columns
        Name -> one text per id.
    name
        The column that holds the names of the items; None where there is none.

    Examples
    --------
    >>> table = ItemTable(["7", "8"], {"title": ["Alien", "Heat"], "genre": ["SF", "Crime"]}, name="title")
    >>> table.names([8, 9])
    ['Heat', '']
    """

    ids: Sequence[str | int]
    columns: Mapping[str, Sequence[str]]
    name: str | None = None

    def __post_init__(self) -> None:
        for name, texts in self.columns.items():
            if len(texts) != len(self.ids):
                raise SettingError(f"column {quoted(name)} has {len(texts):,} values for {len(self.ids):,} ids.")

    @classmethod
    def read(cls, path: str | os.PathLike[str], item: str | None = None, name: str | None = None) -> ItemTable:
        """Read ``.csv``, ``.tsv`` (also ``.gz``) or ``.parquet`` with a header.

        Parameters
        ----------
        item, name
            The columns of ids and names; None looks for a well-known name (``item_id``, ``title``, ...), and takes the
            first column for the ids where there is none.
        """
        where = printable(path)
        table = _read(Path(path), where)
        headers = table.column_names
        if len(set(headers)) < len(headers) or not headers:
            raise DataError(f"{where}: columns need names, each its own; it has {listed(headers)}.")
        key = _column(item, headers, _ID_COLUMNS, where) or headers[0]
        texts = {header: _texts(table[header]) for header in headers}
        others = {header: column for header, column in texts.items() if header != key}
        return cls(texts[key], others, _column(name, list(others), NAME_COLUMNS, where))

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {str(one): row for row, one in reversed(list(enumerate(self.ids)))}  # the first of an id counts

    def names(self, items: Sequence[Any] | NDArray[Any]) -> list[str]:
        """The name of each item (an original id), ``""`` where none is known."""
        return [""] * len(items) if self.name is None else self.values(self.name, items)

    def values(self, column: str, items: Iterable[Any]) -> list[str]:
        """The text of each item in a column."""
        texts = self._texts_of(column)
        rows = (self._rows.get(str(item)) for item in items)
        return ["" if row is None else texts[row] for row in rows]

    def _texts_of(self, column: str) -> Sequence[str]:
        if column not in self.columns:
            raise SettingError(f"no column {quoted(column)} in the item table; it has {listed(self.columns)}.")
        return self.columns[column]

    def codes(self, column: str, log: Interactions) -> tuple[NDArray[np.int64], list[str]]:
        """The value of each item of a log as a number, -1 where it has none, and the values by number."""
        found = np.array(self.values(column, log.item_ids.tolist()), dtype=object)
        values, codes = np.unique(found.astype(str), return_inverse=True)
        known = values.tolist()
        if known[0] == "":  # no value is no category
            return codes.astype(np.int64) - 1, known[1:]
        return codes.astype(np.int64), known


def _read(path: Path, where: str) -> pa.Table:
    try:
        if path.suffix == ".parquet":
            return pq.read_table(path)
        stem = path.stem if path.suffix in (".gz", ".zst") else path.name
        parse = pv.ParseOptions(delimiter="," if stem.endswith(".csv") else "\t", quote_char='"')
        with pa.input_stream(str(path), compression="detect") as stream:
            block = pv.ReadOptions(use_threads=False)
            headers = pv.open_csv(stream, block, parse).schema.names
        types = pv.ConvertOptions(column_types=dict.fromkeys(headers, pa.string()), strings_can_be_null=False)
        with pa.input_stream(str(path), compression="detect") as stream:
            return pv.read_csv(stream, block, parse, types)
    except FileNotFoundError as error:
        raise DataError(f"{where}: no such file; give a table of items.") from error
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = printable(str(error).splitlines()[0], 200)
        raise DataError(f"{where}: not a table of items ({reason}); give .csv, .tsv or .parquet.") from error


def _column(wanted: str | None, headers: list[str], known: Sequence[str], where: str) -> str | None:
    if wanted is not None:
        if wanted not in headers:
            raise DataError(f"{where}: no column {quoted(wanted)}; it has {listed(headers)}.")
        return wanted
    return next((header for name in known for header in headers if normalized(header) == name), None)


def _texts(column: pa.ChunkedArray) -> list[str]:
    texts = column if pa.types.is_string(column.type) else pc.cast(column, pa.string())
    return ["" if text is None else text for text in texts.to_pylist()]
