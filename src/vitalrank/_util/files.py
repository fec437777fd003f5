"""Files that are written whole or not at all, and never over a file of somebody else."""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from vitalrank._util.display import printable
from vitalrank.errors import StorageError

MARK = "Written by vitalrank"  # in a comment near the top of every output that has comments
_MARKS = (MARK, '<meta name="generator" content="vitalrank">')
_HEAD = 4096  # bytes of a file in which its mark is looked for
_DESCRIPTOR = re.compile(r"/dev/(stdout|stderr|fd/\d+)|/proc/(self|thread-self|\d+)/fd/\d+")
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
        temporary = _create_beside(target)
        try:
            yield temporary
            temporary.replace(target)
        except BaseException:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
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
    except FileNotFoundError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _create_beside(target: Path) -> Path:
    """A new empty file in the folder of ``target``, with the permissions of the file that it will replace."""
    if target.is_dir():
        raise IsADirectoryError(f"{target.name} is a folder")
    temporary = target.with_name(f".vitalrank-{secrets.token_hex(8)}.part")
    os.close(os.open(temporary, _EXCLUSIVE, 0o666))
    with suppress(OSError):  # there is no such file yet, or it belongs to another user
        temporary.chmod(stat.S_IMODE(target.stat().st_mode))
    return temporary


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


def write_output(path: Path, text: str, is_ours: Callable[[str], bool] = is_marked, force: bool = False) -> None:
    """Write a file that a user asked for, whole or not at all, unless a file of theirs has the name.

    Examples
    --------
    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp()) / "a.toml"
    >>> for dim in (8, 16):
    ...     write_output(place, f"# {MARK}\\ndim = {dim}\\n")
    >>> _ = place.write_text("my own")
    >>> write_output(place, "dim = 32")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    vitalrank.errors.StorageError: ...a.toml: exists and was not written by vitalrank; give another name, or --force.
    """
    check_output(path, is_ours, force)
    write_text(path, text)
