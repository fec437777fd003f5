"""The jobs of a study: one training each, identified by its settings, run by any process."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from vitalrank.analysis import project
from vitalrank.comparing.outcomes import Outcome, write_outcome
from vitalrank.comparing.planning import Method
from vitalrank.comparing.runner import Runner
from vitalrank.config import SETTINGS, TrainConfig
from vitalrank.errors import TrainingError
from vitalrank.evaluation import value_of
from vitalrank.history import Record
from vitalrank.models import model_class
from vitalrank.models.base import Recommender
from vitalrank.paper.logs import Source, cut
from vitalrank.paper.methods import StudyMethod
from vitalrank.samplers import Sampler
from vitalrank.tuning.results import Settings

Result = dict[str, Any]
_SHOWN = 400  # items of a projection
_KEPT = ("epoch", "seconds", "tries", "vanished", "imbalance")  # of the record of an epoch


@dataclass(frozen=True)
class StudyJob:
    """One training.

    ``kind`` says what is wanted of it: a ``trial`` or ``runoff`` its value on valid, a ``final`` what it scores on
    test, and so a ``sized`` one with another buffer, a ``long`` one its tries epoch by epoch, a ``timed`` one its
    seconds, a ``picture`` its item vectors in the plane.
    """

    kind: str
    source: Source
    method: StudyMethod
    settings: Settings
    seed: int
    protocol: str
    device: str = "cpu"

    def described(self) -> dict[str, Any]:
        """What the result depends on, as plain values."""
        return {
            "kind": self.kind,
            "log": self.source.identity(),
            "contender": self.method.name,
            "model": self.method.model,
            "model_settings": {**self.method.model_settings, **self.settings.model},
            "sampler": repr(self.sampler),
            "training": {**self.method.training, **self.settings.training},
            "seed": self.seed,
            "protocol": self.protocol,
            "device": self.device,
        }

    @cached_property
    def key(self) -> str:
        """A short name that differs whenever the work does."""
        text = json.dumps({**self.described(), "contender": None}, sort_keys=True)  # two kinds may share one training
        return hashlib.blake2b(text.encode(), digest_size=10).hexdigest()

    @property
    def sampler(self) -> Sampler | None:
        base = self.method.sampler
        return None if base is None else replace(base, **self.settings.sampler)

    @property
    def entry(self) -> Method:
        return Method(self.method.name, self.make, self.sampler)

    @property
    def cost(self) -> float:
        """A rough relative cost, to start the longest first."""
        return self.method.cost * Path(self.source.path).stat().st_size

    def make(self) -> Recommender:
        """The model, not yet trained."""
        return model_class(self.method.model)(**self.method.model_settings, **self.settings.model)

    def config(self, threads: int | None) -> TrainConfig:
        """The training settings: the model's own defaults, the method's, the job's."""
        given = {**self.make().defaults, **self.method.training, **self.settings.training}
        return TrainConfig(**given, device=self.device, threads=threads)


class OutOfTimeError(Exception):
    """The time of the study is over; the job is left for the next call."""


@dataclass
class TimeLimit:
    """Stops a training that takes too long, or beyond the end of the study.

    On a CPU the seconds are the processor's, so that what else the machine does cuts no run short.
    """

    limit: float | None  # seconds
    end: float | None  # as time.time() counts
    clock: Callable[[], float] = time.time  # of the limit
    began: float = field(init=False)
    is_cut: bool = False

    def __post_init__(self) -> None:
        self.began = self.clock()

    def __call__(self, entry: Method, seed: int, news: Record | Outcome) -> bool:
        if self.end is not None and time.time() > self.end:
            raise OutOfTimeError
        self.is_cut = self.limit is not None and self.clock() - self.began > self.limit
        return self.is_cut


@dataclass(frozen=True)
class FinishedTraining:
    """A job whose training is over, and what its result is made from."""

    job: StudyJob
    runner: Runner
    model: Any
    seconds: float
    processor_seconds: float  # of training and looks at valid, by all threads
    is_cut: bool
    folder: Path  # in the folder of the study's jobs


@dataclass(frozen=True)
class Kind:
    """How the jobs of a kind are trained and summarized."""

    summarize: Callable[[FinishedTraining], Result]
    required: str = "value"  # what its result always has
    is_counted: bool = True  # the draws, for the imbalance values
    is_validated: bool = True  # the epoch is picked on valid; else all are trained
    has_outcome: bool = False  # in a file of its own


def run_job(job: StudyJob, folder: Path, time_limit: TimeLimit, threads: int | None) -> Result:
    """Run a job; a training that diverges is a result too, and one that was cut knows at what limit."""
    try:
        result = KINDS[job.kind].summarize(_train(job, folder, time_limit, threads))
    except TrainingError as error:
        return {"error": str(error), "value": None}
    return {**result, "cut": True, "limit": time_limit.limit} if time_limit.is_cut else result


def _train(job: StudyJob, folder: Path, time_limit: TimeLimit, threads: int | None) -> FinishedTraining:
    kind, parts = KINDS[job.kind], cut(job.source, job.protocol)
    known = parts if kind.is_validated else {"train": parts["train"]}
    runner = Runner(job.config(threads), known, kind.is_counted, SETTINGS)
    model = job.make()
    began = time.process_time()
    seconds = runner.train(model, job.entry, job.seed, callback=time_limit)
    spent = time.process_time() - began
    return FinishedTraining(job, runner, model, seconds, spent, time_limit.is_cut, folder)


def _on_valid(run: FinishedTraining) -> Result:
    """The best value on valid, and when it was reached; a run cut before its first evaluation has one now."""
    config, history = run.runner.config, run.model.history
    values = [record[config.metric] for record in history if config.metric in record]
    if not values:
        values = [value_of(run.model, run.runner.parts["valid"], config.metric, config.threads)]
    best = {"value": max(values), "epoch": history.best_epoch}
    spent = {"seconds": run.seconds, "processor_seconds": run.processor_seconds}
    return {**best, "epochs": len(history), "cut": run.is_cut, **spent}


def _on_test(run: FinishedTraining) -> Result:
    """What it scores on test too; user by user, in a file of its own."""
    outcome = run.runner.evaluate(run.model, run.job.entry, run.job.seed, run.seconds, show=False)
    write_outcome(_slim(outcome), outcome_file(run.folder, run.job))
    return {**_on_valid(run), "metrics": outcome.metrics}


def outcome_file(folder: Path, job: StudyJob) -> Path:
    """Where the outcome of a job is kept."""
    return folder / f"{job.key}.outcome.json"


def _slim(outcome: Outcome) -> Outcome:
    """What a study looks up of an outcome, in a third of the space."""
    records = [{name: _short(record[name]) for name in _KEPT if name in record} for record in outcome.records]
    values: Any = outcome.per_user.astype(np.float32)
    return replace(outcome, records=records, per_user=values)


def _short(value: object) -> object:
    """Numbers with six digits."""
    if isinstance(value, dict):
        return {name: _short(part) for name, part in value.items() if name in ("min", "max", "never")}
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _plane(run: FinishedTraining) -> Result:
    """A projection of its item vectors."""
    shown = project(run.model, sample=_SHOWN)
    points = [[round(x, 3), round(y, 3)] for x, y in shown.points.tolist()]
    return {"method": shown.method, "points": points, "degree_class": shown.degree_class.tolist()}


def _tries(run: FinishedTraining) -> Result:
    """Its tries by epoch."""
    shown = ("epoch", "tries", "tries_sd", "vanished", "unviolated", "imbalance")
    return {"records": [{name: record.get(name) for name in shown} for record in run.model.history], "cut": run.is_cut}


def _times(run: FinishedTraining) -> Result:
    """The seconds of each epoch."""
    return {"seconds": [record["seconds"] for record in run.model.history], "cut": run.is_cut}


KINDS = {
    "trial": Kind(_on_valid, is_counted=False),
    "runoff": Kind(_on_valid, is_counted=False),
    "final": Kind(_on_test, has_outcome=True),
    "sized": Kind(_on_test, has_outcome=True),
    "long": Kind(_tries, required="records", is_validated=False),
    "picture": Kind(_plane, required="points", is_counted=False),
    "timed": Kind(_times, required="seconds", is_counted=False, is_validated=False),
}
