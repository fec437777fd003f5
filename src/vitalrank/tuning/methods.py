"""Search methods: which settings to try next, as a function of the seed and of the trials there are."""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import optuna
from optuna.trial import FrozenTrial

from vitalrank.errors import SettingError
from vitalrank.tuning.rounds import Rounds, RoundsState, TrialResult
from vitalrank.tuning.spaces import Choice, Space

Params = Mapping[str, Any]  # a value for each searched setting
Distributions = Mapping[str, optuna.distributions.BaseDistribution]

_LISTED = 10_000  # most points of a grid that are listed


@dataclass(frozen=True)
class TrialHistory:
    """The trials of a study at one moment, by number."""

    finished: Sequence[FrozenTrial]
    running: Sequence[FrozenTrial]
    failed: Sequence[Params] = ()  # of trials that did not come to an end

    @cached_property
    def alive(self) -> list[Params]:
        """Settings that are tried or being tried."""
        return [trial.params for trial in (*self.finished, *self.running)]

    @cached_property
    def numbers(self) -> set[int]:
        """The numbers of those trials."""
        return {trial.number for trial in (*self.finished, *self.running)}


class SearchMethod(ABC):
    """Proposes settings; the same history gives the same proposal, so that a stopped study goes on unchanged."""

    is_distinct = True  # whether no settings are proposed twice

    @abstractmethod
    def propose(self, history: TrialHistory) -> Params | None:
        """Settings to try next; None if that depends on trials that still run, or if there are enough."""

    @abstractmethod
    def is_complete(self, history: TrialHistory) -> bool:
        """Whether every trial that is wanted is finished."""

    def is_full(self, history: TrialHistory) -> bool:
        """Whether no further trial is wanted, even if those that run are not finished."""
        return False


class Grid(SearchMethod):
    """Every point once: the start first, if there is one, the others in an order drawn from the seed."""

    def __init__(self, points: Sequence[Params], seed: int | None = None, start: Params | None = None) -> None:
        order = range(len(points)) if seed is None else np.random.default_rng(seed).permutation(len(points)).tolist()
        self.points = [points[number] for number in order]
        if start is not None:
            self.points.sort(key=lambda point: point != start)  # stable

    def propose(self, history: TrialHistory) -> Params | None:
        return next((point for point in self.points if point not in history.alive), None)

    def is_complete(self, history: TrialHistory) -> bool:
        tried = [trial.params for trial in history.finished]
        return all(point in tried for point in self.points)


@dataclass
class Sampled(SearchMethod):
    """Settings picked by an Optuna sampler, the start first; a point of a grid is picked once."""

    sampler: Callable[[int], optuna.samplers.BaseSampler]  # from a seed
    distributions: Distributions
    trials: int
    seed: int
    start: Params | None
    grid: Grid | None  # all points, where the space is a grid
    is_distinct: bool = field(init=False)

    def __post_init__(self) -> None:
        self.is_distinct = self.grid is not None

    def propose(self, history: TrialHistory) -> Params | None:
        if self.is_full(history):
            return None
        alive = history.alive
        again = next((params for params in history.failed if params not in alive), None)
        if again is not None:
            return again
        params = self.start if not alive and self.start is not None else self._picked(history)
        return self.grid.propose(history) if self.grid is not None and params in alive else params

    def is_complete(self, history: TrialHistory) -> bool:
        return len(history.finished) >= self.trials

    def is_full(self, history: TrialHistory) -> bool:
        return len(history.alive) >= self.trials

    def _picked(self, history: TrialHistory) -> Params:
        """What the sampler picks for a study of these trials."""
        seed = int(np.random.SeedSequence([self.seed, len(history.alive)]).generate_state(1)[0])
        study = optuna.create_study(direction="maximize", sampler=self.sampler(seed))
        study.add_trials([*history.finished, *history.running])
        return study.ask(dict(self.distributions)).params


@dataclass
class InRounds(SearchMethod):
    """Rounds of trials, each chosen from the results of those before."""

    rounds: Rounds
    start: Params | None

    def __post_init__(self) -> None:
        self._tested: list[tuple[Params, TrialResult]] = []
        self._state = RoundsState(self.rounds, self._result, self.start)

    def propose(self, history: TrialHistory) -> Params | None:
        return next((params for params in self._candidates(history) if params not in history.alive), None)

    def is_complete(self, history: TrialHistory) -> bool:
        self._candidates(history)
        return self._state.is_complete

    def _candidates(self, history: TrialHistory) -> Sequence[Params]:
        self._tested = [(trial.params, TrialResult(trial.user_attrs["outcome"]["value"])) for trial in history.finished]
        self._state.advance()
        return self._state.candidates

    def _result(self, params: Params) -> TrialResult | None:
        return next((tested for tried, tested in self._tested if tried == params), None)


@dataclass(frozen=True)
class Request:
    """What a method is made from."""

    space: Space
    distributions: Distributions
    trials: int
    seed: int
    start: Params | None  # settings to try first
    workers: int

    @cached_property
    def grid(self) -> Grid | None:
        """Every point of a space of choices; None where a range makes it endless or there are too many to list."""
        choices = [one.values for one in self.space.values() if isinstance(one, Choice)]
        if len(choices) < len(self.space) or math.prod(map(len, choices)) > _LISTED:
            return None
        points = [dict(zip(self.space, point, strict=True)) for point in itertools.product(*choices)]
        return Grid(points, self.seed, self.start)


def _whole_grid(request: Request) -> SearchMethod:
    if request.grid is None:
        raise SettingError("method 'grid' needs lists of values, not ranges, and at most 10000 points.")
    return Grid(request.grid.points[: request.trials])


def _tpe(request: Request) -> SearchMethod:
    # The liar spreads trials that run at the same time; alone it would only see the lost trials of a killed process.
    def sampler(seed: int) -> optuna.samplers.BaseSampler:
        return optuna.samplers.TPESampler(seed=seed, constant_liar=request.workers > 1)

    return _sampled(request, sampler)


def _sampled(request: Request, sampler: Callable[[int], optuna.samplers.BaseSampler]) -> SearchMethod:
    if request.grid is not None and len(request.grid.points) <= request.trials:
        return _whole_grid(request)
    return Sampled(sampler, request.distributions, request.trials, request.seed, request.start, request.grid)


def _in_rounds(request: Request) -> SearchMethod:
    trials = max(request.trials - (request.start is not None), 1)
    return InRounds(Rounds(request.space, trials, request.seed), request.start)


SEARCH_METHODS: Mapping[str, Callable[[Request], SearchMethod]] = {
    "tpe": _tpe,
    "random": lambda request: _sampled(request, optuna.samplers.RandomSampler),
    "grid": _whole_grid,
    "rounds": _in_rounds,
}


def find_method(name: str, request: Request) -> SearchMethod:
    """The search method of that name; a space with no more points than trials is searched whole by all but rounds."""
    if name not in SEARCH_METHODS:
        raise SettingError(f"unknown method {name!r}; choose one of {', '.join(SEARCH_METHODS)}.")
    return SEARCH_METHODS[name](request) if request.space else _whole_grid(request)
