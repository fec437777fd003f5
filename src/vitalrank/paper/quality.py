"""Table 2 and what its runs also show: Table 3, Figure 3, Figures 5 and 6."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from vitalrank._util.typing import Values
from vitalrank.comparing.outcomes import Outcome
from vitalrank.comparing.results import holm, paired_p
from vitalrank.paper.experiment import Data, mean_and_spread
from vitalrank.paper.jobs import Result, StudyJob
from vitalrank.paper.logs import Source
from vitalrank.paper.methods import METHODS, StudyMethod
from vitalrank.paper.published import TRIES_AT
from vitalrank.paper.scheduling import Task
from vitalrank.paper.study import LENGTHS, LONG_SEED, Study
from vitalrank.tuning.results import Settings

METRICS = ("f1@10", "ndcg@10", "recall@10", "precision@10")
RANKED_BY = "ndcg@10"
OURS = "vins"
FORMS = ("vins-log2", "vins-exact")  # VINS with another proposal, or with the paper's weight alone
RIVALS = ("lfm-w", "lfm-w-harmonic", "dns")
SEARCHERS = ("lfm-w", "vins")  # samplers that search for a violator
PICTURED = ("uni", "vins")
_NOT_TRACKED = ("sa", "pris", "irgan", "softmax", "softmax-pop", "ssm", "in-batch", "bsl")  # many negatives a positive
TRACKED = tuple(name for name, one in METHODS.items() if one.sampler is not None and name not in _NOT_TRACKED)
_POINTS = 60  # of a curve


def studies(study: Study) -> list[Task]:
    """Tune and run every method on every log."""
    return [study.tune_and_run(source, method) for source in study.sources for method in study.chosen]


def pictured_studies(study: Study) -> list[Task]:
    """Tune and run Uniform and VINS, with a projection of each."""
    pairs = [(source, METHODS[name]) for source in study.sources for name in study.among(PICTURED)]
    tasks = [study.tune_and_run(source, method) for source, method in pairs]
    return tasks + [_one_more(study, "picture", source, method) for source, method in pairs]


def searches(study: Study) -> list[Task]:
    """Tune every method on every log."""
    pairs = [(source, method) for source in study.sources for method in study.chosen]
    return [study.tuned(source, method) for source, method in pairs]


def scores(study: Study, source: Source) -> Data:
    """Table 2: every method on test with its best settings, and VINS against the others."""
    runs = {method.name: _when_all_are_done(study, source, method) for method in study.chosen}
    rows = {name: _row(study, source, METHODS[name], found) for name, found in runs.items()}
    placed = standings(rows)
    finished = {name: found for name, found in runs.items() if name in placed["order"]}
    return {
        "rows": rows,
        **placed,
        "ours_against": _against(OURS, finished),
        "forms_against": {name: _against(name, _only(finished, name)) for name in FORMS if name in finished},
    }


def _when_all_are_done(study: Study, source: Source, method: StudyMethod) -> list[Outcome]:
    """The outcomes of a method once all seeds are done; means over different seeds are not comparable."""
    is_done = all(study.store.read(job) is not None for job in study.finals(source, method))
    return study.outcomes(source, method) if is_done else []


def standings(rows: Mapping[str, Data]) -> Data:
    """The order of the rows that are finished, on test and on valid, and the best two baselines of the paper.

    Examples
    --------
    >>> rows = {
    ...     name: {"metrics": {"ndcg@10": {"mean": value}}, "valid": {"mean": value}}
    ...     for name, value in [("uni", 0.1), ("dns", 0.3), ("vins", 0.2)]
    ... }
    >>> found = standings(rows)
    >>> found["order"], found["best_baseline"], found["second_baseline"]
    (['dns', 'vins', 'uni'], 'dns', 'uni')
    """
    finished = [name for name, row in rows.items() if row["metrics"] and row["valid"]]
    order = sorted(finished, key=lambda name: -rows[name]["metrics"][RANKED_BY]["mean"])
    baselines = [name for name in order if not METHODS[name].beyond and name != OURS]
    return {
        "order": order,
        "order_on_valid": sorted(finished, key=lambda name: -rows[name]["valid"]["mean"]),
        "best_baseline": baselines[0] if baselines else None,
        "second_baseline": baselines[1] if len(baselines) > 1 else None,
    }


def _only(runs: Mapping[str, Sequence[Outcome]], form: str) -> dict[str, Sequence[Outcome]]:
    """The runs of a form of VINS and of its rivals."""
    return {name: found for name, found in runs.items() if name in (form, *RIVALS)}


def _row(study: Study, source: Source, method: StudyMethod, runs: Sequence[Outcome]) -> Data:
    """One row of the table; without runs, the progress of the search."""
    searched = {job.key: study.store.read(job) for job in study.search(source, method).jobs}
    trials = [searched[job.key] for job in study.trials(source, method)]
    best = study.best(source, method)
    results = [study.store.read(job) for job in study.finals(source, method)]
    known = [result for result in results if result is not None]
    return {
        "label": method.label,
        "beyond": method.beyond,
        "trials": sum(trial is not None for trial in trials),
        "trials_failed": sum(trial is not None and trial["value"] is None for trial in trials),
        "settings": None if best is None else _settings(best),
        "metrics": {name: mean_and_spread([run.metrics[name] for run in runs]) for name in METRICS} if runs else None,
        "valid": mean_and_spread([result["value"] for result in known if result["value"] is not None]),
        "best_epoch": mean_and_spread([run.best_epoch for run in runs if run.best_epoch is not None]),
        "epochs": mean_and_spread([len(run.records) for run in runs if run.records]),
        "tries": mean_and_spread([run.tries for run in runs if run.tries is not None]),
        "training_seconds": mean_and_spread([run.seconds for run in runs]),
        "processor_seconds": mean_and_spread(_spent(known)),
        "search_processor_seconds": sum(_spent(searched.values())) or None,
        "cut": sum(bool(result.get("cut")) for result in known),
    }


def _spent(results: Iterable[Result | None]) -> list[float]:
    """Processor seconds of the runs that recorded them."""
    return [result["processor_seconds"] for result in results if result and "processor_seconds" in result]


def _settings(settings: Settings) -> dict[str, Any]:
    """What was searched, without what all runs of the study share."""
    training = {name: value for name, value in settings.training.items() if name not in LENGTHS}
    return {**settings.model, **settings.sampler, **training}


def _against(one: str, runs: Mapping[str, Sequence[Outcome]]) -> Data:
    """One method against each other: relative difference, and a paired test over users, adjusted for multiple tests."""
    if one not in runs:
        return {}
    mine = _per_user(runs[one])
    others = [name for name in runs if name != one]
    p_values = holm([paired_p(mine, _per_user(runs[name])) for name in others])
    found = {}
    for name, p_value in zip(others, p_values, strict=True):
        ratio = {metric: _mean(runs[one], metric) / _mean(runs[name], metric) - 1 for metric in ("f1@10", RANKED_BY)}
        found[name] = {"relative": ratio, "p": p_value}
    return found


def _per_user(runs: Sequence[Outcome]) -> Values:
    return np.asarray(np.mean([run.per_user for run in runs], axis=0, dtype=np.float64))


def _mean(runs: Sequence[Outcome], metric: str) -> float:
    return float(np.mean([run.metrics[metric] for run in runs]))


def long_runs(study: Study) -> list[Task]:
    """Table 3 needs runs that no validation set ends."""
    names = study.among(SEARCHERS)
    return [_one_more(study, "long", source, METHODS[name]) for source in study.sources for name in names]


def _one_more(study: Study, kind: str, source: Source, method: StudyMethod) -> Task:
    """One more run, of another kind, with the best settings."""

    def jobs() -> list[StudyJob]:
        job = study.varied(kind, source, method, LONG_SEED)
        return [] if job is None else [job]

    return study.after_tuning(source, method, jobs)


def _result_of(study: Study, kind: str, source: Source, method: StudyMethod) -> Result:
    """The result of such a run; None before it is finished."""
    job = study.varied(kind, source, method, LONG_SEED)
    return {} if job is None else study.store.read(job) or {}


def tries_by_epoch(study: Study, source: Source) -> Data:
    """Table 3: mean and deviation of the tries of LFM-W and VINS."""
    return {name: _tries(_result_of(study, "long", source, METHODS[name])) for name in study.among(SEARCHERS)}


def _tries(outcome: Result) -> Data:
    records = {record["epoch"]: record for record in outcome.get("records") or []}
    shown = [(epoch, records[epoch]) for epoch in TRIES_AT if epoch in records]
    return {
        str(epoch): {"mean": record["tries"], "sd": record["tries_sd"], "unviolated": record["unviolated"]}
        for epoch, record in shown
    }


def epochs_shown(study: Study) -> Data:
    """The columns of Table 3."""
    return {"epochs": list(TRIES_AT)}


def pictures(study: Study, source: Source) -> Data:
    """Figure 3: item vectors in the plane, and how strongly they reflect popularity."""
    found: Data = {}
    for name in study.among(PICTURED):
        shown = _result_of(study, "picture", source, METHODS[name])
        runs = study.outcomes(source, METHODS[name])
        if "points" in shown and runs:
            found[name] = {
                **{part: shown[part] for part in ("method", "points", "degree_class")},
                "clustering": mean_and_spread([run.inspection["clustering"]["score"] for run in runs]),
                "norm_correlation": mean_and_spread([run.inspection["norm_correlation"] for run in runs]),
                "vanished": mean_and_spread([run.inspection["vanished"] for run in runs]),
            }
    return found


def imbalance_by_epoch(study: Study, source: Source) -> Data:
    """Figures 5 and 6: largest and smallest imbalance value counted in each epoch, mean over the runs."""
    tracked = [method for method in study.chosen if method.name in TRACKED]
    found = ((method, study.outcomes(source, method)) for method in tracked)
    return {method.name: {"label": method.label, **_curves(runs)} for method, runs in found if runs}


def _curves(runs: Sequence[Outcome]) -> Data:
    """Means over the runs for as many epochs as all of them have."""
    epochs = min(len(run.records) for run in runs)
    shown = np.unique(np.linspace(0, epochs - 1, min(epochs, _POINTS)).round().astype(int)).tolist()

    def mean_of(name: str) -> list[float]:
        return [float(np.mean([run.records[e]["imbalance"][name] for run in runs])) for e in shown]

    return {
        "epoch": [epoch + 1 for epoch in shown],
        "max": mean_of("max"),
        "min": mean_of("min"),
        "never": mean_of("never"),
    }
