"""Table 4, Table 5 and Figures 7 to 9: time, buffers, and other models; and VINS with one thing changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from vitalrank.comparing.outcomes import Outcome
from vitalrank.paper.contenders import CONTENDERS, MODEL_LABELS, Contender
from vitalrank.paper.experiment import Data, mean_and_spread
from vitalrank.paper.lab import Lab
from vitalrank.paper.logs import Source
from vitalrank.paper.quality import SEARCHERS
from vitalrank.paper.scheduling import Goal
from vitalrank.paper.units import Result, Unit

BUFFERS = (8, 16, 32, 64, 128, 1024)
MODELS = tuple(MODEL_LABELS)
MODEL_SAMPLERS = ("uni", "dns", "lfm-w", "vins")
TIMED = tuple(name for name, contender in CONTENDERS.items() if contender.sampler is not None)
TIMED_SEED = 0


# ------------------------------------------------------------------------------------------------- Table 4


def timed_goals(lab: Lab) -> list[Goal]:
    """Time the samplers whose settings are known."""
    pairs = [pair for source in lab.sources for pair in _timed_units(lab, source)]
    return [Goal([unit], contender.rank) for contender, unit in pairs]


def _timed_units(lab: Lab, source: Source) -> Iterator[tuple[Contender, Unit]]:
    for name in lab.among(TIMED):
        unit = lab.varied("timed", source, CONTENDERS[name], TIMED_SEED)
        if unit is not None:
            yield CONTENDERS[name], unit


def seconds_per_epoch(lab: Lab, source: Source) -> Data:
    """Table 4: seconds of an epoch, and how many times Uniform's they are."""
    rows: Data = {}
    for contender, unit in _timed_units(lab, source):
        result = lab.store.read(unit) or {}
        told = result.get("seconds") or []
        if told:
            # The first epoch also warms caches.
            seconds = float(np.mean(told[1:] or told))
            rows[contender.name] = {
                "label": contender.label, "beyond": contender.beyond, "seconds": seconds,
                "workers": result.get("workers", lab.settings.timed_workers),
            }  # fmt: skip
    base = rows.get("uni")
    for row in rows.values():
        row["relative"] = row["seconds"] / base["seconds"] if base else None
    return rows


def how_timed(lab: Lab) -> Data:
    """Runs side by side, as they are now, and the epochs of each."""
    return {"workers": lab.settings.timed_workers, "epochs": lab.settings.timed_epochs}


def _beside(results: Sequence[Result]) -> Data:
    """The most runs that were side by side with these, themselves counted; nothing where that is not known."""
    known = [result["workers"] for result in results if "workers" in result]
    return {"workers": max(known)} if known else {}


def _seconds_of_epochs(runs: Sequence[Outcome]) -> Data | None:
    """Seconds of an epoch in whole trainings, which run beside others and are counted."""
    return mean_and_spread([float(np.mean([record["seconds"] for record in run.records])) for run in runs])


# ------------------------------------------------------------------------------------------------- Table 5


def buffer_goals(lab: Lab) -> list[Goal]:
    """LFM-W and VINS with every buffer size."""

    def goal(source: Source, contender: Contender) -> Goal:
        return lab.after_tuning(
            source, contender, lambda: [unit for size in BUFFERS for unit in _sized(lab, source, contender, size)]
        )

    return [goal(source, CONTENDERS[name]) for source in lab.sources for name in lab.among(SEARCHERS)]


def _sized(lab: Lab, source: Source, contender: Contender, size: int) -> list[Unit]:
    seeds = range(min(lab.settings.buffer_seeds, lab.settings.seeds))
    kind = "sized" if lab.settings.measured_on else "final"  # the tuned size is a run of Table 2, unless apart from it
    units = [lab.varied(kind, source, contender, seed, kappa=size) for seed in seeds]
    return [unit for unit in units if unit is not None]


def by_buffer(lab: Lab, source: Source) -> Data:
    """Table 5: F1 and NDCG of LFM-W and VINS by the size of the buffer."""
    return {name: _by_size(lab, source, CONTENDERS[name]) for name in lab.among(SEARCHERS)}


def _by_size(lab: Lab, source: Source, contender: Contender) -> Data:
    found: Data = {}
    for size in BUFFERS:
        outcomes = map(lab.store.outcome, _sized(lab, source, contender, size))
        runs = [run for run in outcomes if run is not None]
        if runs:
            tries = mean_and_spread([run.tries for run in runs if run.tries is not None])
            found[str(size)] = {**_quality(runs), "tries": tries}
    return found


def _quality(runs: Sequence[Outcome]) -> Data:
    return {name: mean_and_spread([run.metrics[name] for run in runs]) for name in ("f1@10", "ndcg@10")}


def buffer_sizes(lab: Lab) -> Data:
    """The columns of Table 5."""
    return {"sizes": list(BUFFERS)}


# ------------------------------------------------------------------------------------------------- Figures 7 to 9


def _with_models(lab: Lab) -> Iterator[tuple[str, str, Contender]]:
    for model in MODELS:
        for name in lab.among(MODEL_SAMPLERS):
            contender = CONTENDERS[name]
            yield model, name, contender if model == "mf" else contender.with_model(model)


def model_goals(lab: Lab) -> list[Goal]:
    """Tune and run every model with a few samplers."""
    return [lab.study(source, contender) for source in lab.sources for _, _, contender in _with_models(lab)]


def by_model(lab: Lab, source: Source) -> Data:
    """Figures 7 to 9: seconds of an epoch, F1 and NDCG by model and sampler."""
    found: Data = {model: {} for model in MODELS}
    for model, name, contender in _with_models(lab):
        runs = lab.outcomes(source, contender)
        results = [lab.store.read(unit) or {} for unit in lab.finals(source, contender)]
        if runs:
            found[model][name] = {
                "label": contender.label,
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


def _variations(lab: Lab, source: Source) -> Iterator[tuple[str, list[Unit]]]:
    """Names and units: the tuned VINS as it is, then with one thing changed."""
    ours, best = CONTENDERS["vins"], lab.best(source, CONTENDERS["vins"])
    if best is None:
        return
    reg = float(best.training["reg"])
    first = lab.settings.runoff_seeds  # with those before, the tuned settings won: they were lucky for them
    seeds = range(first, first + lab.settings.variation_seeds)
    changes = [("as tuned", "sampler", {}), *((name, "sampler", change) for name, change in SAMPLER_CHANGES)]
    changes += [(f"reg times {factor:g}", "training", {"reg": float(f"{reg * factor:.3g}")}) for factor in REG_FACTORS]
    for name, part, change in changes:
        units = [lab.varied("runoff", source, ours, seed, part, **change) for seed in seeds]
        yield name, [unit for unit in units if unit is not None]


def variation_goals(lab: Lab) -> list[Goal]:
    """VINS with one setting changed at a time."""

    def goal(source: Source) -> Goal:
        return lab.after_tuning(
            source, CONTENDERS["vins"], lambda: [unit for _, units in _variations(lab, source) for unit in units], 3
        )

    return [goal(source) for source in lab.sources if lab.among(("vins",))]


def by_variation(lab: Lab, source: Source) -> Data:
    """NDCG@10 on valid of VINS with one setting changed."""
    rows: Data = {}
    for name, units in _variations(lab, source):
        results = [lab.store.read(unit) for unit in units]
        values = [result["value"] for result in results if result is not None and result["value"] is not None]
        if values:
            rows[name] = mean_and_spread(values)
    base = rows.get("as tuned")
    for row in rows.values():
        row["relative"] = row["mean"] / base["mean"] - 1 if base else None
    return rows
