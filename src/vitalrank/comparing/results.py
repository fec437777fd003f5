"""From outcomes to a ranking: means and spread over seeds, and whether differences are significant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from vitalrank._util.typing import Values
from vitalrank.comparing.outcomes import Outcome
from vitalrank.comparing.tables import to_markdown
from vitalrank.errors import SettingError
from vitalrank.evaluation.significance import TESTS


@dataclass(frozen=True)
class Row:
    """One line of the ranking; means are over seeds."""

    label: str
    runs: tuple[Outcome, ...]  # by seed
    mean: dict[str, float]
    spread: dict[str, float] | None  # standard deviation over seeds; None with a single one
    seconds: float
    epochs: float
    tries: float | None
    other: str | None  # the best of the others
    difference: float | None  # to it, in the metric that ranks
    p_value: float | None  # paired by user, adjusted by Holm for the number of rows


@dataclass(frozen=True)
class Results:
    """A finished comparison.

    Attributes
    ----------
    metric
        What ranks.
    outcomes
        Every run.
    metadata
        Log, split, settings and versions: what it takes to repeat it.
    """

    metric: str
    outcomes: tuple[Outcome, ...]
    metadata: Mapping[str, Any]

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """The ranking, best first; equal ones in the order they were given."""
        return rank(self.outcomes, self.metric)

    def __repr__(self) -> str:
        return to_markdown(self)

    def _repr_markdown_(self) -> str:
        return repr(self)


def rank(outcomes: Sequence[Outcome], metric: str) -> tuple[Row, ...]:
    """Rows from outcomes, best first.

    Each row is tested against the best of the others: a paired t-test over the test users, each user's value being
    the mean over seeds. The p-values are adjusted by Holm's method.
    """
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(outcome.label, []).append(outcome)
    names = [name for name in outcomes[0].metrics if all(name in run.metrics for run in outcomes)]
    if metric not in names or len({run.per_user.shape for run in outcomes}) > 1:
        raise SettingError(f"the runs are not of one comparison: not all have {metric} of the same test users.")
    order = sorted(groups, key=lambda label: -_mean([run.metrics[metric] for run in groups[label]]))
    per_user = {label: np.mean([run.per_user for run in groups[label]], axis=0) for label in order}
    p_values = _p_values([per_user[label] for label in order])
    rows = []
    for place, label in enumerate(order):
        other = None if len(order) == 1 else order[1] if place == 0 else order[0]
        rows.append(_row(groups[label], names, metric, groups.get(other or "", []), p_values[place]))
    return tuple(rows)


def _row(
    runs: list[Outcome], names: Sequence[str], metric: str, other_runs: list[Outcome], p_value: float | None
) -> Row:
    values = {name: [run.metrics[name] for run in runs] for name in names}
    tries = [run.tries for run in runs if run.tries is not None]
    mean = {name: _mean(values[name]) for name in names}
    return Row(
        label=runs[0].label,
        runs=tuple(runs),
        mean=mean,
        spread={name: float(np.std(values[name], ddof=1)) for name in names} if len(runs) > 1 else None,
        seconds=_mean([run.seconds for run in runs]),
        epochs=_mean([len(run.records) for run in runs]),
        tries=_mean(tries) if tries else None,
        other=other_runs[0].label if other_runs else None,
        difference=None if not other_runs else mean[metric] - _mean([run.metrics[metric] for run in other_runs]),
        p_value=p_value,
    )


def _p_values(ranked: Sequence[Values]) -> list[float | None]:
    """Of each row against the first, and of the first against the second; None where there is nothing to test."""
    if len(ranked) < 2 or len(ranked[0]) < 2:
        return [None] * len(ranked)
    adjusted = holm([paired_p(values, ranked[0]) for values in ranked[1:]])
    return [adjusted[0], *adjusted]


def paired_p(a: Values, b: Values) -> float:
    """Two-sided p-value of a paired t-test; 1 where nothing differs.

    Examples
    --------
    >>> paired_p(np.array([1.0, 2.0]), np.array([1.0, 2.0]))
    1.0
    """
    return TESTS["t"](a - b, 0, 0)


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values adjusted for the number of tests.

    References
    ----------
    Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6(2), 1979.

    Examples
    --------
    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for done, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        highest = max(highest, min(1.0, (len(p_values) - done) * p_values[index]))
        adjusted[index] = highest
    return adjusted


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))
