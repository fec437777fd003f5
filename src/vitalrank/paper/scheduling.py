"""Many units side by side: the important first, the long before the short, what follows from them as soon as it can."""

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
from vitalrank.paper.store import Store
from vitalrank.paper.units import OutOfTimeError, Result, Unit, Watch, perform

_THREADS = ("NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")

Tell = Callable[[Unit, Result, int], None]  # told of each finished unit, and of how many are waiting


@dataclass
class Goal:
    """Units that are wanted, how urgently, and what is wanted once all of them are finished."""

    units: list[Unit]
    rank: int = 0
    then: Callable[[], list[Goal]] | None = None
    missing: set[str] = field(default_factory=set)  # keys of unfinished units; the scheduler's


@dataclass(frozen=True)
class Crew:
    """Who does the work, and until when."""

    workers: int
    device: str
    run_seconds: float | None
    end: float | None  # as time.time() counts

    @property
    def threads(self) -> int:
        """Threads of one unit."""
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


def achieve(goals: Iterable[Goal], store: Store, crew: Crew, tell: Tell | None = None) -> bool:
    """Reach the goals and those that follow from them; False if time ran out first or a unit could not be run."""
    queue = _Queue(store, tell)
    for goal in goals:
        queue.add(goal)
    if not queue.waiting:
        return True
    if all(unit.device == "cpu" for *_, unit in queue.waiting):
        crew = replace(crew, device="cpu")
    if crew.workers == 1 and crew.device == "cpu":
        return _alone(queue, store, crew)
    return _together(queue, store, crew)


class _Queue:
    """Units that wait to be done, and the goals that wait for them."""

    def __init__(self, store: Store, tell: Tell | None) -> None:
        self.store = store
        self.tell = tell
        self.done = 0
        self.error: Exception | None = None  # the first of a unit that could not be run
        self.waiting: list[tuple[int, float, int, Unit]] = []
        self._goals: dict[str, list[Goal]] = {}
        self._order = count()

    def add(self, goal: Goal) -> None:
        """Take in a goal; if nothing of it is left to do, what follows from it."""
        goal.missing = {unit.key for unit in goal.units if unit not in self.store}
        for unit in goal.units:
            if unit.key not in goal.missing:
                continue
            if unit.key not in self._goals:
                heapq.heappush(self.waiting, (goal.rank, -unit.cost, next(self._order), unit))
            self._goals.setdefault(unit.key, []).append(goal)
        if not goal.missing:
            self._follow(goal)

    def next(self) -> Unit:
        """The most urgent unit."""
        return heapq.heappop(self.waiting)[-1]

    def take_in(self, unit: Unit, result: Result) -> None:
        """Keep a result and cross its unit off."""
        self.store.write(unit, result)
        self.done += 1
        for goal in self._goals.pop(unit.key, []):
            goal.missing.discard(unit.key)
            if not goal.missing:
                self._follow(goal)
        self._say(unit, result)

    def failed(self, unit: Unit, error: Exception) -> None:
        """Leave out a unit that cannot be run, so that the others go on."""
        self.error = self.error or error
        self._say(unit, {"error": f"failed, {type(error).__name__}: {error}"})

    def is_achieved(self) -> bool:
        """Whether every unit was done; if none was, the error says why."""
        if self.error is not None and not self.done:
            raise self.error
        return self.error is None

    def _say(self, unit: Unit, result: Result) -> None:
        if self.tell is not None:
            self.tell(unit, result, len(self.waiting))

    def _follow(self, goal: Goal) -> None:
        then, goal.then = goal.then, None
        for other in then() if then is not None else ():
            self.add(other)


def _alone(queue: _Queue, store: Store, crew: Crew) -> bool:
    """One unit after the other, in this process."""
    while queue.waiting:
        if _is_over(crew):
            return False
        unit = queue.next()
        try:
            queue.take_in(unit, _done(unit, store.folder, crew))
        except OutOfTimeError:
            return False
        except Exception as error:
            queue.failed(unit, error)
    return queue.is_achieved()


def _together(queue: _Queue, store: Store, crew: Crew) -> bool:
    first = queue.waiting[0][-1]
    if first.sampler is not None:
        # Compile what all share once, not once a process.
        warm_up(first.make(), first.sampler, TrainConfig(device=crew.device))
    is_over = False
    running: dict[Future[Result], Unit] = {}
    with crew.executor() as executor:
        while running or (queue.waiting and not is_over):
            while queue.waiting and len(running) < crew.workers and not _is_over(crew):
                unit = queue.next()
                running[executor.submit(_in_worker, unit, store.folder, crew)] = unit
            is_over = is_over or _is_over(crew)
            if not running:
                break
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                unit = running.pop(future)
                try:
                    queue.take_in(unit, future.result())
                except OutOfTimeError:
                    is_over = True
                except Exception as error:
                    queue.failed(unit, error)
    return queue.is_achieved() and not is_over


def _in_worker(unit: Unit, folder: Path, crew: Crew) -> Result:
    try:
        return _done(unit, folder, crew)
    finally:
        give_back(unit.device)


def _done(unit: Unit, folder: Path, crew: Crew) -> Result:
    result = perform(unit, folder, Watch(crew.run_seconds, crew.end), crew.threads)
    return {**result, "workers": crew.workers}  # its seconds depend on them


def _is_over(crew: Crew) -> bool:
    return crew.end is not None and time.time() > crew.end
