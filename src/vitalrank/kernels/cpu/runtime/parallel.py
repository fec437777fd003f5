"""Rows cut into one part for each thread: compiled code lets go of the interpreter, so plain threads share the work.

Numba's own parallel loops do the same, but each of them takes seconds to compile.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import Any

import numba
import numpy as np
from numba import njit
from numpy.typing import NDArray

from vitalrank.kernels.compiling import INNER
from vitalrank.kernels.cpu.runtime.intrinsics import add_one, give_way, peek
from vitalrank.kernels.cpu.runtime.workers import Task, helper_of

LEAST = 2048  # cost of a part that is worth a thread
_ROWS = 64  # parts are cut at multiples of so many rows, so that threads seldom write to one cache line
_LOOKS = 4096  # at a number that is to change, before letting another thread have the core
_ALL = 1 << 62  # arrivals that end every meeting
_asking = Lock()


def parallel_for(rows: int, work: Callable[[int, int], None], cost: int = 1) -> None:
    """Call ``work(begin, end)`` on parts of ``0..rows``, at the same time, on the threads that Numba may use.

    ``cost`` is what a row takes, in units of 0.1 us: few cheap rows are done sooner than another thread wakes up.

    Examples
    --------
    >>> seen = []
    >>> parallel_for(3, lambda begin, end: seen.append((begin, end)))
    >>> seen
    [(0, 3)]
    """
    size = _ROWS * -(-rows // (_ROWS * threads_for(rows * cost)))
    run_parallel(*(partial(work, begin, min(begin + size, rows)) for begin in range(0, rows, max(size, 1))))


def threads_for(cost: int) -> int:
    """How many threads are worth while for work that takes so many times 0.1 us.

    Examples
    --------
    >>> threads_for(0)
    1
    """
    return min(numba.get_num_threads(), max(cost // LEAST, 1))


def run_parallel(*works: Callable[[], Any], give_up: Callable[[], None] | None = None) -> list[Any]:
    """Call all of them at the same time, the first on this thread; returns what each returns.

    ``give_up`` is called if this thread fails or is interrupted, before the others are waited for.

    Examples
    --------
    >>> run_parallel(lambda: 1, lambda: 2)
    [1, 2]
    """
    others: list[Task] = []
    try:
        with _asking:  # in one order at all helpers: pieces that meet would wait for each other forever
            others += [helper_of(os.getpid(), number).ask(work) for number, work in enumerate(works[1:])]
        mine = [work() for work in works[:1]]
    except BaseException:
        if give_up is not None:
            give_up()
        raise
    finally:
        for other in others:
            other.wait()
    return mine + [other.result() for other in others]


def with_barrier(parts: int, work: Callable[[int, NDArray[np.int64]], None]) -> None:
    """Call ``work(part, arrived)`` for all parts at once; they may :func:`meet`, and none waits for one that failed."""
    arrived = np.zeros(1, np.int64)

    def give_up() -> None:
        arrived.fill(_ALL)

    def piece(part: int) -> None:
        try:
            work(part, arrived)
        except BaseException:
            give_up()
            raise

    run_parallel(*(partial(piece, part) for part in range(parts)), give_up=give_up)


@njit(cache=True, **INNER)
def meet(arrived: Any, parts: Any) -> None:
    """Wait until all of so many pieces of work that go on at once have come here."""
    if parts > 1:
        goal = min((add_one(arrived) // parts + 1) * parts, _ALL)
        looks = 0
        while peek(arrived) < goal:
            looks += 1
            if looks % _LOOKS == 0:
                give_way()
