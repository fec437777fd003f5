"""One writer at a time in a folder."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from vitalrank.errors import StorageError

# Windows has no such locks: there two writers must keep apart themselves.
_fcntl: Any = import_module("fcntl") if os.name == "posix" else None
LOCK = ".vitalrank.lock"
_HELD: set[Path] = set()  # by this process, which the system would let in again


@contextlib.contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Keep other writers out of a folder, which is made if need be; one that stays empty goes again.

    The system lets go of the lock when the process ends, however it ends.

    Raises
    ------
    StorageError
        Another process writes there, or nobody can.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with only_writer(folder):
    ...     [path.name for path in folder.iterdir()]
    ['.vitalrank.lock']
    >>> list(folder.iterdir())
    []
    """
    place = folder.resolve()
    if place in _HELD:
        raise StorageError(f"{folder}: a run of this process writes here already; choose another folder.")
    if place.exists() and not place.is_dir():
        raise StorageError(f"{folder}: cannot be written, since it is a file; choose another folder.")
    is_new = not place.exists()
    try:
        place.mkdir(parents=True, exist_ok=True)
        handle = _locked(place)
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(f"{folder}: cannot be written ({error}); choose another folder.") from error
    _HELD.add(place)
    try:
        yield
    finally:
        _HELD.discard(place)
        with contextlib.suppress(OSError):
            (place / LOCK).unlink()
        os.close(handle)
        if is_new:
            with contextlib.suppress(OSError):  # something was written
                place.rmdir()


def writing(folder: Path) -> contextlib.AbstractContextManager[None]:
    """As :func:`only_writer`, but also inside one of this process."""
    return contextlib.nullcontext() if folder.resolve() in _HELD else only_writer(folder)


def _locked(place: Path) -> int:
    while True:
        handle = os.open(place / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _take(handle, place)
            if os.fstat(handle).st_nlink:  # else its owner removed it before we had it
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _take(handle: int, place: Path) -> None:
    if _fcntl is None:
        return
    try:
        _fcntl.lockf(handle, _fcntl.LOCK_EX | _fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError) as error:
        owner = os.read(handle, 32).decode(errors="replace").strip() or "another"
        raise StorageError(
            f"{place}: process {owner} writes here now; wait for it or choose another folder."
        ) from error
    except OSError:  # a file system without locks
        return
    os.ftruncate(handle, 0)
    os.write(handle, f"{os.getpid()}\n".encode())
