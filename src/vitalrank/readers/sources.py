"""Bytes of a file in blocks of whole lines: unpacked, read ahead on a thread, counted."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from shutil import copyfileobj
from tempfile import NamedTemporaryFile, TemporaryDirectory
from types import TracebackType
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa

from vitalrank._util.display import printable
from vitalrank.errors import DataError
from vitalrank.readers.lines import Block
from vitalrank.readers.stores import StoredFile, unreadable

BLOCK = 1 << 22
LONGEST_LINE = 1 << 26
PARQUET = b"PAR1"
PACKED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
NOT_TEXT = {
    b"PK\x03\x04": "a zip archive; unpack it first (a workbook, such as .xlsx: save it as CSV)",
    b"BZh": "packed with bzip2; unpack it first",
    b"\xfd7zXZ": "packed with xz; unpack it first",
    b"ARROW1": "an Arrow file; save it as Parquet",
    b"\x89HDF": "an HDF5 file; save it as Parquet",
}


@contextmanager
def as_file(path: Path | str | StoredFile) -> Iterator[Path | StoredFile]:
    """The file itself, or a copy of what comes through a pipe or from a web address, which is read only once."""
    if isinstance(path, StoredFile):
        if not magic(path, 1):
            raise DataError(f"{printable(path)} is empty.")
        yield path
        return
    if isinstance(path, str):
        with TemporaryDirectory(prefix="vitalrank-") as folder:
            yield _fetched(path, Path(folder))
        return
    if not path.is_fifo():
        check_file(path)
        yield path
        return
    with NamedTemporaryFile(prefix="vitalrank-") as copy:
        try:
            with path.open("rb") as pipe:
                copyfileobj(pipe, copy)
            copy.flush()
        except OSError as error:
            raise DataError(
                f"{printable(path)}: cannot be copied to {copy.name} ({error.strerror}); save the log as a file."
            ) from error
        check_file(Path(copy.name), str(path))
        yield Path(copy.name)


def _fetched(url: str, folder: Path) -> Path:
    """A web address as a file in a folder, under the name that the address ends in."""
    from vitalrank._util.downloads import download  # urllib is slow to import

    try:
        name = unquote(urlsplit(url).path).rpartition("/")[2]
    except ValueError as error:
        raise DataError(f"{printable(url, 200)}: no web address ({error}); mend it.") from error
    suffixes = "".join(Path(printable(name)).suffixes[-2:])[-40:].replace("/", "")  # all that matters of it
    target = download(url, folder / f"log{suffixes}", is_kept=False)
    check_file(target, url)
    return target


def check_file(path: Path, name: str | None = None) -> None:
    """Refuse what cannot be a log at all."""
    name = printable(name or path)
    if path.is_dir():
        raise DataError(f"{name} is a folder; name a file in it.")
    if not path.exists():
        raise DataError(f"{name}: no such file.")
    if not path.is_file():
        raise DataError(f"{name} is no regular file; save the log as a file and name that.")
    try:
        size = len(magic(path, 1))
    except OSError as error:
        raise DataError(f"{name}: cannot be read ({error.strerror}).") from error
    if not size:
        raise DataError(f"{name} is empty.")


def open_file(path: Path | StoredFile) -> pa.NativeFile:
    """A file for pyarrow, whatever the bytes of its name."""
    return path.open() if isinstance(path, StoredFile) else pa.OSFile(os.fsencode(path))


def magic(path: Path | StoredFile, size: int = 4) -> bytes:
    with path.open() if isinstance(path, StoredFile) else path.open("rb") as file:
        return bytes(file.read(size))


class TextSource:
    """A text file, packed or not, as blocks that end at a line's end."""

    def __init__(self, path: Path | StoredFile, name: str | None = None) -> None:
        self.name = printable(name or path)  # for errors
        start = magic(path, 8)
        packing = next((name for mark, name in PACKED.items() if start.startswith(mark)), None)
        for mark, what in NOT_TEXT.items():
            if start.startswith(mark):
                raise DataError(f"{self.name} is {what}.")
        self._packing = packing
        self._is_stored = isinstance(path, StoredFile)
        self._stream: pa.NativeFile = pa.input_stream(open_file(path), compression=packing)
        self._threads = ThreadPoolExecutor(1)

    def __enter__(self) -> TextSource:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._threads.shutdown()
        self._stream.close()

    def __iter__(self) -> Iterator[Block]:
        line, rest = 1, b""
        coming = self._threads.submit(self._read)
        while data := coming.result():
            coming = self._threads.submit(self._read)
            if line == 1 and not rest:
                data = self._first(data)
            data = rest + data if rest else data
            cut = last_line_end(data)
            if not cut and len(data) > 4 * BLOCK:
                cut = self._forced_cut(data, line)
            block, rest = (data[:cut], data[cut:]) if cut < len(data) else (data, b"")
            if block:
                yield Block(block, line)
                line += int(np.count_nonzero(np.frombuffer(block, np.uint8) == ord("\n")))  # twice as fast as count
        if rest:
            yield Block(rest, line)

    def _read(self) -> bytes:
        try:
            data: bytes = self._stream.read(BLOCK)
        except OSError as error:
            if self._is_stored:
                raise unreadable(self.name, error) from error
            what = f"the {self._packing} data are cut short or damaged" if self._packing else "cannot be read"
            raise DataError(f"{self.name}: {what}; fetch the file again.") from error
        return data

    def _forced_cut(self, data: bytes, line: int) -> int:
        """A quote that is never closed must not make us hold the whole file."""
        cut = data.rfind(b"\n") + 1
        if not cut and len(data) > LONGEST_LINE:
            raise DataError(f"{self.name}, line {line}: no end within {len(data):,} bytes; give text with line ends.")
        return cut

    def _first(self, data: bytes) -> bytes:
        if b"\x00" in data[:65536]:
            raise DataError(f"{self.name} is a binary file (or UTF-16 text); give text in UTF-8, or Parquet.")
        return data.removeprefix(b"\xef\xbb\xbf")


def last_line_end(data: bytes, end: int | None = None) -> int:
    """Just past the last newline that is not inside a quoted field; 0 when there is none."""
    cut = data.rfind(b"\n", 0, end) + 1
    if data.count(b'"', 0, cut) % 2:
        # The cut lies inside a quoted field: go back before the quote that opens it.
        cut = data.rfind(b"\n", 0, data.rfind(b'"', 0, cut)) + 1
    return cut
