"""One contender's search on one log, as far as it has come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite
from typing import NamedTuple

from vitalrank.paper.points import Point
from vitalrank.paper.searching import Search
from vitalrank.paper.store import Store
from vitalrank.paper.units import Unit
from vitalrank.tuning.results import Settings


class Trial(NamedTuple):
    """Settings that are tried, where in the space they lie, and the runs that try them."""

    point: Point
    settings: Settings
    units: list[Unit]


class Hunt:
    """The trials of a search, round by round, and a run-off between the best of them.

    One run of each trial says little where seeds differ by more than settings do; so the best few are run again, with
    other seeds, and the best mean wins. What comes next is known once all before it is finished.

    Parameters
    ----------
    search
        Where to look.
    try_out, try_again
        The runs that try some settings: first, and in the run-off.
    finalists
        Trials that come into the run-off; 1 for none.
    store
        Where finished units are.
    """

    def __init__(
        self,
        search: Search,
        try_out: Callable[[Settings], list[Unit]],
        try_again: Callable[[Settings], list[Unit]],
        finalists: int,
        store: Store,
    ) -> None:
        self._search = search
        self._try_out = try_out
        self._try_again = try_again
        self._finalists = finalists
        self._store = store
        self._rounds: list[list[Trial]] = []
        self._run_off: list[Trial] = []

    @property
    def trials(self) -> list[Unit]:
        """The runs of all rounds that are known."""
        self._go_on()
        return _units(self._tried)

    @property
    def units(self) -> list[Unit]:
        """All that is known to be run."""
        return [*self.trials, *_units(self._run_off)]

    @property
    def is_finished(self) -> bool:
        """Whether every round was tried, and the run-off held."""
        self._go_on()
        return bool(self._run_off) and self._are_done(self._run_off)

    def best(self) -> Settings | None:
        """The settings that won, once that is known; None before, or if none worked."""
        best = self._ranked(self._run_off)[:1] if self.is_finished else []
        return best[0].settings if best else None

    @property
    def _tried(self) -> list[Trial]:
        return [trial for trials in self._rounds for trial in trials]

    def _go_on(self) -> None:
        while len(self._rounds) < self._search.rounds and self._are_done(self._tried):
            values = [(trial.point, self._value(trial)) for trial in self._tried]
            points = self._search.points(len(self._rounds), [(p, v) for p, v in values if v is not None])
            found = ((point, self._search.settings(point)) for point in points)
            self._rounds.append([Trial(*trial, self._try_out(trial[1])) for trial in found])
        if not self._run_off and len(self._rounds) == self._search.rounds and self._are_done(self._tried):
            best = self._ranked(self._tried)[: self._finalists]
            again = self._try_again if len(best) > 1 else self._try_out
            self._run_off = [trial._replace(units=again(trial.settings)) for trial in best] or self._tried

    def _ranked(self, trials: Sequence[Trial]) -> list[Trial]:
        """Those that worked, the best first, no settings twice."""
        values = {trial.units[0].key: (self._value(trial), trial) for trial in trials}
        working = [(value, trial) for value, trial in values.values() if value is not None]
        return [trial for _, trial in sorted(working, key=lambda pair: -pair[0])]

    def _value(self, trial: Trial) -> float | None:
        """Its mean on valid; None if a run failed or has no finite value."""
        values = [result["value"] for unit in trial.units if (result := self._store.read(unit)) is not None]
        if not values or None in values:
            return None
        mean = sum(values) / len(values)
        return mean if isfinite(mean) else None

    def _are_done(self, trials: Sequence[Trial]) -> bool:
        return all(unit in self._store for unit in _units(trials))


def _units(trials: Sequence[Trial]) -> list[Unit]:
    """The runs of the trials, none twice."""
    return list({unit.key: unit for trial in trials for unit in trial.units}.values())
