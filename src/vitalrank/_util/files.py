"""Files that are written whole or not at all, and never over a file of somebody else."""

from __future__ import annotations

import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from vitalrank._util.display import printable
from vitalrank.errors import StorageError

MARK = "Written by vitalrank"  # in a comment near the top of every output that has comments
_MARKS = (MARK, '<meta name="generator" content="vitalrank">')
_HEAD = 4096  # bytes of a file in which its mark is looked for
_DESCRIPTOR = re.compile(r"/dev/(stdout|stderr|fd/\d+)|/proc/(self|thread-self|\d+)/fd/\d+")
_fcntl: Any = import_module("fcntl") if os.name == "posix" else None
_PART = re.compile(r"\.vitalrank-[0-9a-f]{16}\.part")
_ABANDONED_SECONDS = 60.0  # without a write and a lock; a new file has no lock for a moment
_PROBE = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_EXCLUSIVE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """A temporary file to write: it replaces ``path`` when the block succeeds, and is removed when it fails.

    It lies in the same folder, which is made if need be, under a random name that nothing else has. A symbolic link
    stays one: the file that it names is replaced. A pipe or a device cannot be replaced and is written directly.

    Examples
    --------
    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp()) / "notes" / "a.txt"
    >>> with atomic_write(place) as temporary:
    ...     _ = temporary.write_text("one")
    >>> place.read_text()
    'one'
    """
    try:
        if is_stream(path):
            yield path
            return
        target = Path(os.path.realpath(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        with _created_beside(target) as temporary:
            yield temporary
            temporary.replace(target)
    except StorageError:
        raise
    except OSError as error:
        reason = f"cannot be written ({printable(error)}); free space or choose another folder."
        raise StorageError(f"{printable(path)}: {reason}") from error


def is_stream(path: Path) -> bool:
    """Whether it is a pipe, a device, or an open file of this process such as ``/dev/stdout``."""
    if _DESCRIPTOR.fullmatch(os.path.normpath(path)):
        return True
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):  # who writes it will say so
        return False
    except OSError as error:  # a loop of links, a folder that nobody may enter
        raise StorageError(f"{printable(path)}: cannot be used ({printable(error)}); give another name.") from error
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


@contextmanager
def _created_beside(target: Path) -> Iterator[Path]:
    """A new empty file in the folder of ``target``, with the permissions of the file that it will replace.

    A lock on it shows that this process lives; one that is killed leaves the file for others to remove.
    """
    if target.is_dir():
        raise IsADirectoryError(f"{target.name} is a folder")
    _remove_abandoned(target.parent)
    temporary = target.with_name(f".vitalrank-{secrets.token_hex(8)}.part")
    descriptor = os.open(temporary, _EXCLUSIVE, 0o666)
    try:
        if _fcntl is None:  # Windows replaces no open file
            os.close(descriptor)
        else:
            with suppress(OSError):  # a file system without locks
                _fcntl.flock(descriptor, _fcntl.LOCK_SH | _fcntl.LOCK_NB)
        with suppress(OSError):  # there is no such file yet, or it belongs to another user
            temporary.chmod(stat.S_IMODE(target.stat().st_mode))
        yield temporary
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    finally:
        if _fcntl is not None:
            os.close(descriptor)


def _remove_abandoned(folder: Path) -> None:
    """Remove temporary files that killed processes left in a folder."""
    if _fcntl is None:
        return
    with suppress(OSError), os.scandir(folder) as entries:
        for name in [entry.name for entry in entries if _PART.fullmatch(entry.name)]:
            with suppress(OSError):  # at work, of another user, or removed by another process at this moment
                descriptor = os.open(folder / name, _PROBE)
                try:
                    if time.time() - os.fstat(descriptor).st_mtime > _ABANDONED_SECONDS:
                        _fcntl.flock(descriptor, _fcntl.LOCK_EX | _fcntl.LOCK_NB)
                        (folder / name).unlink()
                finally:
                    os.close(descriptor)


def write_text(path: Path, text: str) -> None:
    """Write a small file whole or not at all."""
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def is_marked(head: str) -> bool:
    """Whether the beginning of a file says that vitalrank wrote it.

    Examples
    --------
    >>> is_marked("# Written by vitalrank 0.1.0\\nuser = 'u'"), is_marked("user = 'u'")
    (True, False)
    """
    return any(mark in head for mark in _MARKS)


def check_output(path: Path, is_ours: Callable[[str], bool] = is_marked, force: bool = False) -> None:
    """Refuse to replace a file that vitalrank did not write. To be called before the work whose result it takes.

    Parameters
    ----------
    path
        Where the output goes. A new or an empty file, a pipe and a device are always accepted.
    is_ours
        Decides from the first 4096 bytes, as text, whether vitalrank wrote the file.
    force
        Replace any file.

    Raises
    ------
    StorageError
        The file is not ours, or a folder.
    """
    name = printable(path)
    try:
        if is_stream(path):
            return
        if path.is_dir():
            raise StorageError(f"{name}: is a folder; give the name of a file in it.")
        if force or not path.exists():
            return
        with path.open("rb") as file:
            head = file.read(_HEAD).decode("utf-8", "replace")
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(f"{name}: cannot be read ({printable(error)}); give another name.") from error
    if head and not is_ours(head):
        raise StorageError(f"{name}: exists and was not written by vitalrank; give another name, or --force.")
