"""Folders on disk: ``model.json``, ``tensors.safetensors`` and ``ids.arrow``, whole or not there at all.

The files are written to a draft inside the folder, forced to disk, and the draft is renamed to ``NEW``: from then on
readers find them there. Then each moves to its own place, and a crash on the way is made good by the next writer. The
folder itself never moves, so that a shell may stand in it and a disk may be mounted there. Nothing is ever pickled,
unpickled or executed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from vitalrank import __version__
from vitalrank._util.locks import LOCK, writing
from vitalrank.errors import StorageError

FORMAT = 1
META = "model.json"
TENSORS = "tensors.safetensors"
IDS = "ids.arrow"
NEW = ".vitalrank.new"  # whole while it holds a META; what it lacks then is in its own place already
_FORBIDDEN = "you may not read this file; ask its owner, or change its mode."
_OWN_KEYS = ("format", "library", "digests")

Ids = tuple[NDArray[Any], NDArray[Any]]


@dataclass(frozen=True)
class Saved:
    """What a folder held: the caller's ``meta``, ``tensors``, and ``(user_ids, item_ids)`` or None."""

    meta: dict[str, Any]
    tensors: dict[str, NDArray[Any]]
    ids: Ids | None


def write_folder(
    path: str | os.PathLike[str],
    meta: Mapping[str, Any],
    tensors: Mapping[str, NDArray[Any]],
    ids: Ids | None = None,
) -> None:
    """Write a folder so that a crash at any moment leaves the old one or the new one, never a mixture.

    Files of other names in a folder that is replaced are kept.

    Parameters
    ----------
    path
        The folder. Missing parents are made.
    meta
        What JSON can hold. The keys ``format``, ``library`` and ``digests`` are the library's own.
    tensors
        Arrays of numbers by name.
    ids
        Original ids of users and of items: integers or strings.

    Raises
    ------
    StorageError
        The disk is full, another process writes there, ...; what was there before is untouched.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp() + "/a"
    >>> write_folder(folder, {"class": "Toy"}, {"table": np.eye(2, dtype=np.float32)})
    >>> read_folder(folder).meta
    {'class': 'Toy'}
    """
    clash = set(meta) & set(_OWN_KEYS)
    if clash:
        raise StorageError(f"{path}: meta may not use the key {min(clash)!r}; choose another name.")
    place = Path(path).resolve()  # a link stays one: what it points at is replaced
    draft = place / f".vitalrank.{uuid.uuid4().hex[:8]}.tmp"  # as _clear_drafts looks for
    with writing(place):
        try:
            _finish_replacing(place)
            _clear_drafts(place)
            draft.mkdir()
            _write_files(draft, meta, tensors, ids)
            _put_in_place(draft, place)
        except (OSError, SafetensorError, pa.ArrowException) as error:
            raise StorageError(
                f"{place}: cannot be written ({error}); nothing was replaced. Free space or choose another folder."
            ) from error
        finally:
            shutil.rmtree(draft, ignore_errors=True)


def read_folder(path: str | os.PathLike[str]) -> Saved:
    """Read what ``write_folder`` wrote, checking the format and every file's digest.

    Raises
    ------
    StorageError
        The folder is missing, of a newer format, truncated, or changed since it was written.

    Examples
    --------
    >>> read_folder("no/such/folder")
    Traceback (most recent call last):
    ...
    vitalrank.errors.StorageError: no/such/folder: no model.json here; give a folder that save() wrote.
    """
    folder = Path(path)
    meta = _read_meta(folder)
    files = {name: _place_of(folder, name) for name in meta["digests"] if name != META}
    for name, place in files.items():
        _check_digest(place, meta["digests"][name])
    with _explained(files[TENSORS]):
        tensors = load_file(files[TENSORS])
    ids = None
    if IDS in files:
        with _explained(files[IDS]):
            ids = _read_ids(files[IDS])
    return Saved(_without_own_keys(meta), tensors, ids)


def read_meta(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The ``meta`` of a folder alone, without a look at its arrays.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp() + "/a"
    >>> write_folder(folder, {"class": "Toy"}, {})
    >>> read_meta(folder)
    {'class': 'Toy'}
    """
    return _without_own_keys(_read_meta(Path(path)))


def is_saved(path: str | os.PathLike[str]) -> bool:
    """Whether ``read_folder`` has something to read at ``path``; a part of a model is an error.

    Examples
    --------
    >>> is_saved("no/such/folder")
    False
    """
    folder = Path(path)
    if _place_of(folder, META).is_file():
        return True
    for name in (TENSORS, IDS):
        if (folder / name).exists():
            raise StorageError(f"{folder}: holds {name} but no {META}; restore that, or remove the folder.")
    return False


def foreign_files(path: str | os.PathLike[str]) -> list[str]:
    """Names in a folder that are no part of a model folder, in order.

    Examples
    --------
    >>> foreign_files("no/such/folder")
    []
    """
    folder = Path(path)
    own = {META, TENSORS, IDS, NEW, LOCK, *(draft.name for draft in _drafts(folder))}
    return sorted(place.name for place in folder.iterdir() if place.name not in own) if folder.is_dir() else []


def remove_folder(path: str | os.PathLike[str]) -> None:
    """Remove a model folder; files of other names stay, and then the folder does, too.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> write_folder(folder, {"class": "Toy"}, {})
    >>> remove_folder(folder)
    >>> folder.exists()
    False
    """
    folder = Path(path)
    _clear_drafts(folder)
    shutil.rmtree(folder / NEW, ignore_errors=True)
    with contextlib.suppress(OSError):  # nothing there, or files of others
        for name in (META, TENSORS, IDS, LOCK):
            (folder / name).unlink(missing_ok=True)
        folder.rmdir()


def to_json(value: Any, **options: Any) -> str:
    """JSON text; numbers and arrays of NumPy count as Python's.

    Examples
    --------
    >>> to_json({"seen": np.int64(3)})
    '{"seen": 3}'
    """
    try:
        return json.dumps(value, default=_plain, **options)
    except TypeError as error:
        raise StorageError(f"{error}; put numbers, text or None there.") from error


def write_tensors(tensors: Mapping[str, NDArray[Any]], path: Path) -> None:
    """Write arrays as one safetensors file that those may read who may read other new files.

    Examples
    --------
    >>> import tempfile
    >>> write_tensors({"table": np.eye(2)}, Path(tempfile.mkdtemp()) / "a.safetensors")
    """
    path.touch()
    mode = path.stat().st_mode  # as the umask says; safetensors would leave the file to its owner alone
    save_file(dict(tensors), path)
    path.chmod(mode)


# ---------------------------------------------------------------------------------------------------- writing


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):  # tensors have it, too
        return value.tolist()
    raise TypeError(f"a value of type {type(value).__name__} is not JSON serializable")


def _write_files(folder: Path, meta: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]], ids: Ids | None) -> None:
    write_tensors({name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}, folder / TENSORS)
    digests = {TENSORS: _digest(folder / TENSORS)}
    if ids is not None:
        _write_ids(folder / IDS, ids)
        digests[IDS] = _digest(folder / IDS)
    digests[META] = _digest_of(meta)
    own = {"format": FORMAT, "library": __version__, "digests": digests}
    (folder / META).write_text(to_json({**own, **meta}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for name in digests:
        _force_to_disk(folder / name)
    _force_to_disk(folder)


def _write_ids(path: Path, ids: Ids) -> None:
    # Users and items differ in number, so each side is one list in a table of one row.
    columns = {}
    for name, values in zip(("users", "items"), ids, strict=True):
        kind = pa.int64() if values.dtype.kind in "iu" else pa.large_string()
        flat = pa.array(values, type=kind)
        columns[name] = pa.LargeListArray.from_arrays(pa.array([0, len(flat)], pa.int64()), flat)
    table = pa.table(columns)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def _force_to_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _put_in_place(draft: Path, place: Path) -> None:
    draft.rename(place / NEW)
    _force_to_disk(place)
    with contextlib.suppress(OSError):  # a parent that may not be read
        _force_to_disk(place.parent)
    with contextlib.suppress(OSError):  # readers find the new files where they are; the next writer tries again
        _finish_replacing(place)


def _finish_replacing(place: Path) -> None:
    """Move new files to their own places, also those that a crash left on the way."""
    new = place / NEW
    if not new.exists():
        return
    if (new / META).exists():
        held = _read_meta(place)["digests"]
        for name in (TENSORS, IDS):
            if (new / name).exists():
                (new / name).replace(place / name)
            elif name not in held:
                (place / name).unlink(missing_ok=True)
        _force_to_disk(place)
        (new / META).replace(place / META)  # last: what is whole must be in place before
        _force_to_disk(place)
    shutil.rmtree(new)


def _clear_drafts(place: Path) -> None:
    """Remove what killed writers left behind."""
    for draft in _drafts(place):
        shutil.rmtree(draft, ignore_errors=True)


def _drafts(place: Path) -> Iterator[Path]:
    return place.glob(f".vitalrank.{'[0-9a-f]' * 8}.tmp")


# ---------------------------------------------------------------------------------------------------- reading


def _place_of(folder: Path, name: str) -> Path:
    """Where a file of a folder is to be read."""
    new = folder / NEW
    return new / name if (new / META).is_file() and (new / name).is_file() else folder / name


def _without_own_keys(meta: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in meta.items() if key not in _OWN_KEYS}


def _read_meta(folder: Path) -> dict[str, Any]:
    path = folder / META
    try:
        path = _place_of(folder, META)
        if not path.is_file():
            raise FileNotFoundError
        meta: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise StorageError(f"{folder}: no {META} here; give a folder that save() wrote.") from error
    except PermissionError as error:
        raise StorageError(f"{path}: {_FORBIDDEN}") from error
    except (OSError, ValueError) as error:
        raise StorageError(f"{path}: not readable as JSON ({error}); restore or save it again.") from error
    number = meta.get("format") if isinstance(meta, dict) else None
    if not isinstance(number, int) or not isinstance(meta.get("digests"), dict) or TENSORS not in meta["digests"]:
        raise StorageError(f"{path}: not written by vitalrank; give a folder that save() wrote.")
    if number != FORMAT:
        raise StorageError(
            f"{path}: format {number}, written by vitalrank {meta.get('library')}; this version reads "
            f"format {FORMAT}. Install a vitalrank that knows it."
        )
    if not set(meta["digests"]) <= {TENSORS, IDS, META}:
        raise StorageError(f"{path}: names files that a model folder does not have; save it again.")
    if META in meta["digests"] and meta["digests"][META] != _digest_of(_without_own_keys(meta)):
        raise StorageError(f"{path}: changed since it was written; restore it or save it again.")
    return meta


def _check_digest(path: Path, expected: str) -> None:
    with _explained(path):
        found = _digest(path)
    if found != expected:
        raise StorageError(f"{path}: truncated or changed since it was written; restore it or save it again.")


def _digest_of(meta: Mapping[str, Any]) -> str:
    """Of what the caller keeps, whatever the order and the spaces."""
    return hashlib.sha256(to_json(meta, sort_keys=True).encode()).hexdigest()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_ids(path: Path) -> Ids:
    with pa.OSFile(str(path), "rb") as source:
        table = pa.ipc.open_file(source).read_all()
    users, items = (table.column(name).chunk(0).values.to_numpy(zero_copy_only=False) for name in ("users", "items"))
    return users, items


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise StorageError(f"{path}: missing; restore it or save the model again.") from error
    except PermissionError as error:
        raise StorageError(f"{path}: {_FORBIDDEN}") from error
    except (OSError, SafetensorError, pa.ArrowException, KeyError, ValueError) as error:
        raise StorageError(f"{path}: not a file of this kind ({error}); restore it or save it again.") from error
