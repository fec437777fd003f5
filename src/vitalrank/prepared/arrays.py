"""Arrays in files: written piece by piece, mapped into memory, and verified block by block as they are first read."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tokenize import TokenError
from types import TracebackType
from typing import Self

import numpy as np

from vitalrank._util.display import first_line, printable
from vitalrank._util.typing import Array
from vitalrank.errors import StorageError
from vitalrank.prepared.layout import ArrayEntry

BLOCK = 1 << 25  # bytes under one digest; of every type a whole number of values
_HEADER = 128  # bytes of a header, padded so that the length can be filled in at the end
_MAGIC = b"\x93NUMPY\x01\x00"
PieceCheck = Callable[[Array, int, int], bool]  # whether an array holds what it may between two places


class ArrayWriter:
    """Writes a ``.npy`` file of one dimension, of which only a block is held in memory.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.npy"
    >>> with ArrayWriter(path, "<i4") as writer:
    ...     for piece in ([1, 2], [3]):
    ...         writer.append(np.array(piece))
    >>> np.load(path), writer.entry().length
    (array([1, 2, 3], dtype=int32), 3)
    """

    def __init__(self, path: Path, dtype: str) -> None:
        self.dtype = np.dtype(dtype)
        self.length = 0
        self._digests: list[str] = []
        self._block, self._room = hashlib.sha256(), BLOCK
        self._file = path.open("wb")
        self._file.write(bytes(_HEADER))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def append(self, values: Array) -> None:
        """Add values at the end."""
        typed = np.ascontiguousarray(values, self.dtype)
        self.length += len(typed)
        data = memoryview(typed.view(np.uint8).data)
        self._file.write(data)
        while len(data) >= self._room:
            self._block.update(data[: self._room])
            data = data[self._room :]
            self._digests.append(self._block.hexdigest())
            self._block, self._room = hashlib.sha256(), BLOCK
        self._block.update(data)
        self._room -= len(data)

    def close(self) -> None:
        """Write the header and force the file to disk."""
        if self._file.closed:
            return
        if self._room < BLOCK:
            self._digests.append(self._block.hexdigest())
        text = f"{{'descr': '{self.dtype.str}', 'fortran_order': False, 'shape': ({self.length},), }}"
        header = text.encode().ljust(_HEADER - len(_MAGIC) - 3) + b"\n"
        with self._file as file:
            file.seek(0)
            file.write(_MAGIC + len(header).to_bytes(2, "little") + header)
            file.flush()
            os.fsync(file.fileno())

    def entry(self) -> ArrayEntry:
        """What ``prepared.json`` says of it, once it is closed."""
        return ArrayEntry(self.dtype.str, self.length, tuple(self._digests))


class MappedArray:
    """A file of :class:`ArrayWriter` mapped into memory; what is changed there never reaches the file.

    Mapped as writable: compiled kernels tell arrays that may not be written from those that may, and would be compiled
    once more.
    """

    def __init__(self, path: Path, entry: ArrayEntry, check: PieceCheck | None = None) -> None:
        self.path = path
        self._entry = entry
        self._check = check
        self._verified: set[int] = set()
        self.values = self._mapped()

    def _mapped(self) -> Array:
        try:
            if not self._entry.length:
                return np.zeros(0, self._entry.dtype)
            found: Array = np.asarray(np.load(self.path, mmap_mode="c", allow_pickle=False))
        except FileNotFoundError as error:
            raise StorageError(f"{printable(self.path)}: missing; prepare the log again.") from error
        except (OSError, ValueError, EOFError, SyntaxError, TokenError) as error:  # NumPy parses a header as Python
            raise self._damaged(f"not an array ({first_line(error)})") from error
        if found.shape != (self._entry.length,) or found.dtype != self._entry.dtype:
            raise self._damaged(f"holds {found.dtype} {found.shape}, not {self._entry.dtype} ({self._entry.length},)")
        return found

    def between(self, first: int, last: int) -> Array:
        """The values from ``first`` to ``last``, of which every block was verified once."""
        blocks = [number for number in self._blocks(first, last) if number not in self._verified]
        if len(blocks) > 1:
            with ThreadPoolExecutor(min(len(blocks), os.cpu_count() or 1)) as threads:
                list(threads.map(self._verify, blocks))
        elif blocks:
            self._verify(blocks[0])
        self._verified.update(blocks)
        return self.values[first:last]

    def whole(self) -> Array:
        """All values, verified."""
        return self.between(0, self._entry.length)

    @property
    def is_verified(self) -> bool:
        """Whether every block was."""
        return len(self._verified) == len(self._entry.sha256)

    def _blocks(self, first: int, last: int) -> Iterator[int]:
        size = self.values.itemsize
        return iter(range(first * size // BLOCK, -(-last * size // BLOCK)) if last > first else ())

    def _verify(self, number: int) -> None:
        """One pass over a block, for the digest and for what the values may be."""
        size = BLOCK // self.values.itemsize
        first, last = number * size, min((number + 1) * size, len(self.values))
        piece = self.values[first:last]
        known = self._entry.sha256
        if number >= len(known) or hashlib.sha256(piece.view(np.uint8).data).hexdigest() != known[number]:
            raise self._damaged("changed since it was written")
        if self._check is not None and not self._check(self.values, first, last):
            raise self._damaged("holds values that no log has")

    def _damaged(self, what: str) -> StorageError:
        return StorageError(f"{printable(self.path)}: {what}; prepare the log again.")
