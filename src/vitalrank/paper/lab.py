"""A study: its logs, its settings and its finished units, and the plans that every experiment shares."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from vitalrank.comparing.outcomes import Outcome
from vitalrank.paper.contenders import CONTENDERS, Contender
from vitalrank.paper.logs import Source
from vitalrank.paper.scheduling import Crew, Goal, Tell, achieve
from vitalrank.paper.searching import is_better, settings_to_try
from vitalrank.paper.settings import StudySettings
from vitalrank.paper.store import Store
from vitalrank.paper.units import Result, Unit
from vitalrank.tuning.results import Settings

SEARCH_SEED_RUN = 0  # the seed of every trial
LONG_SEED = 0
LENGTHS = ("epochs", "patience", "valid_every")  # of a run; each kind has its own


@dataclass
class Lab:
    """Where experiments are planned, run and looked up."""

    sources: Sequence[Source]
    settings: StudySettings
    store: Store
    contenders: Sequence[str] = tuple(CONTENDERS)
    tell: Tell | None = None
    _trials: dict[tuple[str, str], list[Unit]] = field(default_factory=dict)

    @cached_property
    def _began(self) -> float:
        return time.time()

    def achieve(self, goals: Sequence[Goal], share: float = 1.0) -> bool:
        """Run what is missing, within a share of the study's time."""
        return self._achieve(goals, self.settings.workers, share)

    def achieve_timed(self, goals: Sequence[Goal]) -> bool:
        """Run units that are timed: apart and few at a time, so that little slows them."""
        return self._achieve(goals, self.settings.timed_workers, 1.0)

    def _achieve(self, goals: Sequence[Goal], workers: int, share: float) -> bool:
        here = self.settings
        end = None if here.budget_seconds is None else self._began + share * here.budget_seconds
        return achieve(goals, self.store, Crew(workers, here.device, here.run_seconds, end), self.tell)

    @property
    def chosen(self) -> list[Contender]:
        """The contenders of this study, in the table's order."""
        return [contender for name, contender in CONTENDERS.items() if name in self.contenders]

    def among(self, names: Sequence[str]) -> list[str]:
        """Those of the names that take part in this study."""
        return [name for name in names if name in self.contenders]

    # ------------------------------------------------------------------------------------------------------ units

    def unit(self, kind: str, source: Source, contender: Contender, settings: Settings, seed: int) -> Unit:
        """A unit with the study's own settings filled in."""
        here = self.settings
        is_deep = contender.model in ("fpmc", "marank", "irgan")
        training: dict[str, Any] = {
            "epochs": min(here.epochs, here.model_epochs) if is_deep else here.epochs,
            "patience": here.patience,
            "valid_every": here.valid_every,
        }
        if kind == "trial" and here.trial_epochs is not None:
            training["epochs"] = min(training["epochs"], here.trial_epochs)
        if kind in ("long", "timed"):
            epochs = here.long_epochs if kind == "long" else here.timed_epochs
            training = {"epochs": min(epochs, training["epochs"]) if is_deep else epochs}
        if contender.sampler is None:
            return Unit(kind, source, contender, settings, seed, here.protocol)
        full = Settings(
            model={"dim": here.dim, **settings.model},
            sampler=dict(settings.sampler),
            training={**training, **settings.training},
        )
        return Unit(kind, source, contender, full, seed, here.protocol, here.device)

    def trials(self, source: Source, contender: Contender) -> list[Unit]:
        """The search of a contender on a log."""
        place = (source.name, contender.name)
        if place not in self._trials:
            here = self.settings
            count = here.trials if contender.model in ("mf", "cml", "itemknn") else here.model_trials
            tried = settings_to_try(contender, count, here.search_seed)
            units = [self.unit("trial", source, contender, settings, SEARCH_SEED_RUN) for settings in tried]
            self._trials[place] = list({unit.key: unit for unit in units}.values())
        return self._trials[place]

    def best(self, source: Source, contender: Contender) -> tuple[Settings, Result] | None:
        """The settings that won on valid, once all have been tried; None before, or if none worked."""
        found: tuple[Settings, Result] | None = None
        for unit in self.trials(source, contender):
            result = self.store.read(unit)
            if result is None:
                return None
            if is_better(result["value"], None if found is None else found[1]["value"]):
                found = (unit.settings, result)
        return found

    def seeds_of(self, contender: Contender) -> range:
        """A model without steps has no seeds."""
        here = self.settings
        seeds = here.seeds if contender.model in ("mf", "cml") else here.model_seeds
        return range(1 if contender.sampler is None else seeds)

    def finals(self, source: Source, contender: Contender) -> list[Unit]:
        """The runs with the best settings; none before they are known."""
        best = self.best(source, contender)
        if best is None:
            return []
        return [self._again("final", source, contender, best[0], seed) for seed in self.seeds_of(contender)]

    def varied(
        self, kind: str, source: Source, contender: Contender, seed: int, part: str = "sampler", **changes: Any
    ) -> Unit | None:
        """A run with the best settings, some of them changed; None before they are known."""
        best = self.best(source, contender)
        if best is None:
            return None
        settings = replace(best[0], **{part: {**getattr(best[0], part), **changes}})
        return self._again(kind, source, contender, settings, seed)

    def _again(self, kind: str, source: Source, contender: Contender, settings: Settings, seed: int) -> Unit:
        """Settings of a trial for a unit of another kind: its own length counts."""
        training = {name: value for name, value in settings.training.items() if name not in LENGTHS}
        return self.unit(kind, source, contender, replace(settings, training=training), seed)

    # ------------------------------------------------------------------------------------------------------ goals

    def study(self, source: Source, contender: Contender) -> Goal:
        """Tune, then run the seeds."""

        def finals() -> list[Goal]:
            return [Goal(self.finals(source, contender), contender.rank)]

        return Goal(self.trials(source, contender), contender.rank, finals)

    def after_tuning(self, source: Source, contender: Contender, then: Any, rank: int = 2) -> Goal:
        """Tune, then what ``then`` names."""
        return Goal(self.trials(source, contender), contender.rank, lambda: [Goal(then(), rank)])

    def outcomes(self, source: Source, contender: Contender) -> list[Outcome]:
        """The finished runs with the best settings, by seed."""
        found = [self.store.outcome(unit) for unit in self.finals(source, contender)]
        return [outcome for outcome in found if outcome is not None]
