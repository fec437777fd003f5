"""From the runs of a comparison to the curves of its charts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from statistics import fmean
from typing import Any

from vitalrank.comparing.outcomes import Outcome
from vitalrank.comparing.results import Results
from vitalrank.history import Record
from vitalrank.report.charts import Line

_BINS, _FEWEST = 10, 20  # of items by degree, and items in one
_WIDE = 20.0  # highest over lowest value from which a scale is logarithmic


def lines(
    results: Results,
    points_of: Callable[[Outcome], list[tuple[float, float]]],
    *,
    seeds: bool = True,
    dashed: bool = False,
    mark_best: bool = False,
) -> list[Line]:
    """A line for the first seed of each row, and faint ones for the others."""
    drawn = []
    for number, row in enumerate(results.rows):
        for place, run in enumerate(row.runs if seeds else row.runs[:1]):
            found = points_of(run)
            mark = _highest(found) if mark_best and found else None
            drawn.append(Line(row.label, number, found, place > 0, dashed, mark))
    return drawn


def points(records: Iterable[Record], name: str) -> list[tuple[float, float]]:
    """Values of one name by epoch, where it was recorded."""
    return [(record["epoch"], record[name]) for record in records if record.get(name) is not None]


def against_seconds(records: Iterable[Record], name: str) -> list[tuple[float, float]]:
    """Values of one name by the seconds spent on training so far."""
    spent, found = 0.0, []
    for record in records:
        spent += record.get("seconds", 0.0)
        if record.get(name) is not None:
            found.append((spent, record[name]))
    return found


def imbalances(records: Iterable[Record], name: str) -> list[tuple[float, float]]:
    """A quantile of the imbalance values by epoch."""
    return [(record["epoch"], record["imbalance"][name]) for record in records if name in record.get("imbalance", {})]


def norms_by_degree(projection: dict[str, Any] | None) -> list[tuple[float, float]]:
    """Mean norm against mean degree, in bins of equally many of the items shown.

    Examples
    --------
    >>> norms_by_degree({"degree": [1] * 20 + [9] * 20, "norm": [0.5] * 20 + [2.0] * 20})
    [(1.0, 0.5), (9.0, 2.0)]
    """
    if projection is None or "norm" not in projection:  # of a comparison kept before norms were
        return []
    pairs = sorted(zip(projection["degree"], projection["norm"], strict=True))
    bins = max(1, min(_BINS, len(pairs) // _FEWEST))
    cuts = [len(pairs) * place // bins for place in range(bins + 1)]
    groups = [pairs[begin:end] for begin, end in pairwise(cuts) if end > begin]
    means = [(fmean(max(degree, 1) for degree, _ in group), fmean(norm for _, norm in group)) for group in groups]
    return [point for place, point in enumerate(means) if not place or point[0] > means[place - 1][0]]


def wide(lines: Iterable[Line]) -> bool:
    """Whether the values call for a logarithmic scale."""
    values = [y for line in lines for _, y in line.points if y > 0]
    return bool(values) and max(values) > _WIDE * min(values)


def _highest(points: list[tuple[float, float]]) -> int:
    values = [y for _, y in points]
    return values.index(max(values))
