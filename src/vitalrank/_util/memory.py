"""How memory is asked for: in large pages, and kept between the steps that need it again."""

from __future__ import annotations

import ctypes
import math
import mmap
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

_LINE = 64  # bytes of a cache line
_TRIM, _MAP = -1, -3  # parameters of mallopt
_LARGE, _LARGEST_MAP = 1 << 30, 1 << 25  # bytes


def large_zeros(shape: tuple[int, ...], kind: DTypeLike) -> NDArray[Any]:
    """Zeros whose rows are read in any order: memory that NumPy itself fills is asked for in large pages.

    They begin where a cache line begins. NumPy's own large arrays begin 16 bytes later, so that a row of 256 bytes
    lies in five lines instead of four, and the fifth is not asked for.

    Examples
    --------
    >>> large_zeros((2, 2), np.float32).tolist()
    [[0.0, 0.0], [0.0, 0.0]]
    >>> large_zeros((3, 5), np.float32).ctypes.data % 64
    0
    """
    size = math.prod(shape) * np.dtype(kind).itemsize
    room = np.empty(size + _LINE, np.uint8)
    room.fill(0)
    first = -room.ctypes.data % _LINE
    zeros: NDArray[Any] = room[first : first + size].view(kind).reshape(shape)
    return zeros


def untouched_zeros(shape: tuple[int, ...], kind: DTypeLike) -> NDArray[Any]:
    """Zeros that take memory only where they are written, where the system can do so.

    Examples
    --------
    >>> untouched_zeros((2, 2), np.float32).tolist()
    [[0.0, 0.0], [0.0, 0.0]]
    """
    size = math.prod(shape) * np.dtype(kind).itemsize
    if size == 0 or not hasattr(mmap, "MAP_NORESERVE"):
        return np.zeros(shape, kind)
    room = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_NORESERVE)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a system without large pages
            room.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(room, kind).reshape(shape)


def in_temporary_file(shape: tuple[int, ...], kind: DTypeLike) -> NDArray[Any]:
    """Zeros in a temporary file (of ``TMPDIR``) that is mapped and has no name: the system may take their memory back.

    Examples
    --------
    >>> in_temporary_file((2, 2), np.float32).tolist()
    [[0.0, 0.0], [0.0, 0.0]]
    """
    size = math.prod(shape) * np.dtype(kind).itemsize
    if size == 0:
        return np.zeros(shape, kind)
    with tempfile.TemporaryFile() as file:
        file.truncate(size)
        return np.frombuffer(mmap.mmap(file.fileno(), size), kind).reshape(shape)


def absent(shape: tuple[int, ...], kind: DTypeLike) -> NDArray[Any]:
    """Zeros in place of an array that another process has; they take no memory.

    Examples
    --------
    >>> absent((1000, 1000), np.float32).base.nbytes
    4
    """
    zero: NDArray[Any] = np.zeros((), kind)
    return np.broadcast_to(zero, shape)


def available_memory() -> int | None:
    """Bytes that can be allocated without swapping; None where the system does not tell.

    Examples
    --------
    >>> free = available_memory()
    >>> free is None or free > 0
    True
    """
    try:
        with Path("/proc/meminfo").open(encoding="ascii") as lines:
            free = next(line for line in lines if line.startswith("MemAvailable:"))
        return min(int(free.split()[1]) * 1024, _below_limit())
    except (OSError, StopIteration):
        return None


def _below_limit() -> int:
    """Bytes that this process may still map before its limit (``ulimit -v``), on Linux."""
    resource: Any = import_module("resource")
    limit: int = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return sys.maxsize
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    size: int = resource.getpagesize()
    return max(0, limit - pages * size)


@contextmanager
def kept_for_reuse() -> Iterator[None]:
    """Let the C library keep what is freed instead of handing it back, where it can be told so.

    On Linux large tensors would be given back and asked for again in each step; the pages of a step of a small model
    take as long to get as the step.

    Examples
    --------
    >>> with kept_for_reuse():
    ...     pass
    """
    mallopt = _mallopt()
    if mallopt is None:
        yield
        return
    mallopt(_TRIM, _LARGE)
    mallopt(_MAP, _LARGEST_MAP)
    try:
        yield
    finally:
        mallopt(_TRIM, 2 * _LARGEST_MAP)  # as the library sets it by itself once it has freed a block so large


def _mallopt() -> Callable[[int, int], int] | None:
    try:
        found: Callable[[int, int], int] = ctypes.CDLL(None).mallopt
        return found
    except (OSError, AttributeError, TypeError):  # only the C library of GNU has it
        return None
