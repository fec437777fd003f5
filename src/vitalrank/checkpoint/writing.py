"""Writing a model folder, so that a crash at any moment leaves the old one or the new one.

The files are written to a temporary folder inside the folder, forced to disk, and that is renamed to ``NEW``: from then
on readers find them there. Then each moves to its own folder, and a crash on the way is made good by the next writer.
The folder itself never moves, so that a shell may stand in it and a disk may be mounted there.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import save_file

from vitalrank import __version__
from vitalrank._util.locks import writing
from vitalrank.checkpoint.ids import write_ids
from vitalrank.checkpoint.jsontext import digest_of_meta, to_json
from vitalrank.checkpoint.layout import FORMAT, IDS, META, NEW, OWN_KEYS, TENSORS, IdPair
from vitalrank.checkpoint.reading import digest_of_file, is_saved, whole_meta
from vitalrank.errors import StorageError

_IS_POSIX = os.name == "posix"
_OURS = re.compile(rb'\s*\{\s*"format"\s*:')  # how every META begins, also a damaged one


def write_folder(
    path: str | os.PathLike[str],
    meta: Mapping[str, Any],
    tensors: Mapping[str, NDArray[Any]],
    ids: IdPair | None = None,
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
        The disk is full, another process writes there, ``model.json`` is somebody else's, ...; what was there before is
        untouched.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp() + "/a"
    >>> write_folder(folder, {"class": "Toy"}, {"table": np.eye(2, dtype=np.float32)})
    >>> from vitalrank.checkpoint import read_folder
    >>> read_folder(folder).meta
    {'class': 'Toy'}
    """
    clash = set(meta) & set(OWN_KEYS)
    if clash:
        raise StorageError(f"{path}: meta may not use the key {min(clash)!r}; choose another name.")
    folder = Path(path).resolve()  # a link stays one: what it points at is replaced
    temporary = new_temporary(folder)
    with writing(folder):
        try:
            folder.mkdir(parents=True, exist_ok=True)  # somebody may have removed it during a run
            _finish_replacing(folder)
            _refuse_foreign(folder)
            clear_temporaries(folder)
            temporary.mkdir()
            _write_files(temporary, meta, tensors, ids)
            _publish(temporary, folder)
        except (OSError, SafetensorError, pa.ArrowException) as error:
            raise StorageError(
                f"{folder}: cannot be written ({error}); nothing was replaced. Free space or choose another folder."
            ) from error
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


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


def _write_files(
    folder: Path, meta: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]], ids: IdPair | None
) -> None:
    write_tensors({name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}, folder / TENSORS)
    digests = {TENSORS: _digest(folder / TENSORS)}
    if ids is not None:
        write_ids(folder / IDS, ids)
        digests[IDS] = _digest(folder / IDS)
    digests[META] = digest_of_meta(meta)
    own = {"format": FORMAT, "library": __version__, "digests": digests}
    (folder / META).write_text(to_json({**own, **meta}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for name in digests:
        _force_to_disk(folder / name)
    _force_to_disk(folder)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return digest_of_file(file)


def _force_to_disk(path: Path) -> None:
    if not _IS_POSIX and path.is_dir():  # Windows opens no folder
        return
    handle = os.open(path, os.O_RDONLY if _IS_POSIX else os.O_RDWR)  # it flushes no file that is open for reading alone
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _refuse_foreign(folder: Path) -> None:
    """Leave files that only have the names of ours."""
    if is_saved(folder):
        with (folder / META).open("rb") as file:
            if _OURS.match(file.read(64)):
                return
        raise StorageError(f"{folder / META}: was not written by vitalrank; choose another folder.")


def _publish(temporary: Path, folder: Path) -> None:
    temporary.rename(folder / NEW)
    _force_to_disk(folder)
    with contextlib.suppress(OSError):  # a parent that may not be read
        _force_to_disk(folder.parent)
    with contextlib.suppress(OSError):  # readers find the new files where they are; the next writer tries again
        _finish_replacing(folder)


def _finish_replacing(folder: Path) -> None:
    """Move new files to their own places, also those that a crash left on the way."""
    new = folder / NEW
    if new.is_symlink():  # its files would be moved here, away from a folder of the user
        raise StorageError(f"{new}: is a link, which vitalrank does not make; remove it.")
    if not new.exists():
        return
    if (new / META).exists():
        held = whole_meta(folder)["digests"]
        for name in (TENSORS, IDS):
            if (new / name).exists():
                (new / name).replace(folder / name)
            elif name not in held:
                (folder / name).unlink(missing_ok=True)
        _force_to_disk(folder)
        (new / META).replace(folder / META)  # last: what is whole must be in place before
        _force_to_disk(folder)
    shutil.rmtree(new)


def new_temporary(folder: Path) -> Path:
    """A name for a temporary folder of a writer, which the next writer removes if this one is killed."""
    return folder / f".vitalrank.{uuid.uuid4().hex[:8]}.tmp"  # as temporaries() looks for


def clear_temporaries(folder: Path) -> None:
    """Remove what killed writers left behind."""
    for temporary in temporaries(folder):
        shutil.rmtree(temporary, ignore_errors=True)


def temporaries(folder: Path) -> Iterator[Path]:
    """Temporary folders of writers."""
    return folder.glob(f".vitalrank.{'[0-9a-f]' * 8}.tmp")
