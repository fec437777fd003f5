"""A study: its logs, its settings and its finished jobs, and the tasks that every experiment shares."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from vitalrank.comparing.outcomes import Outcome
from vitalrank.errors import SettingError
from vitalrank.paper.jobs import StudyJob
from vitalrank.paper.known import KnownSettings
from vitalrank.paper.logs import Source
from vitalrank.paper.methods import METHODS, StudyMethod
from vitalrank.paper.scheduling import JobCallback, Task, WorkerPool, run_tasks
from vitalrank.paper.searches import MethodSearch
from vitalrank.paper.settings import StudySettings
from vitalrank.paper.store import Store
from vitalrank.tuning.results import Settings

SEARCH_SEED_RUN = 0  # the seed of every trial
LONG_SEED = 0
MEASURED = ("long", "timed", "picture", "sized")  # kinds of jobs that may run on a device of their own
LENGTHS = ("epochs", "patience", "valid_every", "schedule")  # of a run; each kind has its own


@dataclass
class Study:
    """Plans the jobs of experiments, runs them and looks up their results."""

    sources: Sequence[Source]
    settings: StudySettings
    store: Store
    methods: Sequence[str] = tuple(METHODS)
    callback: JobCallback | None = None
    known: KnownSettings = field(default_factory=dict)  # settings that need no search
    _searches: dict[tuple[str, str], MethodSearch] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [source.name for source in self.sources]
        for name in names:
            if names.count(name) > 1:
                raise SettingError(f"two logs are called {name!r}, as their files are; rename one of them.")
        self.store = replace(self.store, limit=self.settings.run_seconds)

    @cached_property
    def _began(self) -> float:
        return time.time()

    def run_tasks(self, tasks: Sequence[Task], share: float = 1.0) -> bool:
        """Run what is missing, within a share of the study's time."""
        return self._run_tasks(tasks, self.settings.workers, share)

    def run_timed(self, tasks: Sequence[Task]) -> bool:
        """Run timed jobs apart from the others and few at a time, so that little slows them."""
        return self._run_tasks(tasks, self.settings.timed_workers, 1.0)

    def _run_tasks(self, tasks: Sequence[Task], workers: int, share: float) -> bool:
        here = self.settings
        end = None if here.budget_seconds is None else self._began + share * here.budget_seconds
        return run_tasks(tasks, self.store, WorkerPool(workers, here.device, here.run_seconds, end), self.callback)

    @property
    def chosen(self) -> list[StudyMethod]:
        """The methods of this study, in the table's order."""
        return [method for name, method in METHODS.items() if name in self.methods]

    def among(self, names: Sequence[str]) -> list[str]:
        """Those of the names that take part in this study."""
        return [name for name in names if name in self.methods]

    # ------------------------------------------------------------------------------------------------------ jobs

    def job(self, kind: str, source: Source, method: StudyMethod, settings: Settings, seed: int) -> StudyJob:
        """A job with the study's own settings filled in."""
        here = self.settings
        training = self._lengths(kind, method.is_deep)
        if method.sampler is None:
            own = {"dim": here.dim, "seed": seed}
            shared = {name: value for name, value in own.items() if name in method.model_parameters}
            return StudyJob(
                kind, source, method, replace(settings, model={**shared, **settings.model}), seed, here.protocol
            )
        full = Settings(
            model={"dim": here.dim, **settings.model},
            sampler=dict(settings.sampler),
            training={**training, **settings.training},
        )
        device = here.measured_on or here.device if kind in MEASURED else here.device
        return StudyJob(kind, source, method, full, seed, here.protocol, device)

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

    def search(self, source: Source, method: StudyMethod) -> MethodSearch:
        """The search of a method on a log."""
        key = (source.name, method.name)
        if key not in self._searches:
            here = self.settings
            rounds = method.rounds(self._trials_of(method), here.search_seed)
            trial_jobs = partial(self._runs, "trial", source, method)
            runoff_jobs = partial(self._runs, "runoff", source, method)
            half = max(rounds.trials // 2, 1)
            finalists = min(here.finalists, half) if method.is_seeded else 1
            self._searches[key] = MethodSearch(method.plan, rounds, trial_jobs, runoff_jobs, finalists, self.store)
        return self._searches[key]

    def _trials_of(self, method: StudyMethod) -> int:
        here = self.settings
        if method.is_deep:
            return here.model_trials
        return here.costly_trials or here.trials if method.is_costly else here.trials

    def _runs(self, kind: str, source: Source, method: StudyMethod, settings: Settings) -> list[StudyJob]:
        """The runs that try some settings."""
        seeds = (SEARCH_SEED_RUN,) if kind == "trial" else range(self.settings.runoff_seeds)
        return [self.job(kind, source, method, settings, seed) for seed in seeds]

    def trials(self, source: Source, method: StudyMethod) -> list[StudyJob]:
        """The trials of a method on a log that are known so far."""
        return self.search(source, method).trials

    def best(self, source: Source, method: StudyMethod) -> Settings | None:
        """The settings that won on valid, once all have been tried; None before, or if none worked."""
        known = self.known.get((source.name, method.name))
        return self.search(source, method).best() if known is None else known

    def seeds_of(self, method: StudyMethod) -> range:
        """A model without steps has no seeds."""
        here = self.settings
        seeds = here.model_seeds if method.is_deep else here.seeds
        return range(seeds if method.is_seeded else 1)

    def finals(self, source: Source, method: StudyMethod) -> list[StudyJob]:
        """The runs with the best settings; none before they are known."""
        best = self.best(source, method)
        if best is None:
            return []
        return [self._again("final", source, method, best, seed) for seed in self.seeds_of(method)]

    def varied(
        self, kind: str, source: Source, method: StudyMethod, seed: int, part: str = "sampler", **changes: Any
    ) -> StudyJob | None:
        """A run with the best settings, some of them changed; None before they are known."""
        best = self.best(source, method)
        if best is None:
            return None
        settings = replace(best, **{part: {**getattr(best, part), **changes}})
        return self._again(kind, source, method, settings, seed)

    def _again(self, kind: str, source: Source, method: StudyMethod, settings: Settings, seed: int) -> StudyJob:
        """Settings of a trial for a job of another kind: its own length counts."""
        training = {name: value for name, value in settings.training.items() if name not in LENGTHS}
        return self.job(kind, source, method, replace(settings, training=training), seed)

    # ------------------------------------------------------------------------------------------------------ tasks

    def tuned(self, source: Source, method: StudyMethod, then: Callable[[], list[Task]] = list) -> Task:
        """Tune, round by round, unless that is known; then what follows."""
        if (source.name, method.name) in self.known:
            return Task([], method.rank, then)
        search = self.search(source, method)

        def follow() -> list[Task]:
            return then() if search.is_finished else [self.tuned(source, method, then)]

        return Task(search.jobs, method.rank, follow)

    def tune_and_run(self, source: Source, method: StudyMethod) -> Task:
        """Tune, then run the seeds."""
        return self.tuned(source, method, lambda: [Task(self.finals(source, method), method.rank)])

    def after_tuning(
        self, source: Source, method: StudyMethod, then: Callable[[], list[StudyJob]], rank: int = 2
    ) -> Task:
        """Tune, then what ``then`` names."""
        return self.tuned(source, method, lambda: [Task(then(), rank)])

    def outcomes(self, source: Source, method: StudyMethod) -> list[Outcome]:
        """The finished runs with the best settings, by seed."""
        found = [self.store.outcome(job) for job in self.finals(source, method)]
        return [outcome for outcome in found if outcome is not None]
