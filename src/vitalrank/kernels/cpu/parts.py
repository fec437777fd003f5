"""Rows cut into one part for each thread: compiled code lets go of the interpreter, so plain threads share the work.

Numba's own parallel loops do the same, but each of them takes seconds to compile.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, partial
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

import numba
import numpy as np
from numba import njit

from vitalrank.kernels.cpu.machine import add_one, give_way, peek
from vitalrank.kernels.rng import INNER, LEAN

LEAST = 2048  # cost of a part that is worth a thread
_ROWS = 64  # parts are cut at multiples of so many rows, so that threads seldom write to one cache line
_LOOKS = 400_000  # at a number that is to change, before going to sleep: less than a millisecond
_LOOKS_AWAKE = 4096  # before letting another thread have the core
_asking = Lock()


def in_parts(rows: int, work: Callable[[int, int], None], cost: int = 1) -> None:
    """Call ``work(begin, end)`` on parts of ``0..rows``, at the same time, on the threads that Numba may use.

    ``cost`` is what a row takes, in units of 0.1 us: few cheap rows are done sooner than another thread wakes up.

    Examples
    --------
    >>> seen = []
    >>> in_parts(3, lambda begin, end: seen.append((begin, end)))
    >>> seen
    [(0, 3)]
    """
    size = _ROWS * -(-rows // (_ROWS * threads_for(rows * cost)))
    at_once(*(partial(work, begin, min(begin + size, rows)) for begin in range(0, rows, max(size, 1))))


def threads_for(cost: int) -> int:
    """How many threads are worth while for work that takes so many times 0.1 us.

    Examples
    --------
    >>> threads_for(0)
    1
    """
    return min(numba.get_num_threads(), max(cost // LEAST, 1))


def at_once(*works: Callable[[], Any]) -> list[Any]:
    """Call all of them at the same time, the first on this thread; returns what each returns.

    Examples
    --------
    >>> at_once(lambda: 1, lambda: 2)
    [1, 2]
    """
    with _asking:  # in one order at all helpers: pieces that meet would wait for each other forever
        others = [_helper(os.getpid(), number).ask(work) for number, work in enumerate(works[1:])]
    try:
        mine = [work() for work in works[:1]]
    finally:
        for other in others:
            other.wait()
    return mine + [other.answer() for other in others]


class _Task:
    """A piece of work, and what came of it."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self._result: Any = None
        self._error: BaseException | None = None
        self._done = np.zeros(1, np.int64)
        self._gate = Lock()
        self._gate.acquire()

    def do(self) -> None:
        try:
            self._result = self._work()
        except BaseException as error:
            self._error = error
        self._done[0] = 1
        self._gate.release()

    def wait(self) -> None:
        _watch(self._done, 0)
        self._gate.acquire()

    def answer(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._result


class _Helper:
    """A thread that does what it is asked; it stays awake for a moment, since to be woken takes as long as a step."""

    def __init__(self) -> None:
        self._tasks: SimpleQueue[_Task] = SimpleQueue()
        self._asked = np.zeros(1, np.int64)
        Thread(target=self._serve, name="vitalrank", daemon=True).start()

    def ask(self, work: Callable[[], Any]) -> _Task:
        task = _Task(work)
        self._tasks.put(task)
        self._asked[0] += 1
        return task

    def _serve(self) -> None:
        served = 0
        while True:
            _watch(self._asked, served)
            self._tasks.get().do()  # sleeps until there is one
            served += 1


@njit(nogil=True, cache=True, **LEAN)
def _watch(number: Any, old: Any) -> None:
    """Wait, not long, until a number that another thread writes is no longer the old one."""
    for _ in range(_LOOKS):
        if peek(number) != old:
            return


@njit(cache=True, **INNER)
def meet(arrived: Any, parts: Any) -> None:
    """Wait until all of so many pieces of work that go on at once have come here; ``arrived`` (1,) begins at 0."""
    if parts > 1:
        goal = (add_one(arrived) // parts + 1) * parts
        looks = 0
        while peek(arrived) < goal:
            looks += 1
            if looks % _LOOKS_AWAKE == 0:
                give_way()


@njit(cache=True, **INNER)
def share_of(rows: Any, part: Any, parts: Any) -> Any:
    """Where the part-th of so many parts of the rows begins and ends."""
    size = _ROWS * ((rows + _ROWS * parts - 1) // (_ROWS * parts))
    return min(part * size, rows), min((part + 1) * size, rows)


@cache
def _helper(process: int, number: int) -> _Helper:
    """A forked process has none of its parent's threads, and needs helpers of its own."""
    return _Helper()
