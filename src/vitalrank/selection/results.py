"""What a search over models found: the model for the log, a ranking, and which differences are ties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vitalrank.comparing import Outcome, Results
from vitalrank.comparing.results import holm, paired_p
from vitalrank.tuning import Settings

if TYPE_CHECKING:
    from vitalrank.models.base import Recommender
    from vitalrank.samplers import Sampler

TIE = 0.05  # significance level


@dataclass(frozen=True)
class RankedModel:
    """One candidate of the ranking."""

    label: str
    value: float | None  # the best on valid; None if no trial came to a result
    settings: Settings | None  # of that trial
    epoch: int | None  # in which it was best; None for a model without steps
    trials: int
    seconds: float  # of all its trials
    test: float | None = None  # of a finalist
    p_value: float | None = None  # of a finalist against the winner, paired by user, adjusted by Holm
    is_tie: bool = False  # with the winner


@dataclass(frozen=True)
class Best:
    """What :func:`vitalrank.best` found.

    The winner is the best on valid, or of what valid cannot tell apart the best of a run-off on other parts; test is
    read once for each finalist and decides nothing. ``model`` is the winner, trained again on the whole log.
    """

    metric: str
    label: str
    model: Recommender = field(repr=False)
    settings: Settings = field(repr=False)
    sampler: Sampler | None = field(repr=False)  # None for a model without steps
    training: dict[str, Any] = field(repr=False)  # all training settings of the model
    value: float  # on valid
    epoch: int | None
    ranking: tuple[RankedModel, ...]  # the winner, then by valid
    verdict: str
    results: Results = field(repr=False)  # the finalists on test
    seconds: float = 0.0  # of the budget that were spent
    left_out: dict[str, str] = field(default_factory=dict)  # candidates that did not compete, and why
    out: Path | None = None

    @property
    def ties(self) -> list[str]:
        """Finalists that test cannot tell from the winner."""
        return [entry.label for entry in self.ranking if entry.is_tie]

    def to_dict(self) -> dict[str, Any]:
        """Everything but the model and the runs, as JSON holds it."""
        plain = {"metric": self.metric, "winner": self.label, "value": self.value, "epoch": self.epoch}
        plain |= {"settings": asdict(self.settings), "verdict": self.verdict, "seconds": self.seconds}
        ranking = [asdict(entry) for entry in self.ranking]
        return {**plain, "ties": self.ties, "left_out": self.left_out, "ranking": ranking}


def against_winner(winner: str, outcomes: Sequence[Outcome]) -> dict[str, float]:
    """The p-value of each other finalist against the winner, adjusted by Holm."""
    values = {outcome.label: outcome.per_user for outcome in outcomes}
    others = [label for label in values if label != winner]
    if len(values[winner]) < 2:
        return {}
    return dict(zip(others, holm([paired_p(values[label], values[winner]) for label in others]), strict=True))


def verdict_of(
    winner: str, metric: str, outcomes: Sequence[Outcome], p_values: dict[str, float], is_first: bool = True
) -> str:
    """What the test set says of the winner, in words."""
    tests = {outcome.label: outcome.metrics[metric] for outcome in outcomes}
    own = tests[winner]
    how = "is the best on valid" if is_first else "won the run-off, as valid could not tell it from the best"
    opening = f"{winner} {how}; on test it reaches {metric} {own:.4f}"
    others = sorted((label for label in tests if label != winner), key=lambda label: -tests[label])
    if not others:
        return f"{opening}."
    if not p_values:
        return f"{opening}, with too few test users to compare it."
    better = [label for label in others if tests[label] > own and p_values[label] < TIE]
    ties = [label for label in others if p_values[label] >= TIE]
    second = others[0]
    if better:
        first = better[0]
        gain = _percent(tests[first], own)
        return f"{opening}, but {first} is better there by {gain} (p {_p(p_values[first])}): valid and test disagree."
    if ties:
        named = _listed([f"{label} ({tests[label]:.4f}, p {_p(p_values[label])})" for label in ties])
        return f"{opening}, a tie with {named}: the difference may be luck."
    return f"{opening}, {_percent(own, tests[second])} above {second} (p {_p(p_values[second])}): more than luck."


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"= {value:.2g}"


def _percent(high: float, low: float) -> str:
    return f"{100 * (high / low - 1):.1f} %" if low > 0 else f"{high - low:.4f}"


def _listed(names: Sequence[str]) -> str:
    """Names as a list in a sentence.

    Examples
    --------
    >>> _listed(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
