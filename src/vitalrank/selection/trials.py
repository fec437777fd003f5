"""What the trials of a candidate say: its best one, and what repeating it is estimated to take."""

from __future__ import annotations

from optuna.trial import FrozenTrial

from vitalrank.selection.candidates import Candidate
from vitalrank.tuning.claims import OUTCOME
from vitalrank.tuning.searching import Search

GROWTH = 1.4  # a refit sees more rows than a trial did
_OVERHEAD = 0.5  # seconds of a finalist beside its training


def search_of(candidate: Candidate) -> Search:
    """The open search of a candidate."""
    assert candidate.search is not None, "opened() comes first"
    return candidate.search


def best_trial(candidate: Candidate) -> FrozenTrial | None:
    """The trial with the best value on valid; of those with the same, the first."""
    whole = [trial for trial in search_of(candidate).whole if trial.value is not None]
    return max(whole, key=lambda trial: (trial.value or 0.0, -trial.number), default=None)


def fit_seconds(candidate: Candidate) -> float:
    """The longest that a trial of the candidate took; others may have used a fitted model again."""
    return max((float(trial.user_attrs[OUTCOME]["seconds"]) for trial in search_of(candidate).whole), default=0.0)


def final_seconds(candidate: Candidate, trial: FrozenTrial) -> float:
    """What a finalist is estimated to take."""
    return _OVERHEAD + _seconds_of(candidate, trial)


def refit_seconds(candidate: Candidate, trial: FrozenTrial) -> float:
    """What the training on the whole log is estimated to take."""
    return GROWTH * _seconds_of(candidate, trial)


def _seconds_of(candidate: Candidate, trial: FrozenTrial) -> float:
    """What the training of a trial takes when it is repeated."""
    return float(trial.user_attrs[OUTCOME]["seconds"]) if candidate.has_steps else fit_seconds(candidate)


def seconds_spent(candidate: Candidate) -> float:
    """Time that went into a candidate so far."""
    return float(sum(trial.user_attrs[OUTCOME]["seconds"] for trial in search_of(candidate).claims.finished))
