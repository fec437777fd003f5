"""A small pool of worker threads. Waiters spin for about 0.1 ms before blocking: a wake-up costs more than that."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitalrank.kernels.compiling import LEAN, njit
from vitalrank.kernels.cpu.runtime.intrinsics import atomic_load

_POLLS = 200_000  # before blocking: some 0.1 ms, longer than Python takes from one call to the next


class Future:
    """The pending result of a call submitted to a worker.

    Parameters
    ----------
    work
        What to call.
    """

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self._result: Any = None
        self._error: BaseException | None = None
        self._done = np.zeros(1, np.int64)  # for waiters that spin
        self._running = Lock()  # for waiters that block
        self._running.acquire()

    def run(self) -> None:
        """Make the call, and store what it returns or raises."""
        try:
            self._result = self._work()
        except BaseException as error:
            self._error = error
        self._running.release()
        self._done[0] = 1

    def wait(self) -> None:
        """Return once the call has returned or raised."""
        _spin_wait(self._done, 0)
        with self._running:
            pass

    def result(self) -> Any:
        """What the call returned; raises what it raised."""
        if self._error is not None:
            raise self._error
        return self._result


class Worker:
    """A thread that runs the calls submitted to it, in order.

    Examples
    --------
    >>> future = Worker().submit(lambda: 2 + 2)
    >>> future.wait()
    >>> future.result()
    4
    """

    def __init__(self) -> None:
        self._queue: SimpleQueue[Future] = SimpleQueue()
        self._submitted = np.zeros(1, np.int64)
        Thread(target=self._serve, name="vitalrank", daemon=True).start()

    def submit(self, work: Callable[[], Any]) -> Future:
        """Queue a call; only one thread may submit at a time."""
        future = Future(work)
        self._queue.put(future)
        self._submitted[0] += 1
        return future

    def _serve(self) -> None:
        done = 0
        while True:
            _spin_wait(self._submitted, done)
            self._queue.get().run()
            done += 1


@cache
def worker_of(process: int, number: int) -> Worker:
    """The process's worker of that number. Threads do not survive a fork, so a child process starts its own."""
    return Worker()


@njit(nogil=True, cache=True, **LEAN)
def _spin_wait(cell: NDArray[np.int64], value: int) -> None:
    """Return when the number is no longer ``value``, or after so many polls.

    It does not yield: a yielded core may be lost for another process's time slice, and blocking comes soon.
    """
    for _ in range(_POLLS):
        if atomic_load(cell) != value:
            return
