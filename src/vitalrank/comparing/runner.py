"""Train and evaluate one run of a comparison."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from vitalrank._util.devices import resolve
from vitalrank.analysis import Counted, inspect_model, project
from vitalrank.checkpoint import remove_folder
from vitalrank.comparing.outcomes import Outcome, read_outcome, result_file, write_outcome
from vitalrank.comparing.planning import Method, training_identity
from vitalrank.comparing.store import ComparisonFolder
from vitalrank.datasets import synthetic
from vitalrank.errors import VitalrankError
from vitalrank.evaluation import evaluate
from vitalrank.history import Record
from vitalrank.interactions import Interactions
from vitalrank.models.base import Recommender
from vitalrank.models.dot import DotRecommender
from vitalrank.models.trainable import TrainableModel
from vitalrank.samplers import Sampler
from vitalrank.training import TrainConfig, Trainer

_SHOWN = 400  # items of a projection

# Called after each epoch with its record; a true answer stops the run.
EpochCallback = Callable[[Method, int, Record], bool | None]


@dataclass(frozen=True)
class Runner:
    """What all runs share.

    Parameters
    ----------
    config
        Training settings, but for the seed.
    parts
        The log as ``train``, ``valid`` and ``test``. Without ``valid`` every run has all its epochs; a validation
        set that is the test set is not left out of the lists.
    counted
        Count the draws for the imbalance values.
    fixed
        Names of settings that are taken as they are, also where a model has a default of its own.
    """

    config: TrainConfig
    parts: dict[str, Interactions]
    counted: bool = True
    fixed: Collection[str] = ()

    def run(
        self, method: Method, seed: int, store: ComparisonFolder | None, callback: EpochCallback | None, show: bool
    ) -> Outcome:
        """The outcome of one run: read if it is finished, else trained and written."""
        model = method.make()
        if store is None:
            return self._new(model, method, seed, None, callback, show)
        folder = store.folder(method, seed)
        done = read_outcome(result_file(folder), self._identity(model, method, seed))
        if done is not None:
            return done
        outcome = self._new(model, method, seed, folder, callback, show)
        if store.keep_models and method.sampler is None:
            model.save(folder)
        write_outcome(outcome, result_file(folder))
        if not store.keep_models:
            remove_folder(folder)
        return outcome

    def _new(
        self,
        model: Recommender,
        method: Method,
        seed: int,
        folder: Path | None,
        callback: EpochCallback | None,
        show: bool,
    ) -> Outcome:
        model.held_out = {name: self.parts[name] for name in ("valid", "test") if name in self.parts}
        seconds = self.train(model, method, seed, folder, callback)
        return self.evaluate(model, method, seed, seconds, show)

    def _identity(self, model: Recommender, method: Method, seed: int) -> dict[str, Any]:
        sampler = None if method.sampler is None else repr(method.sampler)
        return {"model": repr(model), "sampler": sampler, "seed": seed, "training": self._training(method)}

    def _training(self, method: Method) -> dict[str, Any] | None:
        return None if method.sampler is None else training_identity(method.config(self.config, self.fixed))

    def train(
        self,
        model: Recommender,
        method: Method,
        seed: int,
        folder: Path | None = None,
        callback: EpochCallback | None = None,
    ) -> float:
        """Train the method's model; returns the seconds of training."""
        if method.sampler is None:
            began = time.perf_counter()
            model.fit(self.parts["train"])
            return time.perf_counter() - began
        assert isinstance(model, TrainableModel)  # no other has a sampler
        config = method.config(self.config, self.fixed)
        compile_kernels(method.make(), method.sampler, config)
        counted = Counted(method.sampler)

        def report(record: Record, model: object) -> bool | None:
            return None if callback is None else callback(method, seed, record)

        trainer = Trainer(
            replace(config, seed=seed),
            callbacks=[counted.on_epoch, report] if self.counted else [report],
            checkpoint=folder,
            resume=folder is not None,
            progress=False,
        )
        sampler = counted if self.counted else method.sampler
        history = trainer.fit(model, self.parts["train"], sampler, self.parts.get("valid"))
        return float(sum(record["seconds"] for record in history))

    def evaluate(self, model: Recommender, method: Method, seed: int, seconds: float, show: bool) -> Outcome:
        """What the trained model scores on the test set; ``show`` adds a projection of its item vectors."""
        valid = self.parts.get("valid")
        hidden = [] if valid is None or valid is self.parts["test"] else [valid]
        metric, threads = self.config.metric, self.config.threads
        _, length = self.config.parsed_metric()
        device = resolve(self.config.device) if model.has_vectors else None
        result = evaluate(
            model, self.parts["test"], at=length, exclude=hidden, by="popularity", threads=threads, device=device
        )
        found = inspect_model(model, length, exclude=hidden, threads=threads)
        return Outcome(
            label=method.label,
            model=repr(model),
            sampler=None if method.sampler is None else repr(method.sampler),
            seed=seed,
            metrics=dict(result),
            bands={band: values[metric] for band, values in result.groups.items() if metric in values},
            records=[dict(record) for record in model.history],
            best_epoch=model.history.best_epoch,
            seconds=seconds,
            inspection=found.to_dict(),
            projection=_projection(model) if show and isinstance(model, DotRecommender) and model.has_vectors else None,
            per_user=np.asarray(result.per_user[metric], np.float64),
            training=self._training(method),
        )


def compile_kernels(model: Recommender, sampler: Sampler, config: TrainConfig) -> None:
    """Compile the kernels of a run before its clock starts, by an epoch on a toy log."""
    toy = synthetic(users=60, items=50, interactions=600, seed=0)
    assert isinstance(model, TrainableModel)
    short = replace(config, epochs=1, schedule="constant")
    with suppress(VitalrankError):  # what fails here will fail, and be reported, where it matters
        Trainer(short, progress=False).fit(model, toy, Counted(sampler))


def _projection(model: DotRecommender) -> dict[str, Any]:
    shown = project(model, sample=_SHOWN)
    return {
        "method": shown.method,
        "items": [str(name) for name in model.train.item_ids[shown.items]],
        "points": shown.points.round(5).tolist(),
        "degree": shown.degree.tolist(),
        "norm": shown.norm.round(5).tolist(),
        "degree_class": shown.degree_class.tolist(),
    }
