"""How many threads compiled code may use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from vitalrank._util.checks import is_count
from vitalrank.errors import SettingError, TrainingError

try:
    import numba
except ValueError as error:  # Numba counts its threads as it is imported
    given = os.environ.get("NUMBA_NUM_THREADS")
    raise SettingError(
        f"NUMBA_NUM_THREADS is {given!r}; it must be at least 1, or not be set for all cores."
    ) from error


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


def check_not_forked() -> None:
    """Reject training by torch in a child of a process that has trained by torch: it would hang.

    OpenMP's threads do not survive a fork, and the child's OpenMP waits for them.
    """
    if _first_process() != os.getpid():
        raise TrainingError(
            "this process was forked from one that has trained a torch model, and OpenMP does not survive a fork; "
            "start processes by multiprocessing.get_context('spawn'), or train in the child processes alone."
        )


@cache
def _first_process() -> int:
    """The process that called this first; forked children inherit the answer."""
    return os.getpid()
