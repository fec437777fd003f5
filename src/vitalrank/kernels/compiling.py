"""How kernels are compiled: our decorator, the options that kernels share, and a cache on disk."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numba

# Kernels that allocate nothing need no reference counts; counting costs more than a draw.
LEAN: Any = {"_nrt": False, "no_cfunc_wrapper": True}
# What only other kernels call needs no entry point from Python, which takes longer to compile than a short kernel; a
# call from Python would crash.
INNER: Any = {**LEAN, "no_cpython_wrapper": True}
# Implementations that Numba picks by the types of the arguments, inlined at the call.
PICKED: Any = {**INNER, "error_model": "numpy", "forceinline": True}
# Sums may be reordered (so that they vectorise), but NaN and infinity keep their meaning.
FAST = {"reassoc", "contract", "nsz"}

UNTESTED = (0, 70)  # the first Numba whose private names were not looked at; pyproject.toml has the same bound


def cache_class(version: tuple[int, int]) -> Callable[[Any], Any] | None:
    """The cache for kernels under a version of Numba; None where its private names are untested or missing."""
    if version >= UNTESTED:
        return None
    try:
        from vitalrank.kernels.caching import KernelCache
    except (ImportError, AttributeError):
        return None
    return KernelCache


_Cache = cache_class(numba.version_info.short)


def njit(*, cache: bool = False, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """``numba.njit`` whose ``cache`` is ours; where there is none, every process compiles for itself."""

    def decorate(function: Callable[..., Any]) -> Any:
        kernel: Any = numba.njit(**options)(function)
        if cache and _Cache is not None and kernel is not function:
            with suppress(RuntimeError):  # no folder can be written by this user alone
                kernel._cache = _Cache(function)
        return kernel

    return decorate
