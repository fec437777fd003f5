"""The smallest piece of work: one training, known by its settings, done by any process."""

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

from vitalrank.analysis import picture
from vitalrank.comparing.outcomes import Outcome, write_outcome
from vitalrank.comparing.planning import Entry
from vitalrank.comparing.running import Job
from vitalrank.errors import TrainingError
from vitalrank.evaluation import evaluate
from vitalrank.models import model_class
from vitalrank.paper.contenders import Contender
from vitalrank.paper.logs import Source, cut
from vitalrank.training.history import Record
from vitalrank.training.settings import SETTINGS, TrainConfig
from vitalrank.tuning.results import Settings

Result = dict[str, Any]
_SHOWN = 400  # items of a picture
_KEPT = ("epoch", "seconds", "tries", "vanished", "imbalance")  # of the record of an epoch


@dataclass(frozen=True)
class Unit:
    """One training.

    ``kind`` says what is wanted of it: a ``trial`` or ``runoff`` its value on valid, a ``final`` what it scores on
    test, and so a ``sized`` one with another buffer, a ``long`` one its tries epoch by epoch, a ``timed`` one its
    seconds, a ``picture`` its item vectors in the plane.
    """

    kind: str
    source: Source
    contender: Contender
    settings: Settings
    seed: int
    protocol: str
    device: str = "cpu"

    def described(self) -> dict[str, Any]:
        """What the result depends on, as plain values."""
        return {
            "kind": self.kind,
            "log": self.source.identity(),
            "contender": self.contender.name,
            "model": self.contender.model,
            "model_settings": self.settings.model,
            "sampler": repr(self.sampler),
            "training": {**self.contender.training, **self.settings.training},
            "seed": self.seed,
            "protocol": self.protocol,
            "device": self.device,
        }

    @cached_property
    def key(self) -> str:
        """A short name that differs whenever the work does."""
        text = json.dumps({**self.described(), "contender": None}, sort_keys=True)  # two may share their work
        return hashlib.blake2b(text.encode(), digest_size=10).hexdigest()

    @property
    def sampler(self) -> Any:
        base = self.contender.sampler
        return None if base is None else replace(base, **self.settings.sampler)

    @property
    def cost(self) -> float:
        """How long it may take, roughly and relative to others."""
        return self.contender.cost * Path(self.source.path).stat().st_size

    def make(self) -> Any:
        """The model, not yet trained."""
        return model_class(self.contender.model)(**self.settings.model)

    def config(self, threads: int | None) -> TrainConfig:
        """The training settings: the model's own defaults, the contender's, the unit's."""
        own = getattr(self.make(), "defaults", {})
        given = {**own, **self.contender.training, **self.settings.training}
        return TrainConfig(**given, device=self.device, threads=threads)


class OutOfTimeError(Exception):
    """The study's time is over; the unit is left for the next one."""


@dataclass
class Watch:
    """Stops a training that takes too long, or beyond the end of the study."""

    limit: float | None  # seconds
    end: float | None  # as time.time() counts
    began: float = field(default_factory=time.time)
    is_cut: bool = False

    def __call__(self, entry: Entry, seed: int, news: Record | Outcome) -> bool:
        now = time.time()
        if self.end is not None and now > self.end:
            raise OutOfTimeError
        self.is_cut = self.limit is not None and now - self.began > self.limit
        return self.is_cut


def perform(unit: Unit, folder: Path, watch: Watch, threads: int | None) -> Result:
    """Do the work; a training that diverges is a result too."""
    entry = Entry(unit.contender.name, unit.make, unit.sampler)
    try:
        return KINDS[unit.kind](unit, entry, folder, watch, threads)
    except TrainingError as error:
        return {"error": str(error), "value": None}


def _trial(unit: Unit, entry: Entry, folder: Path, watch: Watch, threads: int | None) -> Result:
    job = Job(unit.config(threads), cut(unit.source, unit.protocol), counted=False, fixed=SETTINGS)
    model = unit.make()
    seconds = job.train(model, entry, unit.seed, follow=watch)
    return {**_told(model, job, watch), "seconds": seconds}


def _final(unit: Unit, entry: Entry, folder: Path, watch: Watch, threads: int | None) -> Result:
    job = Job(unit.config(threads), cut(unit.source, unit.protocol), fixed=SETTINGS)
    model = unit.make()
    seconds = job.train(model, entry, unit.seed, follow=watch)
    outcome = job.measure(model, entry, unit.seed, seconds, show=False)
    write_outcome(_slim(outcome), folder / f"{unit.key}.outcome.json")
    return {**_told(model, job, watch), "seconds": seconds, "metrics": outcome.metrics}


def _slim(outcome: Outcome) -> Outcome:
    """What a study looks up of an outcome, in a third of the space."""
    records = [{name: _short(record[name]) for name in _KEPT if name in record} for record in outcome.records]
    values: Any = outcome.per_user.astype(np.float32)
    return replace(outcome, records=records, per_user=values)


def _short(value: Any) -> Any:
    """Numbers with six digits."""
    if isinstance(value, dict):
        return {name: _short(part) for name, part in value.items() if name in ("min", "max", "never")}
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _picture(unit: Unit, entry: Entry, folder: Path, watch: Watch, threads: int | None) -> Result:
    job = Job(unit.config(threads), cut(unit.source, unit.protocol), counted=False, fixed=SETTINGS)
    model = unit.make()
    job.train(model, entry, unit.seed, follow=watch)
    shown = picture(model, sample=_SHOWN)
    points = [[round(x, 3), round(y, 3)] for x, y in shown.points.tolist()]
    return {"method": shown.method, "points": points, "degree_class": shown.degree_class.tolist()}


def _long(unit: Unit, entry: Entry, folder: Path, watch: Watch, threads: int | None) -> Result:
    job = Job(unit.config(threads), {"train": cut(unit.source, unit.protocol)["train"]}, fixed=SETTINGS)
    model = unit.make()
    job.train(model, entry, unit.seed, follow=watch)
    shown = ("epoch", "tries", "tries_sd", "vanished", "unviolated", "imbalance")
    return {"records": [{name: record.get(name) for name in shown} for record in model.history], "cut": watch.is_cut}


def _timed(unit: Unit, entry: Entry, folder: Path, watch: Watch, threads: int | None) -> Result:
    job = Job(unit.config(threads), {"train": cut(unit.source, unit.protocol)["train"]}, counted=False, fixed=SETTINGS)
    model = unit.make()
    job.train(model, entry, unit.seed, follow=watch)
    return {"seconds": [record["seconds"] for record in model.history], "cut": watch.is_cut}


# What a unit of each kind does.
KINDS: dict[str, Callable[[Unit, Entry, Path, Watch, int | None], Result]] = {
    "trial": _trial,
    "runoff": _trial,
    "final": _final,
    "long": _long,
    "picture": _picture,
    "sized": _final,
    "timed": _timed,
}


def _told(model: Any, job: Job, watch: Watch) -> Result:
    """The best value on valid, and when it was reached; a run cut before its first evaluation has one now."""
    metric, history = job.config.metric, getattr(model, "history", ())
    values = [record[metric] for record in history if metric in record]
    if not values:
        name, length = job.config.measure()
        found = evaluate(model, job.parts["valid"], at=length, metrics=(name,), threads=job.config.threads)
        values = [float(found[metric])]
    best = getattr(history, "best_epoch", None)
    return {"value": max(values), "epoch": best, "epochs": len(history), "cut": watch.is_cut}
