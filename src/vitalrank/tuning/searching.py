"""A study at work: trials one after the other or several at a time, until there are enough."""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import FrozenTrial

from vitalrank._util.devices import fast_thread_switching
from vitalrank._util.threads import serve_several
from vitalrank.config import TrainConfig
from vitalrank.errors import SettingError, TrainingError
from vitalrank.evaluation import value_of
from vitalrank.history import Record
from vitalrank.interactions import Interactions
from vitalrank.models.base import Recommender
from vitalrank.models.trainable import TrainableModel
from vitalrank.training import Trainer
from vitalrank.tuning import studies
from vitalrank.tuning.claims import OUTCOME, Claims
from vitalrank.tuning.plans import Plan
from vitalrank.tuning.results import Trial

# Called with a trial's number after each of its epochs (the record) and when it has ended.
TrialCallback = Callable[[int, Record | Trial], None]

logger = logging.getLogger(__name__)

REPEAT = "repeat"  # parameter of a run-off: added to the seed of training
STOPPED = "stopped"  # state of a trial that its time limit ended: the best epoch until then is its result
WHOLE = ("finished", "repeated", STOPPED)  # states of trials that have a result
_POLL_SECONDS = 0.3


@dataclass
class Search:
    """Runs the trials of a study."""

    plan: Plan
    train: Interactions
    valid: Interactions
    claims: Claims
    callback: TrialCallback | None
    trials: int  # wanted
    limit: float = math.inf  # seconds of a trial
    stopped: threading.Event = field(default_factory=threading.Event)
    _fitted: Recommender | None = None  # the last model without training steps
    _done: int = 0  # trials, as last counted: a storage that fails cannot be asked
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, workers: int) -> None:
        """Run trials until every one that is wanted is finished, here or by other processes."""
        try:
            with studies.written(lambda: f" after {self._done} of {self.trials} trials"):
                self._run_all(workers)
        except KeyboardInterrupt as stop:
            done = f"{len(self.claims.finished)} of {self.trials} trials are done"
            raise KeyboardInterrupt(f"stopped; {done}. The same again goes on if the study has a storage.") from stop

    def _run_all(self, workers: int) -> None:
        if workers == 1:
            self._work()
            return
        _check_threading()
        with fast_thread_switching(), ThreadPoolExecutor(workers) as pool:
            jobs = [pool.submit(self._work) for _ in range(workers)]
            try:
                for job in as_completed(jobs):
                    job.result()
            except BaseException:
                self.stopped.set()  # the others stop after their epoch
                raise

    def run_one(self, limit: float) -> bool:
        """Run the next trial for at most so many seconds; False if there is none, or none yet."""
        self.limit = limit
        trial, is_complete, waits = self._claimed()
        if trial is not None:
            self._run(trial)
        return not (is_complete or waits)  # another worker may have claimed it: ask again

    @property
    def whole(self) -> list[FrozenTrial]:
        """Trials that came to their end; Optuna gives the others a value too, the last that they reported."""
        return [trial for trial in self.claims.finished if trial.user_attrs[OUTCOME]["state"] in WHOLE]

    def fitted(self, model: Recommender) -> Recommender:
        """The model fitted; the last one again where fit would compute the same."""
        last = self._fitted
        scoring = {name: value for name, value in model.settings().items() if name in model.scoring_settings}
        if last is not None and last.settings() | scoring == model.settings():
            return last.rescored(**scoring)
        self._fitted = last = None  # its memory may be needed
        model.fit(self.train)
        if scoring:
            self._fitted = model
        return model

    def trial(self, trial: FrozenTrial) -> Trial:
        """A finished trial, as the caller sees it."""
        return Trial(number=trial.number, settings=self.plan.settings(trial.params), **trial.user_attrs[OUTCOME])

    def _work(self) -> None:
        while (trial := self._next()) is not None:
            self._run(trial)

    def _next(self) -> optuna.Trial | None:
        """The next trial of this worker; waits while that depends on trials of others."""
        while not self.stopped.is_set():
            trial, is_complete, waits = self._claimed()
            if trial is not None or is_complete:
                return trial
            if waits:
                self.stopped.wait(_POLL_SECONDS)
        return None

    def _claimed(self) -> tuple[optuna.Trial | None, bool, bool]:
        """The next trial, whether all are finished, and whether the next one depends on trials that still run."""
        claims = self.claims
        with self._lock:
            history = claims.history()
            self._done = len(history.finished)
            if claims.method.is_complete(history):
                return None, True, False
            params = claims.method.propose(history)
            return (None, False, True) if params is None else (claims.claim(params, history), False, False)

    def _run(self, trial: optuna.Trial) -> None:
        """Run a trial and write what came of it."""
        try:
            outcome, value = self._outcome(trial)
            is_kept = self.claims.finish(trial, outcome, value, outcome["state"] in WHOLE)
        except UpdateFinishedTrialError:
            is_kept = False
        except BaseException:
            with contextlib.suppress(*studies.LOST):  # the error that ended it matters more
                self.claims.abandon(trial)
            raise
        if not is_kept:
            logger.warning("trial %d took so long that other workers gave it up", trial.number)
            return
        with self._lock:
            self._done += 1
        logger.info("trial %d %s: %s of %s", trial.number, outcome["state"], value, trial.params)
        if self.callback is not None:
            settings = self.plan.settings(trial.params)
            self.callback(trial.number, Trial(number=trial.number, settings=settings, **outcome))

    def _outcome(self, trial: optuna.Trial) -> tuple[dict[str, Any], float | None]:
        """What came of a trial: a note to keep with it, and its value."""
        same = (other for other in self.whole if other.params == trial.params)
        before = next((other for other in same if other.user_attrs[OUTCOME]["state"] != STOPPED), None)
        if before is not None:  # a run is a function of its settings
            return {**before.user_attrs[OUTCOME], "state": "repeated"}, before.value
        began = time.perf_counter()
        run = _TrialRun(self, trial)
        state = run.train()
        outcome = {"state": state, "value": run.best, "epoch": run.best_epoch, "epochs": run.epochs}
        return {**outcome, "seconds": time.perf_counter() - began}, run.best


@dataclass
class _TrialRun:
    """One trial's training."""

    search: Search
    trial: optuna.Trial
    best: float | None = None
    best_epoch: int | None = None
    epochs: int = 0
    pruned: bool = False
    timed_out: bool = False
    began: float = field(default_factory=time.perf_counter)

    def train(self) -> str:
        """Train and measure; returns the state in which it ended."""
        plan, params = self.search.plan, self.trial.params
        settings = plan.settings(params)
        model, sampler, config = plan.model(settings), plan.sampler(settings), plan.training(settings)
        if sampler is None:
            return self._fit(model, config)
        config = replace(config, seed=config.seed + params.get(REPEAT, 0))
        assert isinstance(model, TrainableModel)  # no other has a sampler
        trainer = Trainer(config, callbacks=[partial(self._on_epoch, config)], progress=False)
        try:
            trainer.fit(model, self.search.train, sampler, self.search.valid)
        except TrainingError:
            self.best = self.best_epoch = None
            return "diverged"
        if self.search.stopped.is_set():
            raise KeyboardInterrupt
        if self.timed_out:
            return STOPPED
        return "pruned" if self.pruned else "finished"

    def _fit(self, model: Recommender, config: TrainConfig) -> str:
        """Fit and measure a model without training steps."""
        try:
            model = self.search.fitted(model)
        except TrainingError:
            return "diverged"
        self.best = value_of(model, self.search.valid, config.metric, config.threads)
        return "finished"

    def _on_epoch(self, config: TrainConfig, record: Record, model: Recommender) -> bool:
        """Report an epoch; True stops the training."""
        self.epochs = record["epoch"]
        if self.search.callback is not None:
            self.search.callback(self.trial.number, record)
        value = record.get(config.metric)
        if value is not None:
            if self.best is None or value > self.best:
                self.best, self.best_epoch = value, self.epochs
            self.trial.report(value, self.epochs)
            more = self.epochs < config.epochs
            self.pruned = more and bool(self.trial.should_prune())
            self.timed_out = more and not self.pruned and time.perf_counter() - self.began > self.search.limit
        return self.pruned or self.timed_out or self.search.stopped.is_set()


def _check_threading() -> None:
    """Refuse workers where they would end the process."""
    if not serve_several():
        raise SettingError(
            "Numba has neither TBB nor OpenMP here, so one process runs one trial at a time; "
            "leave out workers and start several processes with the same storage."
        )
