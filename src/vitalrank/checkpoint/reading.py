"""Reading a model folder, also while a writer replaces it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from safetensors import SafetensorError
from safetensors.numpy import load_file

from vitalrank.checkpoint.ids import read_ids
from vitalrank.checkpoint.jsontext import digest_of_meta
from vitalrank.checkpoint.layout import FORMAT, IDS, META, NEW, TENSORS, Saved, current_path, without_own_keys
from vitalrank.errors import StorageError

_FORBIDDEN = "you may not read this file; ask its owner, or change its mode."
_ATTEMPTS = 100  # while writers keep replacing the folder
_Result = TypeVar("_Result")


def read_folder(path: str | os.PathLike[str]) -> Saved:
    """Read what ``write_folder`` wrote, checking the format and every file's digest.

    A folder that a writer replaces meanwhile is read as it was before or as it is after.

    Raises
    ------
    StorageError
        The folder is missing, of a newer format, truncated, or changed since it was written.

    Examples
    --------
    >>> read_folder("no/such/folder")
    Traceback (most recent call last):
    ...
    vitalrank.errors.StorageError: no/such/folder: no such folder; give one that fit or save() wrote.
    """
    return _undisturbed(Path(path), _read_folder)


def read_meta(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The ``meta`` of a folder alone, without a look at its arrays.

    Examples
    --------
    >>> import tempfile
    >>> from vitalrank.checkpoint import write_folder
    >>> folder = tempfile.mkdtemp() + "/a"
    >>> write_folder(folder, {"class": "Toy"}, {})
    >>> read_meta(folder)
    {'class': 'Toy'}
    """
    return without_own_keys(_undisturbed(Path(path), whole_meta))


def is_saved(path: str | os.PathLike[str]) -> bool:
    """Whether ``read_folder`` has something to read at ``path``; a part of a model is an error.

    Examples
    --------
    >>> is_saved("no/such/folder")
    False
    """
    return _undisturbed(Path(path), _is_saved)


def whole_meta(folder: Path) -> dict[str, Any]:
    """``model.json`` with the keys that are the library's own, checked."""
    with _open_meta(folder) as file:
        return _parse_meta(file, folder / META)


def digest_of_file(file: BufferedReader) -> str:
    """SHA-256 of an open file."""
    file.seek(0)
    return hashlib.file_digest(file, "sha256").hexdigest()


def _undisturbed(folder: Path, read: Callable[[Path], _Result]) -> _Result:
    """Read, again where that failed and a writer changed the folder meanwhile."""
    for attempt in range(_ATTEMPTS):
        before = generation(folder)
        try:
            return read(folder)
        except StorageError:
            if attempt == _ATTEMPTS - 1 or generation(folder) == before:
                raise
        time.sleep(0.001 * min(attempt, 20))
    raise AssertionError("the last attempt returns or raises")


def generation(folder: Path) -> tuple[tuple[int, int, int] | None, ...]:
    """What changes whenever a writer publishes files or moves them."""
    return tuple(_identity(folder / prefix / name) for prefix in ("", NEW) for name in (META, TENSORS, IDS))


def _identity(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _read_folder(folder: Path) -> Saved:
    with contextlib.ExitStack() as stack:
        # All files are opened before any is read: an open file stays what it was although another takes its name.
        meta_file = stack.enter_context(_open_meta(folder))
        opened = {name: _opened(current_path(folder, name), stack) for name in (TENSORS, IDS)}
        meta = _parse_meta(meta_file, folder / META)
        digests = meta["digests"]
        files = {name: _checked(folder / name, file, digests) for name, file in opened.items() if name in digests}
        with _explained(folder / TENSORS):
            tensors = load_file(_path_of(files[TENSORS]))
        ids = None
        if IDS in files:
            with _explained(folder / IDS):
                ids = read_ids(files[IDS])
    return Saved(without_own_keys(meta), tensors, ids)


def _is_saved(folder: Path) -> bool:
    if current_path(folder, META).is_file():
        return True
    for name in (TENSORS, IDS):
        if (folder / name).exists():
            raise StorageError(f"{folder}: holds {name} but no {META}; restore that, or remove the folder.")
    return False


def _open_meta(folder: Path) -> BufferedReader:
    path = folder / META
    try:
        return current_path(folder, META).open("rb")
    except (FileNotFoundError, NotADirectoryError) as error:
        missing = f"no {META} here" if folder.exists() else "no such folder"
        raise StorageError(f"{folder}: {missing}; give one that fit or save() wrote.") from error
    except PermissionError as error:
        raise StorageError(f"{path}: {_FORBIDDEN}") from error
    except (OSError, ValueError) as error:
        raise StorageError(f"{path}: cannot be read ({error}); restore it or save it again.") from error


def _parse_meta(file: BufferedReader, path: Path) -> dict[str, Any]:
    try:
        meta: dict[str, Any] = json.loads(file.read().decode("utf-8"))
    except (OSError, ValueError) as error:
        raise StorageError(f"{path}: not readable as JSON ({error}); restore or save it again.") from error
    except RecursionError as error:
        raise StorageError(f"{path}: nested too deeply; restore or save it again.") from error
    number = meta.get("format") if isinstance(meta, dict) else None
    if not isinstance(number, int) or not isinstance(meta.get("digests"), dict) or TENSORS not in meta["digests"]:
        raise StorageError(f"{path}: not written by vitalrank; give a folder that fit or save() wrote.")
    if number != FORMAT:
        raise StorageError(
            f"{path}: format {number}, written by vitalrank {meta.get('library')}; this version reads "
            f"format {FORMAT}. Install a vitalrank that knows it."
        )
    if not set(meta["digests"]) <= {TENSORS, IDS, META}:
        raise StorageError(f"{path}: names files that a model folder does not have; save it again.")
    if META in meta["digests"] and meta["digests"][META] != digest_of_meta(without_own_keys(meta)):
        raise StorageError(f"{path}: changed since it was written; restore it or save it again.")
    return meta


def _opened(path: Path, stack: contextlib.ExitStack) -> BufferedReader | OSError:
    try:
        return stack.enter_context(path.open("rb"))
    except OSError as error:
        return error  # to be raised if the file belongs to the model


def _checked(path: Path, file: BufferedReader | OSError, digests: dict[str, Any]) -> BufferedReader:
    with _explained(path):
        if isinstance(file, OSError):
            raise file
        found = digest_of_file(file)
    if found != digests[path.name]:
        raise StorageError(f"{path}: truncated or changed since it was written; restore it or save it again.")
    file.seek(0)
    return file


def _path_of(file: BufferedReader) -> str:
    """A path by which an open file can be opened once more, whatever has its name now, where the system has such."""
    path = Path(f"/dev/fd/{file.fileno()}")
    return str(path if path.exists() else file.name)


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise StorageError(f"{path}: missing; restore it or save the model again.") from error
    except PermissionError as error:
        raise StorageError(f"{path}: {_FORBIDDEN}") from error
    except (OSError, SafetensorError, pa.ArrowException, ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise StorageError(f"{path}: not a file of this kind ({error}); restore it or save it again.") from error
