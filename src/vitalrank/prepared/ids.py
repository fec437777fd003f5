"""Original ids in files: numbers as they are, text as Arrow lays it out, offsets and bytes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vitalrank._util.display import first_line, printable
from vitalrank.errors import StorageError
from vitalrank.prepared.arrays import ArrayWriter, MappedArray
from vitalrank.prepared.layout import ID_FIELDS, ArrayEntry

Ids = NDArray[Any]


class IdWriter:
    """Writes the ids of one side, a piece at a time.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> writer = IdWriter(folder, "users", is_text=True)
    >>> writer.append(pa.array(["ann", "bob"]))
    >>> MappedIds(folder, "users", writer.close()).between(1, 2)
    array(['bob'], dtype=object)
    """

    def __init__(self, folder: Path, side: str, is_text: bool) -> None:
        kinds = ID_FIELDS["text" if is_text else "int"]
        self.length = 0
        self._is_text, self._end = is_text, 0
        self._writers = {name: ArrayWriter(folder / f"{side}.{name}.npy", kind) for name, kind in kinds.items()}
        if is_text:
            self._writers["offsets"].append(np.zeros(1, np.int64))

    def append(self, ids: Ids | pa.Array) -> None:
        """Add ids at the end: numbers, or strings as an Arrow array or as objects."""
        self.length += len(ids)
        if not self._is_text:
            self._writers["ids"].append(np.asarray(ids))
            return
        text = ids.cast(pa.large_string()) if isinstance(ids, pa.Array) else pa.array(ids, pa.large_string())
        _, offsets, data = text.buffers()
        bounds = np.frombuffer(offsets, np.int64, len(text) + 1, 8 * text.offset)
        self._writers["offsets"].append(bounds[1:] - bounds[0] + self._end)
        self._end += int(bounds[-1] - bounds[0])
        if data is not None:
            self._writers["text"].append(np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]])

    def close(self) -> dict[str, ArrayEntry]:
        """Close the files; what ``prepared.json`` says of them."""
        for writer in self._writers.values():
            writer.close()
        return {name: writer.entry() for name, writer in self._writers.items()}


class MappedIds:
    """The ids of one side, of which a range can be taken."""

    def __init__(self, folder: Path, side: str, entries: Mapping[str, ArrayEntry]) -> None:
        self._arrays = {name: MappedArray(folder / f"{side}.{name}.npy", entry) for name, entry in entries.items()}
        self.is_text = "text" in entries
        first = next(iter(entries.values()))
        self.length = first.length - self.is_text

    def between(self, first: int, last: int) -> Ids:
        """Original ids as a log has them: int64, or strings as objects; distinct."""
        ids = self._text_between(first, last) if self.is_text else self._arrays["ids"].between(first, last)
        if not (ids[1:] > ids[:-1]).all() and len(pa.array(ids).unique()) < len(ids):
            raise StorageError(f"{self._path}: ids repeat; prepare the log again.")
        return ids

    @property
    def _path(self) -> str:
        return printable(self._arrays["text" if self.is_text else "ids"].path)

    def _text_between(self, first: int, last: int) -> Ids:
        bounds = self._arrays["offsets"].between(first, last + 1)
        text = self._arrays["text"]
        if bounds[0] < 0 or bounds[-1] > len(text.values) or (np.diff(bounds) < 0).any():
            raise StorageError(f"{self._path}: the offsets of the ids are no offsets; prepare the log again.")
        data = text.between(int(bounds[0]), int(bounds[-1]))
        buffers = [None, pa.py_buffer(np.ascontiguousarray(bounds - bounds[0])), pa.py_buffer(data)]
        column = pa.Array.from_buffers(pa.large_string(), last - first, buffers)
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            raise StorageError(f"{self._path}: holds no text ({first_line(error)}); prepare the log again.") from error
        ids: Ids = column.to_numpy(zero_copy_only=False)
        return ids
