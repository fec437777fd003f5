"""One writer at a time in a folder: an advisory file lock between processes, a table of owners between threads."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from vitalrank._util.display import printable
from vitalrank.errors import StorageError

_fcntl: Any = import_module("fcntl") if os.name == "posix" else None
_msvcrt: Any = import_module("msvcrt") if os.name == "nt" else None  # from its documentation; not tried on Windows
LOCK = ".vitalrank.lock"
_FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)  # a link could lead to a file of the user
_FAR = 1 << 20  # a locked byte of Windows cannot be read, so that it lies behind the content
_OWNERS: dict[Path, int] = {}  # lock -> thread; file locks do not keep threads of one process apart
_OWNERS_LOCK = threading.Lock()
_POLL_SECONDS = 0.02


class LockedError(StorageError):
    """Another process or thread writes in the folder."""


@contextlib.contextmanager
def only_writer(folder: Path, lock: str = LOCK) -> Iterator[None]:
    """Keep other writers out of a folder, which is made if need be and removed again if it stays empty.

    The operating system releases the lock when the process ends, however it ends.

    Parameters
    ----------
    folder
        The folder.
    lock
        Name of the lock's file in it; locks of other names are independent.

    Raises
    ------
    LockedError
        Another process or thread writes there.
    StorageError
        Nobody can write there.

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
    path, name = folder.resolve(), printable(folder)
    with _owned_by_this_thread(path / lock, name):
        try:
            if path.exists() and not path.is_dir():
                raise StorageError(f"{name}: cannot be written, since it is a file; choose another folder.")
            is_new = not path.exists()
            path.mkdir(parents=True, exist_ok=True)
            try:
                descriptor = _open_locked(path, lock)
            except BaseException:
                if is_new:
                    _remove_empty(path)
                raise
        except StorageError:
            raise
        except OSError as error:
            raise StorageError(f"{name}: cannot be written ({printable(error)}); choose another folder.") from error
        try:
            yield
        finally:
            _release(path / lock, descriptor)
            if is_new:
                _remove_empty(path)


def writing(folder: Path) -> contextlib.AbstractContextManager[None]:
    """As :func:`only_writer`, but reentrant: does nothing inside one of the same thread."""
    is_ours = _OWNERS.get(folder.resolve() / LOCK) == threading.get_ident()
    return contextlib.nullcontext() if is_ours else only_writer(folder)


@contextlib.contextmanager
def waiting_writer(folder: Path, lock: str = LOCK, poll: float = _POLL_SECONDS) -> Iterator[None]:
    """As :func:`only_writer`, but waits for another writer, with so many seconds between two tries."""
    with contextlib.ExitStack() as stack:
        while True:
            try:
                stack.enter_context(only_writer(folder, lock))
                break
            except LockedError:
                time.sleep(poll)
        yield


@contextlib.contextmanager
def _owned_by_this_thread(path: Path, name: str) -> Iterator[None]:
    with _OWNERS_LOCK:
        if path in _OWNERS:
            raise LockedError(f"{name}: a run of this process writes here already; choose another folder.")
        _OWNERS[path] = threading.get_ident()
    try:
        yield
    finally:
        with _OWNERS_LOCK:
            del _OWNERS[path]


def _remove_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):  # something was written
        folder.rmdir()


def _open_locked(folder: Path, lock: str) -> int:
    while True:
        descriptor = os.open(folder / lock, _FLAGS, 0o666)
        try:
            _lock(descriptor, folder)
            if os.fstat(descriptor).st_nlink:  # else its owner removed the file before we locked it
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _lock(descriptor: int, folder: Path) -> None:
    try:
        if _fcntl is not None:
            _fcntl.lockf(descriptor, _fcntl.LOCK_EX | _fcntl.LOCK_NB)
        elif _msvcrt is not None:
            os.lseek(descriptor, _FAR, os.SEEK_SET)
            _msvcrt.locking(descriptor, _msvcrt.LK_NBLCK, 1)
            os.lseek(descriptor, 0, os.SEEK_SET)
    except (BlockingIOError, PermissionError) as error:
        os.lseek(descriptor, 0, os.SEEK_SET)
        owner = printable(os.read(descriptor, 32).decode(errors="replace").strip()) or "another"
        raise LockedError(
            f"{printable(folder)}: process {owner} writes here now; wait for it or choose another folder."
        ) from error
    except OSError:  # a file system without locks
        return
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"{os.getpid()}\n".encode())


def _release(lock: Path, descriptor: int) -> None:
    if _msvcrt is not None:  # Windows removes no open file, and unlocks when the file is closed
        os.close(descriptor)
    with contextlib.suppress(OSError):
        lock.unlink()
    if _msvcrt is None:
        os.close(descriptor)
