"""Writing a prepared log: the arrays first, in a folder of their own, ``prepared.json`` last."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vitalrank import __version__
from vitalrank._util.display import first_line, listed, printable
from vitalrank._util.files import write_text
from vitalrank._util.locks import LOCK, only_writer
from vitalrank.errors import DataError, StorageError
from vitalrank.interactions import Interactions
from vitalrank.prepared.arrays import ArrayWriter
from vitalrank.prepared.ids import IdWriter
from vitalrank.prepared.layout import DATA, FIELDS, META, SIDES, ArrayEntry, Contents, PartEntry, is_prepared

_READ = 1 << 22  # bytes


class PreparedWriter:
    """Writes a prepared log user by user, and publishes it when it is whole.

    Everything lies in a new folder inside ``folder``; ``prepared.json`` names it and is replaced last, so that a crash
    leaves the log that was there before, or none, and the next writer clears away what is left over.

    Parameters
    ----------
    folder
        Made if missing. One that holds other things than a prepared log is refused.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        check_folder(self.folder)
        self.arrays = self.folder / f"data-{secrets.token_hex(6)}"
        self._ids: dict[str, IdWriter] = {}
        self._parts: dict[str, _PartWriter] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(only_writer(self.folder))
            check_folder(self.folder)
            with _explained(self.folder):
                _remove_others(self.folder)
                self.arrays.mkdir()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._stack:
            for close in [one.close for one in self._parts.values()] + [one.close for one in self._ids.values()]:
                with suppress(OSError, ValueError):  # a full disk has been reported
                    close()
            if not _is_named(self.folder, self.arrays.name):
                shutil.rmtree(self.arrays, ignore_errors=True)

    def add_ids(self, side: str, ids: NDArray[Any] | pa.Array) -> None:
        """Add original ids of ``"users"`` or ``"items"``, in the order of their internal ids."""
        with _explained(self.folder):
            if side not in self._ids:
                is_text = ids.dtype == object if isinstance(ids, np.ndarray) else not pa.types.is_integer(ids.type)
                self._ids[side] = IdWriter(self.arrays, side, is_text)
            self._ids[side].append(ids)

    def add_rows(self, part: str, log: Interactions) -> None:
        """Add the rows of the next users: a log of them alone, on the item ids of the whole."""
        with _explained(self.folder):
            if part not in self._parts:
                self._parts[part] = _PartWriter(self.arrays, part, log)
            self._parts[part].append(log)

    def publish(self, made: Mapping[str, Any], repeats: int = 0, skipped: int = 0) -> None:
        """Make it the prepared log of the folder."""
        with _explained(self.folder):
            ids = {side: self._ids[side].close() for side in SIDES}
            users, items = (self._ids[side].length for side in SIDES)
            parts = {name: part.close_with(items) for name, part in self._parts.items()}
            entries = {name: self._entry(name, ids, arrays) for name, arrays in parts.items()}
            contents = Contents(self.arrays.name, users, items, repeats, skipped, ids, entries, dict(made))
            write_text(self.folder / META, contents.to_json(__version__))
            _remove_others(self.folder)

    def _entry(
        self, name: str, ids: Mapping[str, Mapping[str, ArrayEntry]], arrays: Mapping[str, ArrayEntry]
    ) -> PartEntry:
        digest = hashlib.blake2b(digest_size=16)  # as LogArrays.fingerprint makes it
        for side in SIDES:
            entries = ids[side]
            first = next(iter(entries.values()))
            kind, length = ("|O", first.length - 1) if "text" in entries else (first.dtype, first.length)
            digest.update(f"{kind}{length}".encode())
            for field in entries:
                _feed(digest, self.arrays / f"{side}.{field}.npy")
        for field in ("indptr", "items", "times", "weights"):
            if field in arrays:
                digest.update(f"{arrays[field].dtype}{arrays[field].length}".encode())
                _feed(digest, self.arrays / f"{name}.{field}.npy")
            elif field == "times":
                digest.update(b"none")
        return PartEntry(arrays["items"].length, digest.hexdigest(), dict(arrays))


class _PartWriter:
    """The arrays of one part."""

    def __init__(self, folder: Path, part: str, log: Interactions) -> None:
        kinds = {name: kind for name, kind in FIELDS.items() if name != "item_degree"}
        if log.times is not None:
            kinds["times"] = log.times.dtype.str
        if log.weights is not None:
            kinds["weights"] = log.weights.dtype.str
        self._folder, self._part = folder, part
        self._writers = {name: ArrayWriter(folder / f"{part}.{name}.npy", kind) for name, kind in kinds.items()}
        self._writers["indptr"].append(np.zeros(1, np.int64))
        self._degree = np.zeros(0, np.int64)

    def append(self, log: Interactions) -> None:
        rows = self._writers["items"].length
        self._writers["indptr"].append(log.indptr[1:] + rows)
        for name, writer in self._writers.items():
            if name != "indptr":
                writer.append(getattr(log, name))
        degree = np.bincount(log.items, minlength=len(self._degree))
        degree[: len(self._degree)] += self._degree
        self._degree = degree

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()

    def close_with(self, n_items: int) -> dict[str, ArrayEntry]:
        with ArrayWriter(self._folder / f"{self._part}.item_degree.npy", FIELDS["item_degree"]) as writer:
            writer.append(np.pad(self._degree, (0, n_items - len(self._degree))))
        self.close()
        return {name: one.entry() for name, one in {**self._writers, "item_degree": writer}.items()}


def check_folder(folder: Path) -> None:
    """Refuse a folder that holds anything but a prepared log, or what an interrupted preparation left."""
    name = printable(folder)
    try:
        if not folder.exists():
            return
        if not folder.is_dir():
            raise StorageError(f"{name}: is a file; give a folder, or one to make.")
        others = [entry.name for entry in folder.iterdir() if entry.name not in (META, LOCK) and not _is_own(entry)]
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(f"{name}: cannot be read ({first_line(error)}); give another folder.") from error
    if others:
        raise StorageError(f"{name}: holds other files ({listed(sorted(others))}); give a new folder.")
    if (folder / META).is_symlink():  # what it leads to would be replaced
        raise StorageError(f"{name}: its {META} is a link, which vitalrank does not make; give a new folder.")
    if is_prepared(folder) and '"format"' not in (folder / META).read_text(encoding="utf-8", errors="replace")[:100]:
        raise StorageError(f"{name}: its {META} was not written by vitalrank; give a new folder.")


def _is_own(entry: Path) -> bool:
    return bool(DATA.fullmatch(entry.name)) or (entry.name.startswith(".vitalrank-") and entry.name.endswith(".part"))


def _is_named(folder: Path, data: str) -> bool:
    try:
        return f'"{data}"' in (folder / META).read_text(encoding="utf-8")
    except OSError:
        return False


def _remove_others(folder: Path) -> None:
    """Remove arrays that ``prepared.json`` does not name, and temporary files; who still maps them keeps them."""
    for entry in folder.iterdir():
        if _is_own(entry) and not _is_named(folder, entry.name):
            shutil.rmtree(entry, ignore_errors=True) if entry.is_dir() else entry.unlink(missing_ok=True)


def _feed(digest: hashlib.blake2b, path: Path) -> None:
    """Add the values of an array's file, without the header."""
    with path.open("rb") as file:
        file.seek(128)
        while piece := file.read(_READ):
            digest.update(piece)


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        reason = f"cannot be written ({first_line(error)}); free space or choose another folder"
        raise StorageError(f"{printable(folder)}: {reason}. Nothing was replaced.") from error


def write_prepared(
    folder: str | os.PathLike[str], parts: Mapping[str, Interactions], made: Mapping[str, Any] | None = None
) -> None:
    """Write the parts of a log in memory as a prepared log."""
    first = next(iter(parts.values()))
    if first.negative_log is not None:
        raise DataError("a prepared log keeps no known negatives; add them with with_negatives once it is opened.")
    with PreparedWriter(folder) as writer:
        writer.add_ids("users", first.user_ids)
        writer.add_ids("items", first.item_ids)
        for name, log in parts.items():
            writer.add_rows(name, log)
        writer.publish(made or {}, first.repeats, first.skipped)
