"""Many jobs side by side: the important first, the long before the short, what follows from them as soon as it can."""

from __future__ import annotations

import heapq
import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from multiprocessing import get_context
from pathlib import Path

from vitalrank._util.devices import give_back
from vitalrank.comparing.runner import warm_up
from vitalrank.config import TrainConfig
from vitalrank.paper.jobs import OutOfTimeError, Result, StudyJob, Watch, perform
from vitalrank.paper.store import Store

_THREADS = ("NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")

Callback = Callable[[StudyJob, Result, int], None]  # told of each finished job, and of how many are waiting


@dataclass
class Task:
    """Jobs that are wanted, how urgently, and what is wanted once all of them are finished."""

    jobs: list[StudyJob]
    rank: int = 0
    then: Callable[[], list[Task]] | None = None
    missing: set[str] = field(default_factory=set)  # keys of unfinished jobs; the scheduler's


@dataclass(frozen=True)
class WorkerPool:
    """Who does the work, and until when."""

    workers: int
    device: str
    run_seconds: float | None
    end: float | None  # as time.time() counts

    @property
    def threads(self) -> int:
        """Threads of one job."""
        return 1 if self.device == "cpu" else max(1, (os.cpu_count() or 1) // self.workers)

    @contextmanager
    def executor(self) -> Iterator[Executor]:
        """Processes of a few threads each; on a GPU too, where threads of one process would wait for each other."""
        before = {name: os.environ.get(name) for name in _THREADS}
        os.environ.update(dict.fromkeys(_THREADS, str(self.threads)))  # read when a process starts
        try:
            with ProcessPoolExecutor(self.workers, get_context("spawn")) as processes:
                yield processes
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})


def run_tasks(tasks: Iterable[Task], store: Store, pool: WorkerPool, callback: Callback | None = None) -> bool:
    """Reach the tasks and those that follow from them; False if time ran out first or a job could not be run."""
    queue = _Queue(store, callback)
    for task in tasks:
        queue.add(task)
    if not queue.waiting:
        return True
    if all(job.device == "cpu" for *_, job in queue.waiting):
        pool = replace(pool, device="cpu")
    if pool.workers == 1 and pool.device == "cpu":
        return _alone(queue, store, pool)
    return _together(queue, store, pool)


class _Queue:
    """Jobs that wait to be done, and the tasks that wait for them."""

    def __init__(self, store: Store, callback: Callback | None) -> None:
        self.store = store
        self.callback = callback
        self.done = 0
        self.error: Exception | None = None  # the first of a job that could not be run
        self.waiting: list[tuple[int, float, int, StudyJob]] = []
        self._tasks: dict[str, list[Task]] = {}
        self._order = count()

    def add(self, task: Task) -> None:
        """Take in a task; if nothing of it is left to do, what follows from it."""
        task.missing = {job.key for job in task.jobs if job not in self.store}
        for job in task.jobs:
            if job.key not in task.missing:
                continue
            if job.key not in self._tasks:
                heapq.heappush(self.waiting, (task.rank, -job.cost, next(self._order), job))
            self._tasks.setdefault(job.key, []).append(task)
        if not task.missing:
            self._follow(task)

    def next(self) -> StudyJob:
        """The most urgent job."""
        return heapq.heappop(self.waiting)[-1]

    def take_in(self, job: StudyJob, result: Result) -> None:
        """Keep a result and cross its job off."""
        self.store.write(job, result)
        self.done += 1
        for task in self._tasks.pop(job.key, []):
            task.missing.discard(job.key)
            if not task.missing:
                self._follow(task)
        self._say(job, result)

    def failed(self, job: StudyJob, error: Exception) -> None:
        """Leave out a job that cannot be run, so that the others go on."""
        self.error = self.error or error
        self._say(job, {"error": f"failed, {type(error).__name__}: {error}"})

    def is_done(self) -> bool:
        """Whether every job was done; if none was, the error says why."""
        if self.error is not None and not self.done:
            raise self.error
        return self.error is None

    def _say(self, job: StudyJob, result: Result) -> None:
        if self.callback is not None:
            self.callback(job, result, len(self.waiting))

    def _follow(self, task: Task) -> None:
        then, task.then = task.then, None
        for other in then() if then is not None else ():
            self.add(other)


def _alone(queue: _Queue, store: Store, pool: WorkerPool) -> bool:
    """One job after the other, in this process."""
    while queue.waiting:
        if _is_over(pool):
            return False
        job = queue.next()
        try:
            queue.take_in(job, _done(job, store.folder, pool))
        except OutOfTimeError:
            return False
        except Exception as error:
            queue.failed(job, error)
    return queue.is_done()


def _together(queue: _Queue, store: Store, pool: WorkerPool) -> bool:
    first = queue.waiting[0][-1]
    if first.sampler is not None:
        # Compile what all share once, not once a process.
        warm_up(first.make(), first.sampler, TrainConfig(device=pool.device))
    is_over = False
    running: dict[Future[Result], StudyJob] = {}
    with pool.executor() as executor:
        while running or (queue.waiting and not is_over):
            while queue.waiting and len(running) < pool.workers and not _is_over(pool):
                job = queue.next()
                running[executor.submit(_in_worker, job, store.folder, pool)] = job
            is_over = is_over or _is_over(pool)
            if not running:
                break
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                job = running.pop(future)
                try:
                    queue.take_in(job, future.result())
                except OutOfTimeError:
                    is_over = True
                except Exception as error:
                    queue.failed(job, error)
    return queue.is_done() and not is_over


def _in_worker(job: StudyJob, folder: Path, pool: WorkerPool) -> Result:
    try:
        return _done(job, folder, pool)
    finally:
        give_back(job.device)


def _done(job: StudyJob, folder: Path, pool: WorkerPool) -> Result:
    result = perform(job, folder, Watch(pool.run_seconds, pool.end), pool.threads)
    return {**result, "workers": pool.workers}  # its seconds depend on them


def _is_over(pool: WorkerPool) -> bool:
    return pool.end is not None and time.time() > pool.end
