"""Where compiled kernels are kept when neither the package's folder nor the user's cache can be written."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import numba
from numba.core.dispatcher import Dispatcher


def ensure() -> None:
    """Give Numba a place to keep kernels if it finds none; without one it would refuse them."""
    if _finds_one():
        return
    try:
        numba.config.CACHE_DIR = str(_own_folder())  # type: ignore[attr-defined]
    except OSError:
        # Nothing can be written anywhere: every process compiles for itself.
        Dispatcher.enable_caching = lambda self: None  # type: ignore[method-assign]


def _finds_one() -> bool:
    try:
        numba.njit(cache=True)(_kernel)
    except RuntimeError:
        return False
    return True


def _kernel() -> None:
    """Never called: Numba looks for a place when it is told to keep a kernel."""


def _own_folder() -> Path:
    """A folder for temporary files that nobody else can write: what lies there is executed."""
    folder = Path(tempfile.gettempdir()) / f"vitalrank-numba-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise PermissionError(f"{folder} is another's")
    return folder
