"""Search for the settings that do best on a validation part."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict
from typing import Any

from vitalrank._util.checks import to_int
from vitalrank.errors import SettingError
from vitalrank.interactions import Interactions
from vitalrank.samplers import Sampler
from vitalrank.training import TrainConfig
from vitalrank.tuning import studies
from vitalrank.tuning.plans import Plan, Written, plan_of
from vitalrank.tuning.results import Tuned
from vitalrank.tuning.searching import Follower, Search


def tune(
    train: Interactions,
    valid: Interactions,
    model: str | Callable[..., Any] = "mf",
    sampler: str | Sampler | None = None,
    *,
    space: str | Written = "paper",
    trials: int = 40,
    seed: int = 0,
    config: TrainConfig | None = None,
    fixed: Collection[str] = (),
    storage: str | os.PathLike[str] | None = None,
    study: str | None = None,
    workers: int = 1,
    pruner: str = "median",
    follow: Follower | None = None,
) -> Tuned:
    """Search for the settings that do best on ``valid``.

    With one worker the trials depend on the seed alone, also when the study was stopped and goes on. A grid with no
    more points than trials is searched whole, each point once; otherwise the settings as they stand
    come first, where they lie in the space, and Optuna's TPE picks the rest.

    Parameters
    ----------
    train, valid
        What to train on and what to measure by; settings and epoch are picked on ``valid``.
    model
        Name of a model, or a function that makes an unfitted one from settings, such as ``vr.MF``.
    sampler
        Name of a sampler, one with fixed settings, or None for the model's own.
    space
        ``"paper"`` for the grid of the paper, ``"wide"`` for ranges around the library's defaults, or ranges by
        name: ``{"beta": "0..1", "reg": "1e-4..0.2:log", "dim": [16, 32]}``.
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
    follow
        Told of each epoch and each trial, with the trial's number.

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
    config = config or TrainConfig()
    trials, workers = to_int("trials", trials), to_int("workers", workers)
    seed = to_int("seed", seed, least=0, most=2**32 - 1)  # Optuna takes no larger one
    if len(valid) == 0:
        raise SettingError("the validation log is empty; hold out a larger share.")
    plan = plan_of(model, sampler, space, config, fixed)
    name = study or "-".join(filter(None, (plan.model_name, plan.sampler_name)))
    grid = studies.grid_of(plan)
    is_whole = 0 < len(grid) <= trials
    distributions = {key: studies.distribution_of(knob.dimension) for key, knob in plan.knobs.items()}
    order = studies.Order(distributions, grid, is_whole, plan.start(), seed, workers)
    with studies.quiet():
        opened = studies.open_study(storage, name, order, pruner, _facts(plan, train, valid, seed))
        enough = len(grid) if is_whole else trials
        search = Search(plan, train, valid, opened, distributions, enough, bool(grid), follow)
        search.go(workers)
    return search.result()


def _facts(plan: Plan, train: Interactions, valid: Interactions, seed: int) -> Mapping[str, Any]:
    """What makes a study this one and no other; where it runs is not part of it."""
    taken = plan.config.with_defaults(plan.make().defaults, plan.fixed)
    training = {name: value for name, value in asdict(taken).items() if name not in ("threads", "device")}
    return {
        "log": train.fingerprint,
        "valid": valid.fingerprint,
        "model": repr(plan.make()),
        "sampler": repr(plan.law) if plan.law is not None else plan.sampler_name,
        "space": {name: str(knob.dimension) for name, knob in plan.knobs.items()},
        "search seed": seed,
        **training,
    }
