"""Run what is to be compared, one after the other; what is finished is not run again."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from vitalrank._util.checks import to_int
from vitalrank.comparing.outcomes import Outcome
from vitalrank.comparing.planning import (
    Method,
    Models,
    Samplers,
    baselines_of,
    check,
    check_margin,
    metadata_of,
    methods_of,
    named_models,
    named_samplers,
    own_settings,
    seeds_of,
)
from vitalrank.comparing.results import Results
from vitalrank.comparing.runner import Runner
from vitalrank.comparing.store import ComparisonFolder
from vitalrank.errors import SettingError
from vitalrank.evaluation import Evaluation
from vitalrank.history import Record
from vitalrank.interactions import Interactions, check_log
from vitalrank.metrics import METRICS
from vitalrank.training import TrainConfig

if TYPE_CHECKING:
    from vitalrank.tuning import Tuned

P = ParamSpec("P")
R = TypeVar("R")

# Called after each epoch (with its record; a true answer stops the run), each finished run and each finished search.
RunCallback = Callable[[Method, int, "Record | Outcome | Tuned"], bool | None]


def _or_significance(function: Callable[P, R]) -> Callable[P, R]:
    """Version 0.1 had the paired test of two evaluations under this name."""

    @wraps(function)
    def compare(*args: P.args, **options: P.kwargs) -> R:
        if args and isinstance(args[0], Evaluation):
            from vitalrank.evaluation import significance

            warnings.warn(
                "vr.compare(a, b) of two evaluations is now vr.significance(a, b); this name compares samplers.",
                DeprecationWarning,
                stacklevel=2,
            )
            found: Any = significance(*args, **options)  # type: ignore[arg-type]
            return found  # type: ignore[no-any-return]
        return function(*args, **options)

    return compare


@_or_significance
def compare(
    log: Interactions,
    samplers: Samplers = ("uni", "dns", "lfm-w", "vins"),
    models: Models = ("mf",),
    *,
    seeds: int | Sequence[int] = 3,
    baselines: Models | None = None,
    tune: int = 0,
    config: TrainConfig | None = None,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    fixed: Collection[str] = (),
    test: float = 0.2,
    valid: float = 0.1,
    out: str | os.PathLike[str] | None = None,
    keep_models: bool = False,
    callback: RunCallback | None = None,
) -> Results:
    """Train every model with every sampler and every seed on one split, and rank them on the test set.

    The epoch of each run is picked on the validation set; the test set is read once per run. Seconds are of
    training alone, compiling left out; the draws are counted for the imbalance values, which costs all alike.

    Parameters
    ----------
    log
        The log; each user's last ``test`` share is held out, and ``valid`` of the rest.
    samplers
        Names of samplers, or samplers by the names to show.
    models
        Names of models, or functions that make a model by the names to show.
    seeds
        How many, or which. A model without a sampler runs once.
    baselines
        Models without a sampler to compare with, as ``models`` takes them; None for MostPopular, ItemKNN and EASE,
        with more than 10,000 items in its sparse form. ``()`` for none.
    tune
        Trials on the validation set for each method before its seeds, over ranges around the defaults, which are
        tried first; settings that differ from their defaults are kept. 0 takes all settings as they are.
    config
        Training settings; its ``metric`` ranks. The seed is replaced, and where a setting is the library's default
        a model with a default of its own takes that.
    settings
        Training settings of some methods alone, by the name of a sampler or a model: ``{"uni": {"reg": 0.01}}``.
    fixed
        Names of settings that hold for every model, whatever its own default.
    out
        Folder to keep finished runs in; a comparison that was stopped is resumed there, also inside a run. None keeps
        nothing.
    keep_models
        Keep each trained model in the folder.
    callback
        Called with method, seed and news: the record of each epoch, the outcome of each run, the result of each search.

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.datasets.synthetic(users=60, items=50, interactions=900, seed=0)
    >>> results = vr.compare(log, ["uni", "vins"], seeds=1, config=vr.TrainConfig(epochs=2))
    >>> sorted(row.label for row in results.rows)
    ['ease', 'itemknn', 'mostpopular', 'uni', 'vins']
    """
    check_log("log", log)
    config = config or TrainConfig()
    makers = named_models(models)
    methods = methods_of(named_samplers(samplers), makers, settings)
    chosen = seeds_of(seeds)
    check(methods, test, valid)
    methods += baselines_of(baselines, log, makers)
    check(methods, test, valid)
    check_margin(methods, config, fixed)
    _check_metric(config)
    parts = dict(zip(("train", "valid", "test"), log.split_last(test, valid=valid), strict=True))
    trials = to_int("tune", tune, least=0)
    metadata: dict[str, Any] = {
        **metadata_of(log, config, test, valid, chosen),
        "own_training": own_settings(methods, config, fixed),
        "tuning": {"trials": trials} if trials else {},
    }
    plan = [(method, seed) for method in methods for seed in (chosen if method.sampler is not None else chosen[:1])]
    store = None if out is None else ComparisonFolder(Path(out), keep_models)
    if store is not None:
        store.open(metadata, plan)
    grid = _Grid(Runner(config, parts, fixed=fixed), store, callback)
    if trials:
        found = {method.label: grid.tune(method, trials, chosen[0]) for method in methods}
        metadata["tuning"] = {"trials": trials, "settings": {label: chosen for label, (_, chosen) in found.items()}}
        plan = [(found[method.label][0], seed) for method, seed in plan]
    return Results(config.metric, tuple(grid.run(plan, shown_seed=chosen[0])), metadata)


@dataclass(frozen=True)
class _Grid:
    """Runs of one comparison."""

    runner: Runner
    store: ComparisonFolder | None
    callback: RunCallback | None

    def run(self, plan: Sequence[tuple[Method, int]], shown_seed: int) -> list[Outcome]:
        """The outcome of each run, in order."""
        outcomes: list[Outcome] = []
        for method, seed in plan:
            try:
                outcome = self.runner.run(method, seed, self.store, self.callback, show=seed == shown_seed)
            except KeyboardInterrupt as stop:
                place = "" if self.store is None else f" in {self.store.path}; the same command again resumes"
                done = f"{len(outcomes)} of {len(plan)} runs are finished"
                raise KeyboardInterrupt(f"stopped; {done}{place}.") from stop
            outcomes.append(outcome)
            if self.callback is not None:
                self.callback(method, seed, outcome)
        return outcomes

    def tune(self, method: Method, trials: int, seed: int) -> tuple[Method, dict[str, Any]]:
        """The method with the settings that do best on valid, and those settings."""
        from vitalrank import tuning
        from vitalrank.tuning.plans import space_of

        kept = _chosen(method) | set(self.runner.fixed)
        config = method.config(self.runner.config, self.runner.fixed)
        space = space_of("wide", method.make, method.sampler, config, kept)
        searched = {key: dimension for key, dimension in space.items() if key not in kept}
        if not searched:
            return method, {}
        tuned = tuning.tune(
            self.runner.parts["train"], self.runner.parts["valid"], method.make, method.sampler, space=searched,
            trials=trials, config=replace(config, seed=seed),
            fixed={*self.runner.fixed, *method.training}, study=method.label,
            storage=None if self.store is None else self.store.study,
        )  # fmt: skip
        if self.callback is not None:
            self.callback(method, seed, tuned)
        won = tuned.settings
        training = {**method.training, **won.training}
        best = replace(method, make=tuned.make_model, sampler=tuned.make_sampler(), training=training)
        return best, {**won.model, **won.sampler, **won.training}


def _chosen(method: Method) -> set[str]:
    """Names of settings that somebody chose: they differ from their defaults, or are bound in the model's maker."""
    sampler = method.sampler
    own = {} if sampler is None else {field.name: field.default for field in fields(sampler)}
    changed = {name for name, default in own.items() if getattr(sampler, name) != default}
    bound = set(method.make.keywords) if isinstance(method.make, partial) else set()
    takes_no_dim = {"dim"} - set(inspect.signature(method.make).parameters)
    return changed | bound | set(method.training) | (takes_no_dim if sampler is not None else set())


def _check_metric(config: TrainConfig) -> None:
    """Refuse before the first training what has no value per user: pairs of runs could not be tested."""
    if config.parsed_metric()[0] not in METRICS:
        raise SettingError(f"metric {config.metric!r} cannot rank; choose one of {', '.join(METRICS)}, as in ndcg@10.")


def run_comparison(
    log: Interactions,
    samplers: Mapping[str, Any],
    models: Mapping[str, Callable[[], Any]] | None = None,
    *,
    follow: RunCallback | None = None,
    **options: Any,
) -> Results:
    """The former name of :func:`compare`, without baselines."""
    warnings.warn("run_comparison is now vr.compare, which adds baselines.", DeprecationWarning, stacklevel=2)
    return compare(log, samplers, models or ("mf",), baselines=(), callback=follow, **options)
