"""Table 4, Table 5 and Figures 7 to 9: time, buffers, and other models; and VINS with one thing changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from vitalrank.comparing.outcomes import Outcome
from vitalrank.paper.experiment import Data, mean_and_spread
from vitalrank.paper.jobs import Result, StudyJob
from vitalrank.paper.logs import Source
from vitalrank.paper.methods import METHODS, MODEL_LABELS, StudyMethod
from vitalrank.paper.quality import SEARCHERS
from vitalrank.paper.scheduling import Task
from vitalrank.paper.study import Study

BUFFERS = (8, 16, 32, 64, 128, 1024)
MODELS = tuple(MODEL_LABELS)
MODEL_SAMPLERS = ("uni", "dns", "lfm-w", "vins")
TIMED = tuple(name for name, method in METHODS.items() if method.sampler is not None)
TIMED_SEED = 0


# ------------------------------------------------------------------------------------------------- Table 4


def timed_tasks(study: Study) -> list[Task]:
    """Time the samplers whose settings are known."""
    pairs = [pair for source in study.sources for pair in _timed_units(study, source)]
    return [Task([job], method.rank) for method, job in pairs]


def _timed_units(study: Study, source: Source) -> Iterator[tuple[StudyMethod, StudyJob]]:
    for name in study.among(TIMED):
        job = study.varied("timed", source, METHODS[name], TIMED_SEED)
        if job is not None:
            yield METHODS[name], job


def seconds_per_epoch(study: Study, source: Source) -> Data:
    """Table 4: seconds per epoch, and their ratio to Uniform's."""
    rows: Data = {}
    for method, job in _timed_units(study, source):
        result = study.store.read(job) or {}
        timed = result.get("seconds") or []
        if timed:
            # The first epoch also warms caches.
            seconds = float(np.mean(timed[1:] or timed))
            rows[method.name] = {
                "label": method.label, "beyond": method.beyond, "seconds": seconds,
                "workers": result.get("workers", study.settings.timed_workers),
            }  # fmt: skip
    base = rows.get("uni")
    for row in rows.values():
        row["relative"] = row["seconds"] / base["seconds"] if base else None
    return rows


def how_timed(study: Study) -> Data:
    """The number of parallel runs, and the epochs of each."""
    return {"workers": study.settings.timed_workers, "epochs": study.settings.timed_epochs}


def _beside(results: Sequence[Result]) -> Data:
    """The largest number of runs in parallel with these, themselves included; empty where unknown."""
    known = [result["workers"] for result in results if "workers" in result]
    return {"workers": max(known)} if known else {}


def _seconds_of_epochs(runs: Sequence[Outcome]) -> Data | None:
    """Seconds per epoch in whole training runs, which share the machine with others."""
    return mean_and_spread([float(np.mean([record["seconds"] for record in run.records])) for run in runs])


# ------------------------------------------------------------------------------------------------- Table 5


def buffer_tasks(study: Study) -> list[Task]:
    """LFM-W and VINS with every buffer size."""

    def task(source: Source, method: StudyMethod) -> Task:
        return study.after_tuning(
            source, method, lambda: [job for size in BUFFERS for job in _sized(study, source, method, size)]
        )

    return [task(source, METHODS[name]) for source in study.sources for name in study.among(SEARCHERS)]


def _sized(study: Study, source: Source, method: StudyMethod, size: int) -> list[StudyJob]:
    seeds = range(min(study.settings.buffer_seeds, study.settings.seeds))
    kind = "sized" if study.settings.measured_on else "final"  # the tuned size is one of Table 2's
    jobs = [study.varied(kind, source, method, seed, kappa=size) for seed in seeds]
    return [job for job in jobs if job is not None]


def by_buffer(study: Study, source: Source) -> Data:
    """Table 5: F1 and NDCG of LFM-W and VINS by the size of the buffer."""
    return {name: _by_size(study, source, METHODS[name]) for name in study.among(SEARCHERS)}


def _by_size(study: Study, source: Source, method: StudyMethod) -> Data:
    found: Data = {}
    for size in BUFFERS:
        outcomes = map(study.store.outcome, _sized(study, source, method, size))
        runs = [run for run in outcomes if run is not None]
        if runs:
            tries = mean_and_spread([run.tries for run in runs if run.tries is not None])
            found[str(size)] = {**_quality(runs), "tries": tries}
    return found


def _quality(runs: Sequence[Outcome]) -> Data:
    return {name: mean_and_spread([run.metrics[name] for run in runs]) for name in ("f1@10", "ndcg@10")}


def buffer_sizes(study: Study) -> Data:
    """The columns of Table 5."""
    return {"sizes": list(BUFFERS)}


# ------------------------------------------------------------------------------------------------- Figures 7 to 9


def _with_models(study: Study) -> Iterator[tuple[str, str, StudyMethod]]:
    for model in MODELS:
        for name in study.among(MODEL_SAMPLERS):
            method = METHODS[name]
            yield model, name, method if model == "mf" else method.with_model(model)


def model_tasks(study: Study) -> list[Task]:
    """Tune and run every model with a few samplers."""
    return [study.tune_and_run(source, method) for source in study.sources for _, _, method in _with_models(study)]


def by_model(study: Study, source: Source) -> Data:
    """Figures 7 to 9: seconds of an epoch, F1 and NDCG by model and sampler."""
    found: Data = {model: {} for model in MODELS}
    for model, name, method in _with_models(study):
        runs = study.outcomes(source, method)
        results = [study.store.read(job) or {} for job in study.finals(source, method)]
        if runs:
            found[model][name] = {
                "label": method.label,
                "seconds": _seconds_of_epochs(runs),
                "training_seconds": mean_and_spread([run.seconds for run in runs]),
                **_quality(runs),
                **_beside(results),
            }
    return found


# ------------------------------------------------------------------------------------------------- variations

SAMPLER_CHANGES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("beta 0 (uniform draws)", {"beta": 0.0}),
    ("beta 0.25", {"beta": 0.25}),
    ("beta 0.5", {"beta": 0.5}),
    ("beta 0.75", {"beta": 0.75}),
    ("beta 1", {"beta": 1.0}),
    ("margin 0.5", {"margin": 0.5}),
    ("margin 1", {"margin": 1.0}),
    ("margin 2", {"margin": 2.0}),
    ("margin 4", {"margin": 4.0}),
    ("no weight", {"weight": "none"}),
    ("WARP's weight", {"weight": "harmonic"}),
    ("1 shot", {"shots": 1}),
    ("exact draws", {"shots": None}),
)
REG_FACTORS = (0.5, 2.0)


def _variations(study: Study, source: Source) -> Iterator[tuple[str, list[StudyJob]]]:
    """Names and jobs: the tuned VINS as it is, then with one thing changed."""
    ours, best = METHODS["vins"], study.best(source, METHODS["vins"])
    if best is None:
        return
    reg = float(best.training["reg"])
    first = study.settings.runoff_seeds  # the tuned settings were picked for the earlier seeds, which favours them
    seeds = range(first, first + study.settings.variation_seeds)
    changes = [("as tuned", "sampler", {}), *((name, "sampler", change) for name, change in SAMPLER_CHANGES)]
    changes += [(f"reg times {factor:g}", "training", {"reg": float(f"{reg * factor:.3g}")}) for factor in REG_FACTORS]
    for name, part, change in changes:
        jobs = [study.varied("runoff", source, ours, seed, part, **change) for seed in seeds]
        yield name, [job for job in jobs if job is not None]


def variation_tasks(study: Study) -> list[Task]:
    """VINS with one setting changed at a time."""

    def task(source: Source) -> Task:
        return study.after_tuning(
            source, METHODS["vins"], lambda: [job for _, jobs in _variations(study, source) for job in jobs], 3
        )

    return [task(source) for source in study.sources if study.among(("vins",))]


def by_variation(study: Study, source: Source) -> Data:
    """NDCG@10 on valid of VINS with one setting changed."""
    rows: Data = {}
    for name, jobs in _variations(study, source):
        results = [study.store.read(job) for job in jobs]
        values = [result["value"] for result in results if result is not None and result["value"] is not None]
        if values:
            rows[name] = mean_and_spread(values)
    base = rows.get("as tuned")
    for row in rows.values():
        row["relative"] = row["mean"] / base["mean"] - 1 if base else None
    return rows
