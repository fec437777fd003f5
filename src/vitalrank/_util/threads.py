"""How many threads compiled code may use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

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


@dataclass
class _OpenMP:
    """Whether OpenMP's threads, which do not survive a fork, were started: the child would wait for them for ever."""

    runs_torch: bool = False  # in this process
    lost_torch: bool = False  # in a process that this one was forked from
    lost_numba: bool = False  # there too: Numba ends a child that starts a parallel loop

    def fork(self) -> None:
        """Take note, in a child that was just forked."""
        try:
            layer = numba.threading_layer()  # type: ignore[attr-defined]
        except ValueError:  # not started
            layer = None
        self.lost_torch, self.runs_torch = self.lost_torch or self.runs_torch, False
        self.lost_numba = self.lost_numba or layer == "omp"


_openmp = _OpenMP()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_openmp.fork)


def check_not_forked() -> None:
    """Reject training by torch in a child of a process that has started OpenMP's threads."""
    if _openmp.lost_torch or _openmp.lost_numba:
        raise TrainingError(
            "this process was forked from one that has trained or ranked, and OpenMP does not survive a fork; "
            "start processes by multiprocessing.get_context('spawn'), or train in the child processes alone."
        )
    _openmp.runs_torch = True


def prepare_inference() -> None:
    """Let torch rank on one thread, and not hang, in a child of a process that has run it."""
    if _openmp.lost_torch and not _openmp.runs_torch:
        import torch

        torch.set_num_threads(1)
    _openmp.runs_torch = True
