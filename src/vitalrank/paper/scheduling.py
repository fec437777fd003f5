"""A worker pool that runs a graph of tasks: by rank, longest job first, dependent tasks as soon as they are known."""

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
from vitalrank.comparing.runner import compile_kernels
from vitalrank.config import TrainConfig
from vitalrank.paper.jobs import OutOfTimeError, Result, StudyJob, TimeLimit, run_job
from vitalrank.paper.store import Store

_THREADS = ("NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")

JobCallback = Callable[[StudyJob, Result, int], None]  # called with each finished job and the number of waiting ones


@dataclass
class Task:
    """Jobs, their priority (lower ranks run first), and the tasks that depend on all of them."""

    jobs: list[StudyJob]
    rank: int = 0
    then: Callable[[], list[Task]] | None = None
    pending: set[str] = field(default_factory=set)  # keys of unfinished jobs; set by the scheduler


@dataclass(frozen=True)
class WorkerPool:
    """Worker processes, their device and their time limits."""

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


def run_tasks(tasks: Iterable[Task], store: Store, pool: WorkerPool, callback: JobCallback | None = None) -> bool:
    """Run tasks and those that depend on them; False if time ran out first or a job could not be run."""
    queue = _Queue(store, callback)
    for task in tasks:
        queue.add(task)
    if not queue.waiting:
        return True
    if all(job.device == "cpu" for *_, job in queue.waiting):
        pool = replace(pool, device="cpu")
    if pool.workers == 1 and pool.device == "cpu":
        return _run_serially(queue, store, pool)
    return _run_in_processes(queue, store, pool)


class _Queue:
    """A priority queue of jobs, and the tasks that depend on them."""

    def __init__(self, store: Store, callback: JobCallback | None) -> None:
        self.store = store
        self.callback = callback
        self.done = 0
        self.error: Exception | None = None  # the first of a job that could not be run
        self.waiting: list[tuple[int, float, int, StudyJob]] = []
        self._tasks: dict[str, list[Task]] = {}
        self._order = count()

    def add(self, task: Task) -> None:
        """Add a task; if all of its jobs are finished, the tasks that depend on it."""
        task.pending = {job.key for job in task.jobs if job not in self.store}
        for job in task.jobs:
            if job.key not in task.pending:
                continue
            if job.key not in self._tasks:
                heapq.heappush(self.waiting, (task.rank, -job.cost, next(self._order), job))
            self._tasks.setdefault(job.key, []).append(task)
        if not task.pending:
            self._add_dependents(task)

    def pop(self) -> StudyJob:
        """The job of the highest priority."""
        return heapq.heappop(self.waiting)[-1]

    def complete(self, job: StudyJob, result: Result) -> None:
        """Store a result and mark its job as finished."""
        self.store.write(job, result)
        self.done += 1
        for task in self._tasks.pop(job.key, []):
            task.pending.discard(job.key)
            if not task.pending:
                self._add_dependents(task)
        self._report(job, result)

    def fail(self, job: StudyJob, error: Exception) -> None:
        """Record that a job cannot be run; the others go on."""
        self.error = self.error or error
        self._report(job, {"error": f"failed, {type(error).__name__}: {error}"})

    def is_done(self) -> bool:
        """Whether every job was run; raises the first error if none was."""
        if self.error is not None and not self.done:
            raise self.error
        return self.error is None

    def _report(self, job: StudyJob, result: Result) -> None:
        if self.callback is not None:
            self.callback(job, result, len(self.waiting))

    def _add_dependents(self, task: Task) -> None:
        then, task.then = task.then, None
        for other in then() if then is not None else ():
            self.add(other)


def _run_serially(queue: _Queue, store: Store, pool: WorkerPool) -> bool:
    """Run the jobs one after another in this process."""
    while queue.waiting:
        if _is_over(pool):
            return False
        job = queue.pop()
        try:
            queue.complete(job, _done(job, store.folder, pool))
        except OutOfTimeError:
            return False
        except Exception as error:
            queue.fail(job, error)
    return queue.is_done()


def _run_in_processes(queue: _Queue, store: Store, pool: WorkerPool) -> bool:
    first = queue.waiting[0][-1]
    if first.sampler is not None:
        # Compile the shared kernels once, not once per process.
        model = first.make()
        compile_kernels(model, first.sampler, TrainConfig(device=pool.device).with_defaults(model.defaults))
    is_over = False
    running: dict[Future[Result], StudyJob] = {}
    with pool.executor() as executor:
        while running or (queue.waiting and not is_over):
            while queue.waiting and len(running) < pool.workers and not _is_over(pool):
                job = queue.pop()
                running[executor.submit(_in_worker, job, store.folder, pool)] = job
            is_over = is_over or _is_over(pool)
            if not running:
                break
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                job = running.pop(future)
                try:
                    queue.complete(job, future.result())
                except OutOfTimeError:
                    is_over = True
                except Exception as error:
                    queue.fail(job, error)
    return queue.is_done() and not is_over


def _in_worker(job: StudyJob, folder: Path, pool: WorkerPool) -> Result:
    try:
        return _done(job, folder, pool)
    finally:
        give_back(job.device)


def _done(job: StudyJob, folder: Path, pool: WorkerPool) -> Result:
    clock = time.process_time if job.device == "cpu" else time.time
    result = run_job(job, folder, TimeLimit(pool.run_seconds, pool.end, clock), pool.threads)
    return {**result, "workers": pool.workers}  # its seconds depend on them


def _is_over(pool: WorkerPool) -> bool:
    return pool.end is not None and time.time() > pool.end
