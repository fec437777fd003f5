"""Threads that take a part of the work. Who waits watches for a while before he sleeps: waking up takes longer."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from vitalrank.kernels.compiling import LEAN
from vitalrank.kernels.cpu.runtime.intrinsics import give_way, peek

_LOOKS = 200_000  # before one sleeps: some 0.1 ms, longer than Python takes from one piece of work to the next
_POLITE = 4096  # looks before another thread may have the core


class Task:
    """A piece of work that a helper was asked to do.

    Parameters
    ----------
    work
        What to call.
    """

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self._result: Any = None
        self._error: BaseException | None = None
        self._ended = np.zeros(1, np.int64)  # wakes who watches
        self._busy = Lock()  # wakes who sleeps
        self._busy.acquire()

    def run(self) -> None:
        """Do it, and keep what it returns or raises."""
        try:
            self._result = self._work()
        except BaseException as error:
            self._error = error
        self._busy.release()
        self._ended[0] = 1

    def wait(self) -> None:
        """Return once it is done, well or not."""
        _watch(self._ended, 0)
        with self._busy:
            pass

    def result(self) -> Any:
        """What it returned; raises what it raised."""
        if self._error is not None:
            raise self._error
        return self._result


class Helper:
    """A thread that does what it is asked, in that order.

    Examples
    --------
    >>> task = Helper().ask(lambda: 2 + 2)
    >>> task.wait()
    >>> task.result()
    4
    """

    def __init__(self) -> None:
        self._tasks: SimpleQueue[Task] = SimpleQueue()
        self._asked = np.zeros(1, np.int64)
        Thread(target=self._serve, name="vitalrank", daemon=True).start()

    def ask(self, work: Callable[[], Any]) -> Task:
        """Have it done; one asks at a time."""
        task = Task(work)
        self._tasks.put(task)
        self._asked[0] += 1
        return task

    def _serve(self) -> None:
        done = 0
        while True:
            _watch(self._asked, done)
            self._tasks.get().run()
            done += 1


@cache
def helper_of(process: int, number: int) -> Helper:
    """A process's helper of that number; one that was forked has none of its parent's, and gets its own."""
    return Helper()


@njit(nogil=True, cache=True, **LEAN)
def _watch(place: NDArray[np.int64], value: int) -> None:
    """Return when the number is another one, or after a while."""
    for look in range(_LOOKS):
        if peek(place) != value:
            return
        if look % _POLITE == _POLITE - 1:
            give_way()
