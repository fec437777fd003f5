"""What an evaluation found: averages by name, and the lists behind them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from html import escape

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.checks import parse_metric
from vitalrank._util.typing import Array, Values
from vitalrank.metrics import BY_LENGTH, METRICS, TOGETHER, harmonic_mean

Groups = dict[str, dict[str, float]]

COVERAGE = "coverage"  # of the lists together, so not among the per-user METRICS


@dataclass(frozen=True)
class Lists:
    """What the metrics are computed from: which places of which user's list hit."""

    users: NDArray[np.int64]  # (U,) internal ids of the users with test items
    relevant: NDArray[np.int64]  # (U,) their numbers of test items
    hits: NDArray[np.bool_]  # (U, N), N at most the size of the catalogue
    items: NDArray[np.int32]  # (hits,) the items hit, row by row
    coverage: dict[int, float]  # length -> share of the catalogue
    beyond: Mapping[str, Values] = field(default_factory=dict)  # name -> (U,), of the metrics beyond accuracy
    together: Mapping[str, float] = field(default_factory=dict)  # name -> value of all lists


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Mapping[str, float]):
    """Averages by name (``result["ndcg@10"]``), with the per-user values behind them.

    Attributes
    ----------
    users
        Internal ids of the test users, in the order of the per-user values.
    relevant
        Their numbers of test items.
    per_user
        Per-user values by name, computed when asked for.
    intervals
        ``(low, high)`` by name, if a bootstrap was asked for.
    groups
        Averages by group and name, if ``by`` was given.
    """

    lists: Lists
    names: tuple[str, ...]
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    groups: Groups = field(default_factory=dict)

    @property
    def users(self) -> NDArray[np.int64]:
        return self.lists.users

    @property
    def relevant(self) -> NDArray[np.int64]:
        return self.lists.relevant

    @cached_property
    def per_user(self) -> Mapping[str, Values]:
        return PerUser(self.lists)

    @cached_property
    def values_by_name(self) -> dict[str, float]:
        """The averages as a plain dict."""
        return {name: self._average(name) for name in self.names}

    def _average(self, name: str) -> float:
        metric, length = parse_metric(name)
        if metric == COVERAGE:
            return self.lists.coverage[length]
        if metric in TOGETHER:
            return self.lists.together[name]
        return mean_of(self.per_user, name, slice(None))

    def __getitem__(self, name: str) -> float:
        if name not in self.values_by_name:
            raise KeyError(f"{name}: not computed; this result has {', '.join(self.names)}.")
        return self.values_by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        table = self._table()
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in table)

    def _repr_html_(self) -> str:
        header, *rows = self._table()
        head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
        body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def _table(self) -> list[list[str]]:
        """One row per metric, one column per length, then the same for each group."""
        lengths = sorted({parse_metric(name)[1] for name in self.names})
        metrics = list(dict.fromkeys(parse_metric(name)[0] for name in self.names))
        rows = [[f"{len(self.users):,} users", *(f"@{n}" for n in lengths)]]
        rows += [[metric, *(self._cell(f"{metric}@{n}") for n in lengths)] for metric in metrics]
        for group, values in self.groups.items():
            inside = [metric for metric in metrics if f"{metric}@{lengths[0]}" in values]
            rows += [[f"{metric}, {group}", *(f"{values[f'{metric}@{n}']:.4f}" for n in lengths)] for metric in inside]
        return rows

    def _cell(self, name: str) -> str:
        low_high = "" if name not in self.intervals else "[{:.4f}, {:.4f}]".format(*self.intervals[name])
        return f"{self[name]:.4f} {low_high}".rstrip()


class PerUser(Mapping[str, Values]):
    """Per-user values by name, such as ``"ndcg@10"``; each computed once."""

    def __init__(self, lists: Lists) -> None:
        self._lists = lists
        self._known: dict[str, Values] = dict(lists.beyond)
        self._names = [*(f"{metric}@{n}" for n in lists.coverage for metric in METRICS), *lists.beyond]

    def __getitem__(self, name: str) -> Values:
        if name not in self._names:
            raise KeyError(f"{name}: no per-user values; this result has {', '.join(self._names)}.")
        if name not in self._known:
            metric, length = parse_metric(name)
            asked = {"length": length} if metric in BY_LENGTH else {}
            self._known[name] = METRICS[metric](self._lists.hits[:, :length], self._lists.relevant, **asked)
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def mean_of(per_user: Mapping[str, Values], name: str, rows: Array | slice) -> float:
    """Average over some users; F1 from the averaged precision and recall."""
    metric, length = parse_metric(name)
    if metric == "f1":
        parts = (per_user[f"{part}@{length}"][rows].mean() for part in ("precision", "recall"))
        return float(harmonic_mean(*parts))
    return float(per_user[name][rows].mean())
