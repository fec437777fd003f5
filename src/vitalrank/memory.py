"""Memory that is freed and asked for again in every step."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_TRIM, _MAP = -1, -3  # parameters of mallopt
_USUAL, _LARGE, _LARGEST_MAP = 1 << 17, 1 << 30, 1 << 25  # bytes


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
        mallopt(_TRIM, _USUAL)
        mallopt(_MAP, _USUAL)


def _mallopt() -> Any:
    try:
        return ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # only the C library of GNU has it
        return None
