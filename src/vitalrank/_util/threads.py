"""How many threads compiled code may use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numba

from vitalrank._util.checks import is_count
from vitalrank.errors import SettingError


@contextmanager
def limited(threads: int | None) -> Iterator[None]:
    """Run compiled code on at most ``threads`` threads; None leaves it as it is.

    Examples
    --------
    >>> with limited(1):
    ...     numba.get_num_threads()
    1
    """
    if threads is None:
        yield
        return
    if not is_count(threads):
        raise SettingError(f"threads is {threads!r}; it must be at least 1, or None for all cores.")
    before = numba.get_num_threads()
    most: int = getattr(numba.config, "NUMBA_NUM_THREADS")  # noqa: B009, set at run time, unseen by mypy
    numba.set_num_threads(min(threads, most))
    try:
        yield
    finally:
        numba.set_num_threads(before)


def serve_several() -> bool:
    """Whether Numba's threads serve several callers at a time; where they do not, a second one ends the process.

    Examples
    --------
    >>> serve_several() in (True, False)
    True
    """
    numba.get_num_threads()  # starts them, by which the layer is chosen
    return bool(numba.threading_layer() != "workqueue")  # type: ignore[attr-defined]
