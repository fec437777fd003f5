"""Parallel loops over rows on plain threads: compiled code releases the interpreter's lock.

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
from numpy.typing import NDArray

from vitalrank.kernels.compiling import INNER, njit
from vitalrank.kernels.cpu.runtime.intrinsics import atomic_load, fetch_add, yield_thread
from vitalrank.kernels.cpu.runtime.workers import Future, worker_of

MIN_SHARD_COST = 2048  # below it, waking a worker takes longer than the work
_ROWS = 64  # shards are cut at multiples of so many rows, so that threads seldom write to one cache line
_POLLS_PER_YIELD = 4096
_PATIENCE = 400_000  # polls of all threads before the first yield: with two, some 0.05 to 0.1 ms for each
_RELEASED = 1 << 62  # an arrival count that opens every barrier
_submitting = Lock()


def parallel_for(rows: int, work: Callable[[int, int], None], cost: int = 1) -> None:
    """Call ``work(begin, end)`` on shards of ``0..rows``, at the same time, on as many threads as Numba may use.

    ``cost`` is what a row takes, in units of 0.1 us: few cheap rows stay on the calling thread.

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
    """The number of threads that work of a cost, in units of 0.1 us, is worth.

    Examples
    --------
    >>> threads_for(0)
    1
    """
    return min(numba.get_num_threads(), max(cost // MIN_SHARD_COST, 1))


def run_parallel(*works: Callable[[], Any], on_error: Callable[[], None] | None = None) -> list[Any]:
    """Call all of them at the same time, the first on this thread; returns their results.

    ``on_error`` is called if this thread fails or is interrupted, before the workers are waited for.

    Examples
    --------
    >>> run_parallel(lambda: 1, lambda: 2)
    [1, 2]
    """
    futures: list[Future] = []
    try:
        with _submitting:  # the same order at every worker: calls that share a barrier would deadlock otherwise
            futures += [worker_of(os.getpid(), number).submit(work) for number, work in enumerate(works[1:])]
        own = [work() for work in works[:1]]
    except BaseException:
        if on_error is not None:
            on_error()
        raise
    finally:
        for future in futures:
            future.wait()
    return own + [future.result() for future in futures]


def with_barrier(n_threads: int, work: Callable[[int, NDArray[np.int64]], None]) -> None:
    """Call ``work(thread, arrivals)`` on all threads at once; they may call :func:`barrier`, which a failure opens."""
    arrivals = np.zeros(1, np.int64)

    def release() -> None:
        arrivals.fill(_RELEASED)

    def guarded(thread: int) -> None:
        try:
            work(thread, arrivals)
        except BaseException:
            release()
            raise

    run_parallel(*(partial(guarded, thread) for thread in range(n_threads)), on_error=release)


@njit(cache=True, **INNER)
def barrier(arrivals: Any, n_threads: Any) -> None:
    """Spin until all threads have arrived; ``arrivals`` (1,) counts on at each barrier.

    A thread yields only after a while: the others usually arrive sooner, and on a busy machine a yielded core is lost
    for the time slice of another process, which is longer than a training step.
    """
    if n_threads > 1:
        goal = min((fetch_add(arrivals) // n_threads + 1) * n_threads, _RELEASED)
        patience = _PATIENCE // n_threads
        polls = 0
        while atomic_load(arrivals) < goal:
            polls += 1
            if polls > patience and polls % _POLLS_PER_YIELD == 0:
                yield_thread()
