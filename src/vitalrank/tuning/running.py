"""Search for the settings that do best on a validation set."""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from vitalrank._util.checks import to_int
from vitalrank.config import TrainConfig
from vitalrank.errors import SettingError, TrainingError
from vitalrank.interactions import Interactions, check_log
from vitalrank.samplers import Sampler
from vitalrank.tuning import studies
from vitalrank.tuning.claims import OUTCOME, Claims
from vitalrank.tuning.methods import Distributions, Grid, Params, Request, SearchMethod, find_method
from vitalrank.tuning.plans import ModelFactory, Plan, SpaceLike, plan_of
from vitalrank.tuning.results import Finalist, Tuned
from vitalrank.tuning.rounds import finalists_of
from vitalrank.tuning.searching import REPEAT, Search, TrialCallback
from vitalrank.tuning.spaces import Range
from vitalrank.tuning.workers import join

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

_MOST_SEEDS = 1_000_000


def tune(
    train: Interactions,
    valid: Interactions,
    model: str | ModelFactory = "mf",
    sampler: str | Sampler | None = None,
    *,
    space: str | SpaceLike = "wide",
    trials: int = 40,
    seed: int = 0,
    config: TrainConfig | None = None,
    fixed: Collection[str] = (),
    storage: str | os.PathLike[str] | None = None,
    study: str | None = None,
    workers: int = 1,
    pruner: str = "median",
    method: str = "tpe",
    finalists: int = 4,
    runoff_seeds: int = 0,
    callback: TrialCallback | None = None,
    follow: TrialCallback | None = None,
) -> Tuned:
    """Search for the settings that do best on ``valid``.

    With one worker the trials depend on the seed alone, also when the study was stopped and is resumed. The default
    settings come first, where they lie in the space. TPE and random search try a grid with no more points than trials
    whole, each point once.

    Parameters
    ----------
    train, valid
        What to train on and what to measure by; settings and epoch are picked on ``valid``.
    model
        Name of a model, or a function that makes an unfitted one from settings, such as ``vr.MF``.
    sampler
        Name of a sampler, one with fixed settings, or None for the model's own.
    space
        ``"wide"`` for ranges around the library's defaults, ``"paper"`` for the grid of the paper, both with the
        defaults in them, or ranges by name: ``{"beta": "0..1", "reg": "1e-4..0.2:log", "dim": [16, 32]}``.
    trials
        In the whole study; one that has as many is not searched further.
    seed
        Of the search; the seed of training is the config's.
    config
        Training settings; where one is the library's default a model with a default of its own takes that.
    fixed
        Names of settings that hold whatever the model's own default.
    storage
        Where to keep the study: a file, the address of a database, or None for memory. Processes and machines that
        name the same one search together.
    study
        Its name in the storage; ``MODEL-SAMPLER`` unless given.
    workers
        Trials to run at the same time in this process.
    pruner
        Gives up trials that fall behind: ``"median"``, ``"halving"`` or ``"none"``.
    method
        ``"tpe"``, Optuna's; ``"random"``; ``"grid"``, every point of a space of lists; or ``"rounds"``, the search of
        the paper's study: points spread over the space, nearer to the best, bred from the best few, line searches.
    finalists, runoff_seeds
        Train that many of the best settings again with so many other seeds, and let the best mean win; 0 seeds: the
        best trial wins. One run says little where seeds differ by more than settings do.
    callback
        Called with a trial's number after each of its epochs (a record) and when it has ended (a :class:`Trial`).
    follow
        Deprecated name of ``callback``.

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.datasets.synthetic(users=60, items=50, interactions=900, seed=0)
    >>> train, valid, test = log.split_last(0.2, valid=0.1)
    >>> space = {"dim": [4, 8], "beta": [0.5, 1.0]}
    >>> tuned = vr.tune(train, valid, "mf", "vins", space=space, trials=4, config=vr.TrainConfig(epochs=2))
    >>> len(tuned.trials), sorted(tuned.settings.sampler)
    (4, ['beta'])
    """
    if follow is not None:
        warnings.warn("tune(follow=...) is now tune(callback=...).", DeprecationWarning, stacklevel=2)
        callback = callback or follow
    check_log("train", train)
    check_log("valid", valid)
    config = config or TrainConfig()
    trials, workers = to_int("trials", trials), to_int("workers", workers)
    finalists, runoff_seeds = to_int("finalists", finalists), to_int("runoff_seeds", runoff_seeds, least=0)
    seed = to_int("seed", seed, least=0, most=2**32 - 1)  # Optuna takes no larger one
    if len(valid) == 0:
        raise SettingError("the validation log is empty; hold out a larger share.")
    plan = plan_of(model, sampler, space, config, fixed)
    name = study or "-".join(filter(None, (plan.model_name, plan.sampler_name)))
    distributions = {key: studies.distribution_of(one) for key, one in plan.space.items()}
    chosen = find_method(method, Request(plan.space, distributions, trials, seed, plan.start(), workers))
    facts = {**study_facts(plan, train, valid, seed), "pruner": pruner, "method": method}
    run = _StudyRun(plan, train, valid, storage, workers, callback)
    with studies.quiet():
        search = run.search(name, pruner, facts, chosen, distributions, trials)
        if runoff_seeds == 0 or plan.sampler_name is None or not search.whole:
            return _winner(search)
        return run.run_off(search, name, facts, finalists, runoff_seeds)


@dataclass(frozen=True)
class _StudyRun:
    """What the search and its run-off share."""

    plan: Plan
    train: Interactions
    valid: Interactions
    storage: str | os.PathLike[str] | None
    workers: int
    callback: TrialCallback | None

    def search(
        self,
        name: str,
        pruner: str,
        facts: Mapping[str, Any],
        method: SearchMethod,
        distributions: Distributions,
        trials: int,
    ) -> Search:
        """Run a study until its method has all results."""
        study = studies.open_study(self.storage, name, pruner, facts["epochs"], facts)
        with closing(join(study, studies.file_of(self.storage), shared=self.storage is not None)) as worker:
            claims = Claims(study, distributions, method, worker)
            search = Search(self.plan, self.train, self.valid, claims, self.callback, trials)
            search.run(self.workers)
        return search

    def run_off(self, first: Search, name: str, facts: Mapping[str, Any], count: int, seeds: int) -> Tuned:
        """Train the best settings again with other seeds: the best mean wins."""
        best_params = finalists_of([(trial.params, trial.value) for trial in first.whole], count)
        points = [{**params, REPEAT: number} for number in range(1, seeds + 1) for params in best_params]
        distributions = {**first.claims.distributions, REPEAT: studies.distribution_of(Range(1, _MOST_SEEDS))}
        facts = {**facts, "pruner": "none", "method": "run-off"}
        search = self.search(f"{name}-runoff", "none", facts, Grid(points), distributions, len(points))
        finalists = [_finalist(self.plan, params, seeds, search.whole) for params in best_params]
        finalists.sort(key=lambda finalist: -finalist.mean)
        best = finalists[0]
        if not best.values:
            raise TrainingError("every finalist diverged with another seed; search lower values of lr.")
        winner = next(trial for trial in first.whole if self.plan.settings(trial.params) == best.settings)
        return replace(_tuned(first, winner), value=best.mean, finalists=tuple(finalists))


def _rank(trial: FrozenTrial) -> tuple[float, int]:
    return -float(trial.value or 0.0), trial.number


def _finalist(plan: Plan, params: Params, seeds: int, trials: Sequence[FrozenTrial]) -> Finalist:
    wanted = [{**params, REPEAT: number} for number in range(1, seeds + 1)]
    values = [trial.value for trial in trials if trial.params in wanted and trial.value is not None]
    return Finalist(plan.settings(params), tuple(values) if len(values) == seeds else ())


def _winner(search: Search) -> Tuned:
    """The trial with the best value."""
    if not search.whole:
        done = len(search.claims.finished)
        raise TrainingError(f"all {done} trials diverged; search lower values of lr or higher ones of reg.")
    return _tuned(search, min(search.whole, key=_rank))


def _tuned(search: Search, best: FrozenTrial) -> Tuned:
    """A trial as the winner."""
    plan = search.plan
    settings = plan.settings(best.params)
    return Tuned(
        metric=plan.config.metric,
        settings=settings,
        value=float(best.value or 0.0),
        epoch=best.user_attrs[OUTCOME]["epoch"],
        trials=tuple(map(search.trial, search.claims.finished)),
        config=plan.training(settings),
        make_model=partial(plan.model, settings),
        make_sampler=partial(plan.sampler, settings),
    )


def study_facts(plan: Plan, train: Interactions, valid: Interactions, seed: int) -> Mapping[str, Any]:
    """What makes a study this one and no other; where it runs is not part of it."""
    taken = plan.config.with_defaults(plan.make().defaults, plan.fixed)
    training = {name: value for name, value in asdict(taken).items() if name not in ("threads", "device")}
    return {
        "log": train.fingerprint,
        "valid": valid.fingerprint,
        "model": repr(plan.make()),
        "sampler": repr(plan.given_sampler) if plan.given_sampler is not None else plan.sampler_name,
        "space": {name: str(one) for name, one in plan.space.items()},
        "search seed": seed,
        **training,
    }
