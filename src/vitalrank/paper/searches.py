"""The search of one method on one log: its rounds and run-off, as jobs of the study."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite
from typing import Any

from vitalrank.paper.jobs import StudyJob
from vitalrank.paper.store import Store
from vitalrank.tuning.plans import Plan
from vitalrank.tuning.results import Settings
from vitalrank.tuning.rounds import Rounds, RoundsState, TrialResult, finalists_of

Params = Mapping[str, Any]
MakeJobs = Callable[[Settings], list[StudyJob]]


class MethodSearch:
    """The trials of a search in rounds, and a run-off between the best of them.

    One run of each trial says little where seeds differ by more than settings do; so the best few are run again, with
    other seeds, and the best mean wins. What comes next is known once all before it is finished.

    Parameters
    ----------
    plan
        What is searched.
    rounds
        The search.
    trial_jobs, runoff_jobs
        The jobs that evaluate some settings: first, and in the run-off.
    finalists
        Trials that come into the run-off; 1 for none.
    store
        Where finished jobs are.
    """

    def __init__(
        self, plan: Plan, rounds: Rounds, trial_jobs: MakeJobs, runoff_jobs: MakeJobs, finalists: int, store: Store
    ) -> None:
        self._plan = plan
        self._makers = {False: trial_jobs, True: runoff_jobs}  # by whether it is the run-off
        self._finalists = finalists
        self._store = store
        self._jobs: dict[tuple[bool, str], list[StudyJob]] = {}
        self._state = RoundsState(rounds, self._trial_result)
        self._best: list[Params] = []  # the finalists

    @property
    def trials(self) -> list[StudyJob]:
        """The jobs of all rounds that are known."""
        self._advance()
        return _distinct(job for params in self._state.candidates for job in self._jobs_of(params, False))

    @property
    def jobs(self) -> list[StudyJob]:
        """All jobs that are known."""
        return [*self.trials, *_distinct(job for params in self._best for job in self._runoff_jobs(params))]

    @property
    def is_finished(self) -> bool:
        """Whether every round was run, and the run-off."""
        self._advance()
        return self._state.is_complete and all(map(self._runoff_result, self._best))

    def best(self) -> Settings | None:
        """The settings that won, once that is known; None before, or if none worked."""
        if not self.is_finished:
            return None
        winners = self._ranked(self._best, self._runoff_result)
        return self._plan.settings(winners[0]) if winners else None

    def _ranked(self, candidates: Sequence[Params], result: Callable[[Params], TrialResult | None]) -> list[Params]:
        """Those that worked, the best first."""
        found = [(params, result(params)) for params in candidates]
        return finalists_of([(params, tested and tested.value) for params, tested in found], len(found))

    def _advance(self) -> None:
        self._state.advance()
        if not self._best and self._state.is_complete:
            results = [(params, self._trial_result(params)) for params in self._state.candidates]
            self._best = finalists_of(
                [(params, result and result.value) for params, result in results], self._finalists
            )

    def _jobs_of(self, params: Params, is_runoff: bool) -> list[StudyJob]:
        key = (is_runoff, repr(params))
        if key not in self._jobs:
            self._jobs[key] = self._makers[is_runoff](self._plan.settings(params))
        return self._jobs[key]

    def _runoff_jobs(self, params: Params) -> list[StudyJob]:
        """The jobs of a finalist; a single one is not run again."""
        return self._jobs_of(params, len(self._best) > 1)

    def _trial_result(self, params: Params) -> TrialResult | None:
        return self._result(self._jobs_of(params, False))

    def _runoff_result(self, params: Params) -> TrialResult | None:
        return self._result(self._runoff_jobs(params))

    def _result(self, jobs: list[StudyJob]) -> TrialResult | None:
        """The mean on valid, no value if a run failed or diverged; None if a job is not finished."""
        results = [result for job in jobs if (result := self._store.read(job)) is not None]
        if len(results) < len(jobs):
            return None
        values = [result["value"] for result in results]
        if None in values:
            return TrialResult(None)
        mean = sum(values) / len(values)
        return TrialResult(mean if isfinite(mean) else None)


def _distinct(jobs: Iterable[StudyJob]) -> list[StudyJob]:
    """The jobs, none twice."""
    return list({job.key: job for job in jobs}.values())
