"""Compiled kernels on disk: one folder for each state of the kernels' sources, which only the user can write.

Numba keeps a function until its own file changes, not those of the functions it calls: after an upgrade that left its
file alone a kernel would run as it was. And it unpickles an index before it compares versions, which fails if a class
has been renamed. So the folder here is named by the sources of all kernels: nothing of another version is ever read.
What cannot be read is compiled anew. No folder that others can write is read, since what is read is a pickle.
The cache is ours alone: Numba's classes stay as they are.

This module needs names that Numba calls private; ``compiling`` does without it where they are missing or untested.
"""

from __future__ import annotations

import hashlib
import shutil
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from numba.core.caching import CacheImpl, CompileResultCacheImpl, FunctionCache, InTreeCacheLocator

from vitalrank.kernels.private_folders import fallback_folder, is_private

_PACKAGE = Path(__file__).parents[1]
_LOCATORS: tuple[Any, ...] = tuple(CacheImpl._locator_classes)
_PREFIX = "vitalrank-"  # of the folders, one for each state of the sources
_KEPT = 3  # of these folders: processes of another version may still run


@cache
def package_digest(package: Path) -> str:
    """A digest of the sources that kernels depend on: their own package, and the constants of the losses."""
    digest = hashlib.sha256()
    for path in [*sorted((package / "kernels").rglob("*.py")), package / "losses.py"]:
        digest.update(b"\0".join([path.relative_to(package).as_posix().encode(), path.read_bytes(), b""]))
    return digest.hexdigest()


def remove_stale(folder: Path, current: Path) -> None:
    """Remove compiled kernels of other versions from our own ``folder``: all but the newest few, beside ``current``.

    Earlier versions of the library kept theirs in ``folder`` itself.
    """
    with suppress(OSError):
        found = [path for path in folder.glob(f"{_PREFIX}*") if path != current and not path.is_symlink()]
        found.sort(key=lambda path: path.stat().st_mtime, reverse=True)
        for path in found[_KEPT - 1 :]:
            shutil.rmtree(path, ignore_errors=True)
        for pattern in ("*.nbi", "*.nbc"):
            for path in folder.glob(pattern):
                path.unlink(missing_ok=True)


class _Locator:
    """A locator of Numba's, with its folder if that is private, and the stamp of all sources."""

    def __init__(self, locator: Any, folder: Path) -> None:
        self._locator, self._parent = locator, folder
        stamp = hashlib.sha256(str(self.get_source_stamp()).encode()).hexdigest()
        self._folder = folder / f"{_PREFIX}{stamp[:16]}"

    @classmethod
    def from_function(cls, function: Any, file: str) -> _Locator | None:
        """Numba's first choice of a folder if it is private, else a private one of our own; None without either."""
        places = (kind.from_function(function, file) for kind in _LOCATORS)
        locator = next((place for place in places if place is not None), None)
        try:
            if locator is not None:
                folder = Path(locator.get_cache_path())
                folder.mkdir(parents=True, exist_ok=True)
                if is_private(folder):
                    return cls(locator, folder)
            source = locator or InTreeCacheLocator(function, file)  # for the line number; its folder is not used
            return cls(source, fallback_folder() / source.get_suitable_cache_subpath(file))
        except OSError:
            return None

    def get_source_stamp(self) -> Any:
        # A zip file is stamped as a whole.
        return package_digest(_PACKAGE) if _PACKAGE.is_dir() else self._locator.get_source_stamp()

    def get_cache_path(self) -> str:
        return str(self._folder)

    def ensure_cache_path(self) -> None:
        if not self._folder.is_dir():
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            remove_stale(self._parent, self._folder)

    def get_disambiguator(self) -> str:
        return str(self._locator.get_disambiguator())

    @property
    def _py_file(self) -> str:
        return str(self._locator._py_file)


class _Impl(CompileResultCacheImpl):
    """Numba's cache entry, by our locator whatever locators the environment names."""

    def __init__(self, function: Any) -> None:
        self._locator_classes = [_Locator]
        super().__init__(function)
        if not isinstance(self._locator, _Locator):
            chosen = _Locator.from_function(function, function.__code__.co_filename)
            if chosen is None:
                raise RuntimeError("no private folder for compiled kernels")
            self._locator = chosen


class KernelCache(FunctionCache):
    """The cache of one kernel, which runs without it where it fails; RuntimeError if there is no folder for it."""

    _impl_class = _Impl

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """A compiled kernel; None, and an empty index, if there is none that can be read."""
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # a damaged pickle raises anything
            try:
                self.flush()
            except OSError:
                self.disable()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a compiled kernel, unless the disk is full or gone."""
        with suppress(OSError):
            super().save_overload(sig, data)
