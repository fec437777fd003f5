"""Run what is to be compared, one after the other; what is finished is not run again."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from vitalrank._util.devices import resolve
from vitalrank._util.files import write_text
from vitalrank.analysis import Counted, inspect_model, picture
from vitalrank.checkpoint import foreign_files, remove_folder
from vitalrank.comparing.outcomes import Outcome, read_outcome, result_file, values_file, write_outcome
from vitalrank.comparing.planning import (
    Entry,
    check,
    check_margin,
    entries_of,
    facts_of,
    own_settings,
    seeds_of,
    slug,
)
from vitalrank.comparing.results import Results
from vitalrank.datasets import synthetic
from vitalrank.errors import SettingError, StorageError, VitalrankError
from vitalrank.evaluation import evaluate
from vitalrank.history import Record
from vitalrank.interactions import Interactions
from vitalrank.metrics import METRICS
from vitalrank.models.base import DotRecommender
from vitalrank.samplers import Sampler
from vitalrank.training import TrainConfig, Trainer

PLAN = "comparison.json"
_SHOWN = 400  # items of a picture


# Told of each epoch (its record), where a true answer stops the run, and of each finished run (its outcome).
Follower = Callable[[Entry, int, Record | Outcome], bool | None]


def run_comparison(
    log: Interactions,
    samplers: Mapping[str, Sampler],
    models: Mapping[str, Callable[[], Any]] | None = None,
    *,
    seeds: int | Sequence[int] = 3,
    config: TrainConfig | None = None,
    fixed: Collection[str] = (),
    test: float = 0.2,
    valid: float = 0.1,
    out: str | os.PathLike[str] | None = None,
    keep_models: bool = False,
    follow: Follower | None = None,
) -> Results:
    """Train every model with every sampler and every seed on one split, and rank them on the test part.

    The epoch of each run is picked on the validation part; the test part is read once per run. Seconds are of
    training alone, compiling left out; the draws are counted for the imbalance values, which costs all alike.

    Parameters
    ----------
    log
        The log; each user's last ``test`` share is held out, and ``valid`` of the rest.
    samplers
        Samplers by the names to show.
    models
        Functions that make a model, by name; ``{"mf": MF}`` unless given.
    seeds
        How many, or which. A model without a sampler runs once.
    config
        Training settings; its ``metric`` ranks. The seed is replaced, and where a setting is the library's default
        a model with a default of its own takes that.
    fixed
        Names of settings that hold for every model, whatever its own default.
    out
        Folder to keep finished runs in; a comparison that was stopped goes on there, also inside a run. None keeps
        nothing.
    keep_models
        Keep each trained model in the folder.
    follow
        Told of each epoch and each finished run.

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.datasets.synthetic(users=60, items=50, interactions=900, seed=0)
    >>> samplers = {"uni": vr.Uniform(), "vins": vr.VINS()}
    >>> results = run_comparison(log, samplers, seeds=1, config=vr.TrainConfig(epochs=2))
    >>> sorted(row.label for row in results.rows)
    ['uni', 'vins']
    """
    from vitalrank.models import MF

    config = config or TrainConfig()
    entries = entries_of(samplers, models or {"mf": MF})
    chosen = seeds_of(seeds)
    check(entries, test, valid)
    check_margin(entries, config, fixed)
    _check_metric(config)
    job = Job(
        config, dict(zip(("train", "valid", "test"), log.split_last(test, valid=valid), strict=True)), fixed=fixed
    )
    facts = {**facts_of(log, config, test, valid, chosen), "own_training": own_settings(entries, config, fixed)}
    store = None if out is None else _Store(Path(out), keep_models)
    plan = [(entry, seed) for entry in entries for seed in (chosen if entry.sampler is not None else chosen[:1])]
    if store is not None:
        store.open(facts, plan)
    outcomes: list[Outcome] = []
    for entry, seed in plan:
        try:
            outcome = job.run(entry, seed, store, follow, show=seed == chosen[0])
        except KeyboardInterrupt as stop:
            kept = "" if store is None else f" in {store.path}; the same again goes on"
            raise KeyboardInterrupt(f"stopped; {len(outcomes)} of {len(plan)} runs are finished{kept}.") from stop
        outcomes.append(outcome)
        if follow is not None:
            follow(entry, seed, outcome)
    return Results(config.metric, tuple(outcomes), facts)


def _check_metric(config: TrainConfig) -> None:
    """Refuse before the first training what has no value per user: pairs of runs could not be tested."""
    if config.measure()[0] not in METRICS:
        raise SettingError(f"metric {config.metric!r} cannot rank; choose one of {', '.join(METRICS)}, as in ndcg@10.")


@dataclass(frozen=True)
class _Store:
    """The folder of a comparison."""

    path: Path
    keep_models: bool

    def open(self, facts: Mapping[str, Any], plan: Sequence[tuple[Entry, int]]) -> None:
        """Start the folder, or make sure that it is of the same comparison; files of others are refused."""
        place = self.path / PLAN
        is_new = not place.exists()
        for entry, seed in plan:
            self._check_free(self.place(entry, seed), is_new)
        asked = {name: facts[name] for name in ("log", "split", "training", "own_training")}
        if is_new:
            write_text(place, json.dumps(asked, indent=2))
            return
        try:
            found = json.loads(place.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise StorageError(f"{place}: cannot be read ({error}); choose another folder.") from error
        for part, values in asked.items():
            for name, value in values.items():
                there = found.get(part, {}).get(name)
                if there != value:
                    raise SettingError(
                        f"{self.path}: holds a comparison with {name} {there}, not {value}; "
                        "choose another folder, or ask for the same to go on."
                    )

    @staticmethod
    def _check_free(folder: Path, is_new: bool) -> None:
        """A new comparison begins with nothing there; later, a run's folder holds no files but the run's."""
        result = result_file(folder)
        if result.exists() and not is_new:
            return  # finished: its folder is not touched
        found = [path for path in (result, values_file(result), folder) if path.exists()]
        foreign = foreign_files(folder)
        if is_new and found and (found[0] != folder or any(folder.iterdir())):
            raise StorageError(f"{found[0]}: exists, but is of no comparison; choose another folder.")
        if foreign:
            raise StorageError(f"{folder / foreign[0]}: is not part of a run; move it or choose another folder.")

    def place(self, entry: Entry, seed: int) -> Path:
        return self.path / "runs" / f"{slug(entry.label)}-seed{seed}"


@dataclass(frozen=True)
class Job:
    """What all runs share.

    Parameters
    ----------
    config
        Training settings, but for the seed.
    parts
        The log as ``train``, ``valid`` and ``test``; a valid part that is the test part is not left out of the lists.
    counted
        Count the draws for the imbalance values.
    fixed
        Names of settings that are taken as they are, also where a model has a default of its own.
    """

    config: TrainConfig
    parts: dict[str, Interactions]
    counted: bool = True
    fixed: Collection[str] = ()

    def run(self, entry: Entry, seed: int, store: _Store | None, follow: Follower | None, show: bool) -> Outcome:
        """The outcome of one run: read if it is finished, else trained and written."""
        model = entry.make()
        sampler = None if entry.sampler is None else repr(entry.sampler)
        folder = None if store is None else store.place(entry, seed)
        file = None if folder is None else result_file(folder)
        done = None if file is None else read_outcome(file, {"model": repr(model), "sampler": sampler, "seed": seed})
        if done is not None:
            return done
        model.held_out = {name: self.parts[name] for name in ("valid", "test")}
        seconds = self.train(model, entry, seed, folder, follow)
        outcome = self.measure(model, entry, seed, seconds, show)
        if file is not None and folder is not None and store is not None:
            if store.keep_models and entry.sampler is None:
                model.save(folder)
            write_outcome(outcome, file)
            if not store.keep_models:
                remove_folder(folder)
        return outcome

    def train(
        self, model: Any, entry: Entry, seed: int, folder: Path | None = None, follow: Follower | None = None
    ) -> float:
        """Train the entry's model; returns the seconds of training."""
        if entry.sampler is None:
            began = time.perf_counter()
            model.fit(self.parts["train"])
            return time.perf_counter() - began
        warm_up(entry.make(), entry.sampler, self.config, self.fixed)
        counted = Counted(entry.sampler)

        def tell(record: Record, model: Any) -> bool | None:
            return None if follow is None else follow(entry, seed, record)

        trainer = Trainer(
            replace(self.config.with_defaults(model.defaults, self.fixed), seed=seed),
            callbacks=[counted.follow, tell] if self.counted else [tell],
            checkpoint=folder,
            resume=folder is not None,
            progress=False,
        )
        sampler = counted if self.counted else entry.sampler
        history = trainer.fit(model, self.parts["train"], sampler, self.parts.get("valid"))
        return float(sum(record["seconds"] for record in history))

    def measure(self, model: Any, entry: Entry, seed: int, seconds: float, show: bool) -> Outcome:
        """What the trained model scores on the test part."""
        hidden = [] if self.parts["valid"] is self.parts["test"] else [self.parts["valid"]]
        metric, threads = self.config.metric, self.config.threads
        _, length = self.config.measure()
        device = resolve(self.config.device) if model.has_vectors else None
        result = evaluate(
            model, self.parts["test"], at=length, exclude=hidden, by="popularity", threads=threads, device=device
        )
        found = inspect_model(model, length, exclude=hidden, threads=threads)
        return Outcome(
            label=entry.label,
            model=repr(model),
            sampler=None if entry.sampler is None else repr(entry.sampler),
            seed=seed,
            metrics=dict(result),
            bands={band: values[metric] for band, values in result.groups.items() if metric in values},
            records=[dict(record) for record in model.history],
            best_epoch=model.history.best_epoch,
            seconds=seconds,
            inspection=found.to_dict(),
            picture=_picture(model) if show and isinstance(model, DotRecommender) and model.has_vectors else None,
            per_user=np.asarray(result.per_user[metric], np.float64),
        )


def warm_up(model: Any, sampler: Sampler, config: TrainConfig, fixed: Collection[str] = ()) -> None:
    """Let code be compiled before the clock runs: an epoch on a toy log."""
    toy = synthetic(users=60, items=50, interactions=600, seed=0)
    short = replace(config.with_defaults(model.defaults, fixed), epochs=1, schedule="constant")
    with suppress(VitalrankError):  # what fails here will fail, and be told, where it matters
        Trainer(short, progress=False).fit(model, toy, Counted(sampler))


def _picture(model: DotRecommender) -> dict[str, Any]:
    shown = picture(model, sample=_SHOWN)
    return {
        "method": shown.method,
        "items": [str(name) for name in model.train.item_ids[shown.items]],
        "points": shown.points.round(5).tolist(),
        "degree": shown.degree.tolist(),
        "norm": shown.norm.round(5).tolist(),
        "degree_class": shown.degree_class.tolist(),
    }
