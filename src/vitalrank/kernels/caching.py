"""Compiled kernels on disk: kept until any source of the kernels changes, in a folder that only the user can write.

Numba keeps a function until its own file changes, not those of the functions it calls: after an upgrade that left its
file alone a kernel would run as it was. The cache here stamps each kernel with the sources of all of them, and reads no
folder that others can write, since what it reads is a pickle. It is ours alone: Numba's classes stay as they are.

This module needs names that Numba calls private; ``compiling`` does without it where they are missing or untested.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

from numba.core.caching import CacheImpl, CompileResultCacheImpl, FunctionCache, InTreeCacheLocator

from vitalrank.kernels.private_folders import fallback_folder, is_private

_PACKAGE = Path(__file__).parents[1]
_LOCATORS: tuple[Any, ...] = tuple(CacheImpl._locator_classes)


@cache
def digest_of(package: Path) -> str:
    """A digest of the sources that kernels depend on: their own package, and the constants of the losses."""
    digest = hashlib.sha256()
    for path in [*sorted((package / "kernels").rglob("*.py")), package / "losses.py"]:
        digest.update(b"\0".join([path.relative_to(package).as_posix().encode(), path.read_bytes(), b""]))
    return digest.hexdigest()


class _Locator:
    """A locator of Numba's, with its folder if that is private, and the stamp of all sources."""

    def __init__(self, locator: Any, folder: Path) -> None:
        self._locator, self._folder = locator, folder

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
        return digest_of(_PACKAGE) if _PACKAGE.is_dir() else self._locator.get_source_stamp()

    def get_cache_path(self) -> str:
        return str(self._folder)

    def ensure_cache_path(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)

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
    """The cache of one kernel; RuntimeError if there is no folder for it."""

    _impl_class = _Impl
