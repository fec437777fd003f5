"""The first pass: rows as the readers give them, written to disk in runs whose ids are sorted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vitalrank._util.typing import Array
from vitalrank.interactions.encoding import Codes
from vitalrank.readers.collecting import Chunk, Collector

_ROW = 24  # bytes of a collected row: two ids, time, weight


@dataclass(frozen=True)
class Run:
    """Consecutive rows of the log on disk, their ids numbered among themselves."""

    folder: Path
    number: int
    rows: int
    columns: tuple[str, ...]  # of users, items, times, weights
    is_text: dict[str, bool]  # side -> whether its ids are text

    def load(self, column: str) -> Array:
        """A column of all rows."""
        array: Array = np.load(self._path(column), allow_pickle=False)
        return array

    def ids(self, side: str) -> pa.Array:
        """The sorted distinct ids of a side, mapped."""
        with pa.memory_map(str(self._path(side, "ids"))) as file:
            return pa.ipc.open_file(file).get_batch(0).column(0)

    def map_path(self, side: str) -> Path:
        """Where the internal ids of its ids go, in their order."""
        return self._path(side, "map")

    def remove(self) -> None:
        """Free the disk."""
        for path in self.folder.glob(f"run-{self.number:06}.*"):
            path.unlink()

    def _path(self, name: str, kind: str = "npy") -> Path:
        return self.folder / f"run-{self.number:06}.{name}.{kind}"

    @classmethod
    def save(cls, folder: Path, number: int, chunk: Chunk) -> Run:
        """Write a chunk."""
        columns: dict[str, Codes | Array | None] = {"users": chunk.users, "items": chunk.items}
        columns |= {"times": chunk.times, "weights": chunk.weights}
        given = {name: array for name, array in columns.items() if array is not None}
        sides = {"users": chunk.user_ids, "items": chunk.item_ids}
        is_text = {side: isinstance(ids, pa.Array) for side, ids in sides.items()}
        run = cls(folder, number, len(chunk.users), tuple(given), is_text)
        for name, array in given.items():
            np.save(run._path(name), array, allow_pickle=False)
        for side, ids in sides.items():
            spill_ids(run._path(side, "ids"), ids)
        return run


class SpillingCollector(Collector):
    """Collects rows as for a log in memory, and writes a run whenever they have taken so many bytes."""

    def __init__(self, skip: bool, folder: Path, limit: int) -> None:
        super().__init__(skip)
        self.runs: list[Run] = []
        self._folder, self._limit, self._held = folder, limit, 0

    def _append(
        self, users: pa.Array, items: pa.Array, times: NDArray[Any] | None, weights: NDArray[Any] | None
    ) -> None:
        super()._append(users, items, times, weights)
        self._held += _ROW * len(users) + _dictionary_bytes(users) + _dictionary_bytes(items)
        if self._held >= self._limit:
            self.spill()

    def spill(self) -> None:
        """Write what is held, if anything is."""
        if not self._held:
            return
        self.runs.append(Run.save(self._folder, len(self.runs), self.take()))
        self._held = 0
        pa.default_memory_pool().release_unused()


def spill_ids(path: Path, ids: pa.Array | Array) -> None:
    """Write ids so that they can be mapped; text with offsets of 64 bits."""
    column = ids if isinstance(ids, pa.Array) else pa.array(ids)
    if not pa.types.is_integer(column.type):
        column = column.cast(pa.large_string())
    batch = pa.record_batch([column], ["ids"])
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)


def _dictionary_bytes(batch: object) -> int:
    return int(batch.dictionary.nbytes) if isinstance(batch, pa.DictionaryArray) else 0
