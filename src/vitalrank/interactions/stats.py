"""Summary statistics of a log: size, sparsity, degree quantiles, Gini coefficient."""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

QUANTILES = (0.0, 0.25, 0.5, 0.75, 0.99, 1.0)


@dataclass(frozen=True)
class Statistics:
    """Size and shape of a log."""

    users: int
    items: int
    observations: int
    sparsity: float  # share of the users x items table that is empty
    user_degree: dict[float, float]  # quantile -> interactions per user
    item_degree: dict[float, float]  # quantile -> interactions per item
    item_gini: float  # 0: all items equally popular, 1: one item has everything
    repeats: int = 0  # repeated pairs dropped on the way
    skipped: int = 0  # unreadable lines skipped on the way

    @classmethod
    def of(cls, user_degree: NDArray[Any], item_degree: NDArray[Any], repeats: int = 0, skipped: int = 0) -> Statistics:
        observations = int(item_degree.sum())
        cells = len(user_degree) * len(item_degree)
        return cls(
            users=len(user_degree),
            items=len(item_degree),
            observations=observations,
            sparsity=1.0 - observations / cells if cells else 1.0,
            user_degree=quantiles(user_degree),
            item_degree=quantiles(item_degree),
            item_gini=gini(item_degree),
            repeats=repeats,
            skipped=skipped,
        )

    def rows(self) -> Iterator[tuple[str, str]]:
        """Label and printable value, one pair per line of a table."""
        yield "users", f"{self.users:,}"
        yield "items", f"{self.items:,}"
        yield "observations", f"{self.observations:,}"
        yield "sparsity", f"{self.sparsity:.2%}"
        for side, values in (("user", self.user_degree), ("item", self.item_degree)):
            label = " / ".join(_quantile_name(q) for q in values)
            yield f"{side} degree {label}", " / ".join(f"{value:,.0f}" for value in values.values())
        yield "Gini of item degree", f"{self.item_gini:.3f}"
        yield "repeated pairs dropped", f"{self.repeats:,}"
        yield "unreadable lines skipped", f"{self.skipped:,}"


def _quantile_name(quantile: float) -> str:
    return {0.0: "min", 0.5: "median", 1.0: "max"}.get(quantile, f"{quantile:.0%}")


def quantiles(degree: NDArray[Any]) -> dict[float, float]:
    """Degree at each of the reported quantiles (the lower neighbour: always a degree that occurs)."""
    if not len(degree):
        return dict.fromkeys(QUANTILES, 0.0)
    return dict(zip(QUANTILES, np.quantile(degree, QUANTILES, method="lower").astype(float).tolist(), strict=True))


def gini(degree: NDArray[Any]) -> float:
    """Gini coefficient ``sum_k (2k - n - 1) d_(k) / (n sum d)``, degrees in rising order, k from 1.

    Examples
    --------
    >>> gini(np.array([5, 5, 5])), gini(np.array([0, 0, 0, 12]))
    (0.0, 0.75)
    """
    total = float(degree.sum())
    if not total:
        return 0.0
    n = len(degree)
    return float((2 * np.arange(1, n + 1) - n - 1) @ np.sort(degree) / (n * total))


def summary_line(users: int, items: int, rows: int, **dropped: int) -> str:
    """The ``repr`` of a log.

    Examples
    --------
    >>> summary_line(1, 2, 3, repeats=0, skipped=4)
    'Interactions(1 user, 2 items, 3 rows; dropped: 4 skipped)'
    """
    notes = ", ".join(f"{count:,} {name}" for name, count in dropped.items() if count)
    counts = ", ".join((_count(users, "user"), _count(items, "item"), _count(rows, "row")))
    return f"Interactions({counts}{'; dropped: ' if notes else ''}{notes})"


def to_html(caption: str, statistics: Statistics) -> str:
    """A table for notebooks."""
    cells = "".join(
        f"<tr><th style='text-align:left'>{html.escape(label)}</th><td>{html.escape(value)}</td></tr>"
        for label, value in statistics.rows()
    )
    return f"<table><caption>{html.escape(caption)}</caption>{cells}</table>"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
