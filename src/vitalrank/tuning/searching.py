"""A study at work: trials one after the other or several at a time, until there are enough."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from vitalrank._util.devices import taking_turns
from vitalrank._util.threads import serve_several
from vitalrank.errors import SettingError, StorageError, TrainingError
from vitalrank.evaluation import value_of
from vitalrank.history import Record
from vitalrank.interactions import Interactions
from vitalrank.training import TrainConfig, Trainer
from vitalrank.tuning import studies
from vitalrank.tuning.plans import Plan
from vitalrank.tuning.results import Trial, Tuned

# Told of each epoch (its record) and of each trial that came to an end.
Follower = Callable[[int, Record | Trial], None]

logger = logging.getLogger(__name__)

_NOTES = "outcome"  # where the study keeps what came of a trial
_WHOLE = ("finished", "repeated")  # states of trials that came to their end


@dataclass
class Search:
    """A study and what its trials share."""

    plan: Plan
    train: Interactions
    valid: Interactions
    study: Any
    distributions: dict[str, Any]
    trials: int
    on_grid: bool
    follow: Follower | None
    stopped: bool = False
    running: int = 0
    done: int = 0  # as last counted: a storage that fails cannot be asked
    lock: Any = field(default_factory=threading.Lock)

    def go(self, workers: int) -> None:
        """Run trials until the study has enough."""
        try:
            if workers == 1:
                self._work()
                return
            _check_threading()
            with taking_turns(), ThreadPoolExecutor(workers) as pool:
                jobs = [pool.submit(self._work) for _ in range(workers)]
                try:
                    for job in as_completed(jobs):
                        job.result()
                except BaseException:
                    self.stopped = True  # the others stop after their epoch
                    raise
        except KeyboardInterrupt as stop:
            done = f"{self._done()} of {self.trials} trials are done"
            raise KeyboardInterrupt(f"stopped; {done}. The same again goes on if the study has a storage.") from stop
        except (StorageError, BrokenPipeError):  # told already, or of whoever follows
            raise
        except studies.LOST as error:
            raise StorageError(
                f"the study cannot be written ({studies.first_line(error)}) after {self.done} of {self.trials} trials; "
                "mend its storage, such as a full disk, and the same again goes on."
            ) from error

    def _work(self) -> None:
        while (trial := self._next()) is not None:
            try:
                self._try(trial)
            finally:
                with self.lock:
                    self.running -= 1

    def _done(self) -> int:
        """Trials that count: all, but on a grid not those that two processes made of the same point."""
        states = [_notes(trial)["state"] for trial in studies.finished(self.study)]
        return len(states) - (states.count("repeated") if self.on_grid else 0)

    def _next(self) -> Any:
        with self.lock:
            self.done = self._done()
            if self.stopped or self.done + self.running >= self.trials:
                return None
            trial = self.study.ask(self.distributions)
            trial.set_user_attr(studies.WORKER, studies.worker_name())
            self.running += 1
            return trial

    def _try(self, trial: Any) -> None:
        """Run a trial and tell the study."""
        try:
            notes, value = self._outcome(trial)
        except BaseException:
            with contextlib.suppress(*studies.LOST):  # the error that broke it off matters more
                self.study.tell(trial, state=studies.BROKEN_OFF)
            raise
        trial.set_user_attr(_NOTES, notes)
        if notes["state"] in _WHOLE:
            self.study.tell(trial, value)
        else:
            self.study.tell(trial, state=studies.GIVEN_UP)
        logger.info("trial %d %s: %s of %s", trial.number, notes["state"], value, trial.params)
        if self.follow is not None:
            self.follow(trial.number, self._told(trial.number))

    def _outcome(self, trial: Any) -> tuple[dict[str, Any], float | None]:
        """What came of a trial: notes to keep with it, and its value."""
        before = self._earlier(trial)
        if before is not None:
            return {**_notes(before), "state": "repeated"}, before.value
        began = time.perf_counter()
        run = _Run(self, trial)
        state = run.train()
        notes = {"state": state, "value": run.best, "epoch": run.best_epoch, "epochs": run.epochs}
        return {**notes, "seconds": time.perf_counter() - began}, run.best

    def _earlier(self, trial: Any) -> Any:
        """A finished trial with the same settings: a run is a function of them."""
        return next((other for other in self._whole() if other.params == trial.params), None)

    def _whole(self) -> list[Any]:
        """Trials that came to their end; Optuna gives the others a value too, the last that they reported."""
        return [trial for trial in studies.finished(self.study) if _notes(trial)["state"] in _WHOLE]

    def _told(self, number: int) -> Trial:
        return self._trial(self.study.get_trials(deepcopy=False)[number])

    def _trial(self, trial: Any) -> Trial:
        return Trial(number=trial.number, settings=self.plan.settings(trial.params), **_notes(trial))

    def result(self) -> Tuned:
        """The winner and all trials."""
        done, whole = studies.finished(self.study), self._whole()
        if not whole:
            raise TrainingError(f"all {len(done)} trials diverged; search lower values of lr or higher ones of reg.")
        best = max(whole, key=lambda trial: (trial.value, -trial.number))
        settings = self.plan.settings(best.params)
        return Tuned(
            metric=self.plan.config.metric,
            settings=settings,
            value=float(best.value or 0.0),
            epoch=_notes(best)["epoch"],
            trials=tuple(self._trial(trial) for trial in done),
            config=self.plan.training(settings),
            make_model=partial(self.plan.model, settings),
            make_sampler=partial(self.plan.sampler, settings),
        )


@dataclass
class _Run:
    """One trial's training."""

    search: Search
    trial: Any
    best: float | None = None
    best_epoch: int | None = None
    epochs: int = 0
    behind: bool = False

    def train(self) -> str:
        """Train and measure; how it ended."""
        plan = self.search.plan
        settings = plan.settings(self.trial.params)
        model, sampler, config = plan.model(settings), plan.sampler(settings), plan.training(settings)
        if sampler is None:
            model.fit(self.search.train)
            self.best = value_of(model, self.search.valid, config.metric, config.threads)
            return "finished"
        trainer = Trainer(config, callbacks=[partial(self._epoch, config)], progress=False)
        try:
            trainer.fit(model, self.search.train, sampler, self.search.valid)
        except TrainingError:
            self.best = self.best_epoch = None
            return "diverged"
        if self.search.stopped:
            raise KeyboardInterrupt
        return "pruned" if self.behind else "finished"

    def _epoch(self, config: TrainConfig, record: Record, model: Any) -> bool:
        """Note an epoch; True stops the training."""
        self.epochs = record["epoch"]
        if self.search.follow is not None:
            self.search.follow(self.trial.number, record)
        value = record.get(config.metric)
        if value is not None:
            if self.best is None or value > self.best:
                self.best, self.best_epoch = value, self.epochs
            self.trial.report(value, self.epochs)
            self.behind = self.epochs < config.epochs and bool(self.trial.should_prune())
        return self.behind or self.search.stopped


def _notes(trial: Any) -> dict[str, Any]:
    notes: dict[str, Any] = trial.user_attrs[_NOTES]
    return notes


def _check_threading() -> None:
    """Refuse workers where they would end the process."""
    if not serve_several():
        raise SettingError(
            "Numba has neither TBB nor OpenMP here, so one process runs one trial at a time; "
            "leave out workers and start several processes with the same storage."
        )
