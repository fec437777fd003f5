"""Folders in which nobody else can place a file: what the cache of kernels loads from them is executed."""

from __future__ import annotations

import os
import stat
import tempfile
from functools import cache
from pathlib import Path

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


@cache
def is_private(folder: Path) -> bool:
    """Whether a folder is this user's, and nobody else but root can put files into it or replace it.

    On Windows every folder counts as private: access lists protect a user's profile, and the mode does not show them.

    Examples
    --------
    >>> is_private(Path(tempfile.mkdtemp()))
    True
    """
    if os.name == "nt":
        return True
    real, user = folder.resolve(), os.getuid()
    for path in (real, *real.parents):
        found = path.stat()
        is_sticky = path != real and found.st_mode & stat.S_ISVTX  # others may add files to it, and replace none
        if found.st_uid not in (user, 0) or (found.st_mode & _OTHERS_WRITE and not is_sticky):
            return False
    return real.stat().st_uid == user


def fallback_folder() -> Path:
    """A private folder of our own: in the user's cache, else among the temporary files; OSError if there is none."""
    user = "user" if os.name == "nt" else str(os.getuid())
    caches = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))  # noqa: PTH111, that of Path raises without a home
    for folder in (caches / "vitalrank" / "kernels", Path(tempfile.gettempdir()) / f"vitalrank-numba-{user}"):
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not folder.is_symlink() and is_private(folder):
                tempfile.TemporaryFile(dir=folder).close()
                return folder
        except OSError:
            continue
    raise PermissionError("no folder can be written by this user alone")
