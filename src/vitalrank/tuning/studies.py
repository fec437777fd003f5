"""The study behind a search: where it is kept, which values come next, when a trial is given up."""

from __future__ import annotations

import itertools
import math
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vitalrank.errors import SettingError, StorageError
from vitalrank.tuning.plans import Plan
from vitalrank.tuning.spaces import Choice, Dimension

try:
    import optuna
    from optuna.storages.journal import JournalFileBackend
except ModuleNotFoundError as missing:
    raise SettingError("tuning needs optuna: pip install 'vitalrank[tune]'.") from missing

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

PLAN = "vitalrank.plan"  # the study's own note of what it searches
WORKER = "worker"  # which process a trial runs in
_STATES = optuna.trial.TrialState
_FINISHED = (_STATES.COMPLETE, _STATES.PRUNED)
LOST = (OSError, optuna.exceptions.StorageInternalError)  # what a storage that fails raises
GIVEN_UP, BROKEN_OFF = _STATES.PRUNED, _STATES.FAIL

_LISTED = 10_000  # most points of a grid that are listed

# By the epochs of a trial: what learns slowly, as with a low learning rate, is not behind in the first fifth.
PRUNERS: Mapping[str, Callable[[int], Any]] = {
    "median": lambda epochs: optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=max(5, epochs // 5)),
    "halving": lambda epochs: optuna.pruners.SuccessiveHalvingPruner(min_resource=max(5, epochs // 5)),
    "none": lambda epochs: optuna.pruners.NopPruner(),
}


def distribution_of(dimension: Dimension) -> Any:
    """The dimension in Optuna's words."""
    if isinstance(dimension, Choice):
        return optuna.distributions.CategoricalDistribution(dimension.values)
    low, high = dimension.low, dimension.high
    if isinstance(low, int) and isinstance(high, int):
        return optuna.distributions.IntDistribution(low, high, log=dimension.log)
    return optuna.distributions.FloatDistribution(low, high, log=dimension.log)


def grid_of(plan: Plan) -> list[dict[str, Any]]:
    """Every point of a space of choices; none where a range makes it endless, or where there are too many to list."""
    choices = [knob.dimension.values for knob in plan.knobs.values() if isinstance(knob.dimension, Choice)]
    if len(choices) < len(plan.knobs) or math.prod(map(len, choices)) > _LISTED:
        return []
    return [dict(zip(plan.knobs, point, strict=True)) for point in itertools.product(*choices)]


class Order(optuna.samplers.BaseSampler):
    """What to try next: a function of the seed and of the trials there are, so that a stopped study goes on unchanged.

    A grid that is to be tried whole is gone through in an order drawn from the seed. Otherwise ``start`` comes first,
    if there is one, and then Optuna's TPE picks; where it picks a point of a grid again, the next one in that order
    is taken.
    """

    def __init__(
        self,
        distributions: dict[str, Any],
        points: list[dict[str, Any]],
        whole: bool,
        start: dict[str, Any] | None,
        seed: int,
        workers: int,
    ) -> None:
        self._distributions = distributions
        self._points = [points[place] for place in np.random.default_rng(seed).permutation(len(points))]
        self._whole = whole
        self._start = start
        self._seed = seed
        self._workers = workers

    def infer_relative_search_space(self, study: Any, trial: FrozenTrial) -> dict[str, Any]:
        return self._distributions

    def sample_relative(self, study: Any, trial: FrozenTrial, search_space: Any) -> dict[str, Any]:
        taken = [other.params for other in alive(study) if other.number < trial.number]
        point = None if self._whole else self._picked(study, trial, rank=len(taken))
        if point is None or point in taken:
            point = next((one for one in self._points if one not in taken), point or self._points[0])
        return point

    def _picked(self, study: Any, trial: FrozenTrial, rank: int) -> dict[str, Any]:
        if rank == 0 and self._start is not None:
            return self._start
        seed = int(np.random.SeedSequence([self._seed, rank]).generate_state(1)[0])
        # A liar spreads trials that run at the same time; alone it would only see the lost trials of a killed process.
        tpe = optuna.samplers.TPESampler(seed=seed, constant_liar=self._workers > 1)
        together = tpe.infer_relative_search_space(study, trial)
        point = dict(tpe.sample_relative(study, trial, together))
        for name, distribution in self._distributions.items():
            if name not in point:
                point[name] = tpe.sample_independent(study, trial, name, distribution)
        return point

    def sample_independent(self, study: Any, trial: FrozenTrial, name: str, distribution: Any) -> Any:
        raise AssertionError(f"{name} is no part of the space")


def alive(study: Any) -> list[FrozenTrial]:
    """Trials that are finished or running: all but those that were broken off."""
    return [trial for trial in study.get_trials(deepcopy=False) if trial.state in (*_FINISHED, _STATES.RUNNING)]


def finished(study: Any) -> list[FrozenTrial]:
    """Trials that came to an end, by number."""
    return [trial for trial in study.get_trials(deepcopy=False) if trial.state in _FINISHED]


def worker_name() -> str:
    """The running process, as other processes know it."""
    return f"{socket.gethostname()}:{os.getpid()}"


def open_study(
    storage: str | os.PathLike[str] | None, name: str, sampler: Any, pruner: str, facts: Mapping[str, Any]
) -> Any:
    """The study of that name, new or to go on with; one of another search is refused."""
    if pruner not in PRUNERS:
        raise SettingError(f"unknown pruner {pruner!r}; choose one of {', '.join(PRUNERS)}.")
    try:
        kept = kept_in(storage)
        study = optuna.create_study(
            storage=kept, study_name=name, sampler=sampler, pruner=PRUNERS[pruner](facts["epochs"]),
            direction="maximize", load_if_exists=True,
        )  # fmt: skip
        _agree(study, {**facts, "pruner": pruner}, storage)
        _give_up_lost(study)
    except StorageError:
        raise
    except LOST as error:
        raise StorageError(f"{storage}: cannot hold a study ({first_line(error)}); choose another place.") from error
    return study


def kept_in(storage: str | os.PathLike[str] | None) -> Any:
    """Optuna's storage for a file, an address, or None for memory."""
    if storage is None:
        return None
    text = os.fspath(storage)
    if "://" in text:
        return _from_url(text)
    path = Path(text)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".journal":  # for network disks, where SQLite's locks do not hold
        return optuna.storages.JournalStorage(JournalFileBackend(str(path)))
    return _from_url(f"sqlite:///{path}")


def _from_url(url: str) -> Any:
    try:
        return optuna.storages.get_storage(url)
    except Exception as error:  # of SQLAlchemy or of a driver that is not installed
        raise StorageError(f"{url}: cannot be opened as a storage ({first_line(error)}); see Optuna's docs.") from error


def first_line(error: Exception) -> str:
    """What an error says, in one line."""
    return str(error).strip().partition("\n")[0]


def _agree(study: Any, facts: Mapping[str, Any], storage: Any) -> None:
    """Note what is searched in a new study; make sure that an old one searches the same."""
    found = study.user_attrs.get(PLAN)
    if found is None:
        study.set_user_attr(PLAN, dict(facts))
        return
    for name, value in facts.items():
        if found.get(name) != value:
            raise SettingError(
                f"{storage}: study {study.study_name!r} has {name} {found.get(name)}, not {value}; ask for the same "
                "to go on, or name another study or place."
            )


def _give_up_lost(study: Any) -> None:
    """Mark trials of processes of this machine that are gone as broken off."""
    host, _, _ = worker_name().rpartition(":")
    for trial in study.get_trials(deepcopy=False, states=(_STATES.RUNNING,)):
        where, _, process = str(trial.user_attrs.get(WORKER, "")).rpartition(":")
        if where == host and not _is_running(int(process)):
            study.tell(trial.number, state=_STATES.FAIL)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@contextmanager
def quiet() -> Iterator[None]:
    """Optuna's own messages down to warnings."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)
