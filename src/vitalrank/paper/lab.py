"""A study: its logs, its settings and its finished units, and the plans that every experiment shares."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from vitalrank.comparing.outcomes import Outcome
from vitalrank.errors import SettingError
from vitalrank.paper.contenders import CONTENDERS, Contender
from vitalrank.paper.hunts import Hunt
from vitalrank.paper.known import Known
from vitalrank.paper.logs import Source
from vitalrank.paper.scheduling import Crew, Goal, Tell, achieve
from vitalrank.paper.settings import StudySettings
from vitalrank.paper.store import Store
from vitalrank.paper.units import Unit
from vitalrank.tuning.results import Settings

SEARCH_SEED_RUN = 0  # the seed of every trial
LONG_SEED = 0
MEASURED = ("long", "timed", "picture", "sized")  # kinds of units that may run on a device of their own
LENGTHS = ("epochs", "patience", "valid_every", "schedule")  # of a run; each kind has its own


@dataclass
class Lab:
    """Where experiments are planned, run and looked up."""

    sources: Sequence[Source]
    settings: StudySettings
    store: Store
    contenders: Sequence[str] = tuple(CONTENDERS)
    tell: Tell | None = None
    known: Known = field(default_factory=dict)  # settings that need no search
    _hunts: dict[tuple[str, str], Hunt] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [source.name for source in self.sources]
        for name in names:
            if names.count(name) > 1:
                raise SettingError(f"two logs are called {name!r}, as their files are; rename one of them.")
        self.store = replace(self.store, limit=self.settings.run_seconds)

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
        training = self._lengths(kind, contender.is_deep)
        if contender.sampler is None:
            return Unit(kind, source, contender, settings, seed, here.protocol)
        full = Settings(
            model={"dim": here.dim, **settings.model},
            sampler=dict(settings.sampler),
            training={**training, **settings.training},
        )
        device = here.measured_on or here.device if kind in MEASURED else here.device
        return Unit(kind, source, contender, full, seed, here.protocol, device)

    def _lengths(self, kind: str, is_deep: bool) -> dict[str, Any]:
        """How long a run of this kind lasts, and its schedule."""
        here = self.settings
        schedule = {} if is_deep else {"schedule": here.schedule}
        epochs = min(here.epochs, here.model_epochs) if is_deep else here.epochs
        if kind in ("long", "timed"):
            wanted = here.long_epochs if kind == "long" else here.timed_epochs
            return {"epochs": min(wanted, epochs) if is_deep else wanted, **schedule}
        patience = here.patience
        if kind == "trial":
            patience, epochs = here.trial_patience, min(epochs, here.trial_epochs or epochs)
        if is_deep:
            return {
                "epochs": epochs,
                "patience": min(patience or here.model_patience, here.model_patience),
                "valid_every": here.model_valid_every,
            }
        return {"epochs": epochs, "patience": patience, "valid_every": here.valid_every, **schedule}

    def hunt(self, source: Source, contender: Contender) -> Hunt:
        """The search of a contender on a log."""
        place = (source.name, contender.name)
        if place not in self._hunts:
            here = self.settings
            rounds = contender.rounds(self._trials_of(contender), here.search_seed)
            try_out = partial(self._runs, "trial", source, contender)
            try_again = partial(self._runs, "runoff", source, contender)
            half = max(rounds.trials // 2, 1)
            finalists = 1 if contender.sampler is None else min(here.finalists, half)
            self._hunts[place] = Hunt(contender.plan, rounds, try_out, try_again, finalists, self.store)
        return self._hunts[place]

    def _trials_of(self, contender: Contender) -> int:
        here = self.settings
        if contender.is_deep:
            return here.model_trials
        return here.costly_trials or here.trials if contender.is_costly else here.trials

    def _runs(self, kind: str, source: Source, contender: Contender, settings: Settings) -> list[Unit]:
        """The runs that try some settings."""
        seeds = (SEARCH_SEED_RUN,) if kind == "trial" else range(self.settings.runoff_seeds)
        return [self.unit(kind, source, contender, settings, seed) for seed in seeds]

    def trials(self, source: Source, contender: Contender) -> list[Unit]:
        """The trials of a contender on a log that are known so far."""
        return self.hunt(source, contender).trials

    def best(self, source: Source, contender: Contender) -> Settings | None:
        """The settings that won on valid, once all have been tried; None before, or if none worked."""
        known = self.known.get((source.name, contender.name))
        return self.hunt(source, contender).best() if known is None else known

    def seeds_of(self, contender: Contender) -> range:
        """A model without steps has no seeds."""
        here = self.settings
        seeds = here.model_seeds if contender.is_deep else here.seeds
        return range(1 if contender.sampler is None else seeds)

    def finals(self, source: Source, contender: Contender) -> list[Unit]:
        """The runs with the best settings; none before they are known."""
        best = self.best(source, contender)
        if best is None:
            return []
        return [self._again("final", source, contender, best, seed) for seed in self.seeds_of(contender)]

    def varied(
        self, kind: str, source: Source, contender: Contender, seed: int, part: str = "sampler", **changes: Any
    ) -> Unit | None:
        """A run with the best settings, some of them changed; None before they are known."""
        best = self.best(source, contender)
        if best is None:
            return None
        settings = replace(best, **{part: {**getattr(best, part), **changes}})
        return self._again(kind, source, contender, settings, seed)

    def _again(self, kind: str, source: Source, contender: Contender, settings: Settings, seed: int) -> Unit:
        """Settings of a trial for a unit of another kind: its own length counts."""
        training = {name: value for name, value in settings.training.items() if name not in LENGTHS}
        return self.unit(kind, source, contender, replace(settings, training=training), seed)

    # ------------------------------------------------------------------------------------------------------ goals

    def tuned(self, source: Source, contender: Contender, then: Callable[[], list[Goal]] = list) -> Goal:
        """Tune, round by round, unless that is known; then what follows."""
        if (source.name, contender.name) in self.known:
            return Goal([], contender.rank, then)
        hunt = self.hunt(source, contender)

        def follow() -> list[Goal]:
            return then() if hunt.is_finished else [self.tuned(source, contender, then)]

        return Goal(hunt.units, contender.rank, follow)

    def study(self, source: Source, contender: Contender) -> Goal:
        """Tune, then run the seeds."""
        return self.tuned(source, contender, lambda: [Goal(self.finals(source, contender), contender.rank)])

    def after_tuning(self, source: Source, contender: Contender, then: Callable[[], list[Unit]], rank: int = 2) -> Goal:
        """Tune, then what ``then`` names."""
        return self.tuned(source, contender, lambda: [Goal(then(), rank)])

    def outcomes(self, source: Source, contender: Contender) -> list[Outcome]:
        """The finished runs with the best settings, by seed."""
        found = [self.store.outcome(unit) for unit in self.finals(source, contender)]
        return [outcome for outcome in found if outcome is not None]
