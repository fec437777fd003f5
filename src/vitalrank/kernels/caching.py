"""Where compiled kernels are kept, and how long: until any source that kernels are made of changes."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import CacheImpl
from numba.core.dispatcher import Dispatcher

_PACKAGE = Path(__file__).parents[1]
_KINDS: list[Any] = CacheImpl._locator_classes  # of places, the first that fits a kernel is taken


def ensure() -> None:
    """Let Numba look at all sources, and give it a place if it finds none; without one it would refuse kernels."""
    _KINDS.insert(0, _Place)
    if _finds_one():
        return
    try:
        numba.config.CACHE_DIR = str(_own_folder())  # type: ignore[attr-defined]
    except OSError:
        # Nothing can be written anywhere: every process compiles for itself.
        Dispatcher.enable_caching = lambda self: None  # type: ignore[method-assign]


class _Place:
    """Numba's own place for a kernel of this package, stamped with the sources of all of them.

    By itself Numba keeps a kernel until the file it stands in changes, not those of the kernels it calls: after an
    upgrade that left its file alone it would run as it was.
    """

    def __init__(self, place: Any) -> None:
        self._place = place

    @classmethod
    def from_function(cls, function: Any, file: str) -> _Place | None:
        if not Path(file).is_relative_to(_PACKAGE) or not _PACKAGE.is_dir():  # it may lie in a zip file
            return None
        places = (kind.from_function(function, file) for kind in _KINDS if kind is not cls)
        return next((cls(place) for place in places if place is not None), None)

    def get_source_stamp(self) -> str:
        return digest_of(_PACKAGE)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._place, name)


@cache
def digest_of(package: Path) -> str:
    """A digest of what kernels are made of: their own folder, and the numbers that losses hold."""
    digest = hashlib.sha256()
    for path in [*sorted((package / "kernels").rglob("*.py")), package / "losses.py"]:
        digest.update(b"\0".join([path.relative_to(package).as_posix().encode(), path.read_bytes(), b""]))
    return digest.hexdigest()


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
