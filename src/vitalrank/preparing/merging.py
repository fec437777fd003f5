"""The second pass: the sorted ids of all runs become the internal ids of the log, a range of ids at a time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vitalrank.errors import DataError
from vitalrank.interactions.encoding import arrow_sorted, numbers_of
from vitalrank.preparing.budget import Budget
from vitalrank.preparing.scanning import Run, spill_ids

_SAMPLES = 64  # ids that are looked at in a run for each range of ids
_MOST = 2**31 - 2  # internal ids are int32


class MergedIds:
    """The distinct ids of a side in order, in pieces on disk."""

    def __init__(self, folder: Path, side: str) -> None:
        self._folder, self._side = folder, side
        self._pieces = 0
        self.length = 0

    def __iter__(self) -> Iterator[pa.Array]:
        for number in range(self._pieces):
            with pa.memory_map(str(self._path(number))) as file:
                yield pa.ipc.open_file(file).get_batch(0).column(0)

    def append(self, ids: pa.Array) -> None:
        """Add ids after all others."""
        spill_ids(self._path(self._pieces), ids)
        self._pieces += 1
        self.length += len(ids)
        if self.length > _MOST:
            raise DataError(f"more than {_MOST:,} {self._side}; give a part of the log.")

    def _path(self, number: int) -> Path:
        return self._folder / f"{self._side}.{number:06}.ids"


def merge_ids(runs: Sequence[Run], side: str, folder: Path, budget: Budget) -> MergedIds:
    """Merge the ids of all runs; each run gets a map from its own ids to those of the log."""
    merged = MergedIds(folder, side)
    is_text = any(run.is_text[side] for run in runs)
    sources = [_Source(run, side, is_text) for run in runs]
    widths = [source.ids.nbytes / max(1, len(source.ids)) for source in sources]
    size = budget.ids(max(widths))
    for bound in [*_bounds(sources, size), None]:
        pieces = [source.until(bound) for source in sources]
        encoded = pa.chunked_array(pieces).combine_chunks().dictionary_encode()
        ids, codes = arrow_sorted(encoded)
        ends = np.cumsum([len(piece) for piece in pieces])
        for source, own in zip(sources, np.split(codes, ends[:-1]), strict=True):
            source.note(own + np.int32(merged.length))
        if len(ids):
            merged.append(ids)
    for source in sources:
        source.finish()
    return merged


class _Source:
    """The sorted ids of a run, taken range by range, and the internal ids they get."""

    def __init__(self, run: Run, side: str, is_text: bool) -> None:
        self.ids = run.ids(side)
        self._path = run.map_path(side)
        self._order: NDArray[Any] | None = None
        if is_text and not run.is_text[side]:  # numbers of the first rows, before there were other ids
            texts = self.ids.cast(pa.large_string())
            order = pc.sort_indices(texts)
            self.ids, self._order = texts.take(order), numbers_of(order)
        self._taken = 0
        self._file = self._path.open("wb")

    def until(self, bound: int | str | None) -> pa.Array:
        """The ids below a bound that were not taken yet."""
        first = self._taken
        self._taken = len(self.ids) if bound is None else bisect_left(_Values(self.ids), bound, lo=first)
        return self.ids.slice(first, self._taken - first)

    def note(self, codes: NDArray[np.int32]) -> None:
        """What the ids taken last become."""
        np.ascontiguousarray(codes).tofile(self._file)

    def finish(self) -> None:
        self._file.close()
        if self._order is not None:
            codes = np.fromfile(self._path, np.int32)
            back = np.empty_like(codes)
            back[self._order] = codes
            back.tofile(self._path)


class _Values(Sequence[Any]):
    """An Arrow array as Python's bisect takes it: text compares as its UTF-8 bytes do, which is Arrow's order."""

    def __init__(self, ids: pa.Array) -> None:
        self._ids = ids

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, place: Any) -> Any:
        return self._ids[place].as_py()


def _bounds(sources: Sequence[_Source], size: int) -> list[Any]:
    """Ids at which the merged ids are cut, so that about ``size`` of all runs lie between two."""
    total = sum(len(source.ids) for source in sources)
    parts = -(-total // size)
    if parts < 2:
        return []
    samples: list[tuple[Any, int]] = []
    for source in sources:
        step = max(1, size // _SAMPLES)
        values = _Values(source.ids)
        samples += [(values[place], step) for place in range(step // 2, len(values), step)]
    samples.sort(key=lambda sample: sample[0])
    bounds: list[Any] = []
    held = 0
    for value, weight in samples:
        held += weight
        if held >= size and (not bounds or value > bounds[-1]):
            bounds.append(value)
            held = 0
    return bounds
