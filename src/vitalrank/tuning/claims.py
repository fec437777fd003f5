"""How workers claim trials: each point is run once, even if workers die or start at the same moment."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import FrozenTrial, Trial, TrialState

from vitalrank.tuning.methods import Distributions, Params, SearchMethod, TrialHistory
from vitalrank.tuning.workers import StudyWorker

OUTCOME = "outcome"  # the trial's note of what came of it
_WORKER, _CLAIM = "worker", "claim"  # whose the trial is, and a token of its own
_FINISHED = (TrialState.COMPLETE, TrialState.PRUNED)


@dataclass
class Claims:
    """The trials of a study, as one worker sees and claims them."""

    study: optuna.Study
    distributions: Distributions
    method: SearchMethod
    worker: StudyWorker

    def __post_init__(self) -> None:
        self._running: set[int] = set()  # this worker's trials

    @property
    def finished(self) -> list[FrozenTrial]:
        """Trials that came to an end, by number."""
        return [trial for trial in self._trials() if _is_finished(trial)]

    def history(self) -> TrialHistory:
        """What is known of the study; trials of workers that are gone are marked as failed first."""
        trials = [self._checked(trial) for trial in self._trials()]
        return self._history([trial for trial in trials if trial is not None])

    def claim(self, params: Params, history: TrialHistory) -> Trial | None:
        """Start a trial with these settings; None if another worker took them, or the last trial, at the same moment.

        The trial, its settings and its worker are written in one transaction: a kill leaves either all or nothing.
        """
        token = secrets.token_hex(8)
        self.study.add_trial(
            optuna.create_trial(
                state=TrialState.RUNNING, params=dict(params), distributions=dict(self.distributions),
                user_attrs={_WORKER: self.worker.name, _CLAIM: token},
            )
        )  # fmt: skip
        trials = self._trials()
        mine = next(trial for trial in trials if trial.user_attrs.get(_CLAIM) == token)
        earlier = [trial for trial in trials[: mine.number] if _is_alive(trial)]
        unseen = [trial.params for trial in earlier if trial.number not in history.numbers]
        if unseen and (params in unseen or self.method.is_full(self._history(earlier))):
            self._fail(mine.number)  # the lower number wins
            return None
        self._running.add(mine.number)
        return Trial(self.study, mine._trial_id)

    def finish(self, trial: Trial, outcome: Mapping[str, Any], value: float | None, is_whole: bool) -> bool:
        """Write what came of a trial; False if others took this worker for dead and gave the trial up."""
        trial.set_user_attr(OUTCOME, dict(outcome))
        state = TrialState.COMPLETE if is_whole else TrialState.PRUNED
        written = self.study.tell(trial, value if is_whole else None, state=state, skip_if_finished=True)
        self._running.discard(trial.number)
        return written.state is state

    def abandon(self, trial: Trial) -> None:
        """Mark a trial as failed, so that its settings are tried again."""
        self._running.discard(trial.number)
        self._fail(trial.number)

    def _trials(self) -> list[FrozenTrial]:
        return self.study.get_trials(deepcopy=False)

    def _checked(self, trial: FrozenTrial) -> FrozenTrial | None:
        """A trial that is finished, runs or failed; one whose worker is gone becomes failed."""
        if trial.state is not TrialState.RUNNING:
            return trial if _is_finished(trial) or trial.state is TrialState.FAIL else None
        name = str(trial.user_attrs.get(_WORKER, ""))
        is_lost = trial.number not in self._running if name == self.worker.name else not self.worker.is_alive(name)
        if is_lost and self._fail(trial.number):
            return optuna.create_trial(state=TrialState.FAIL, params=trial.params, distributions=trial.distributions)
        return self._trials()[trial.number] if is_lost else trial

    def _fail(self, number: int) -> bool:
        """Mark a running trial as failed; False if it had ended meanwhile."""
        with contextlib.suppress(UpdateFinishedTrialError):
            return self.study.tell(number, state=TrialState.FAIL, skip_if_finished=True).state is TrialState.FAIL
        return False

    def _history(self, trials: Sequence[FrozenTrial]) -> TrialHistory:
        finished = [trial for trial in trials if _is_finished(trial) and not self._is_copy(trial)]
        running = [trial for trial in trials if trial.state is TrialState.RUNNING]
        wanted = set(self.distributions)
        failed = [trial.params for trial in trials if trial.state is TrialState.FAIL and set(trial.params) == wanted]
        return TrialHistory(finished, running, failed)

    def _is_copy(self, trial: FrozenTrial) -> bool:
        """Whether two workers of an older version made it of the same point of a grid."""
        return self.method.is_distinct and trial.user_attrs[OUTCOME]["state"] == "repeated"


def _is_finished(trial: FrozenTrial) -> bool:
    return trial.state in _FINISHED and OUTCOME in trial.user_attrs


def _is_alive(trial: FrozenTrial) -> bool:
    return _is_finished(trial) or trial.state is TrialState.RUNNING
