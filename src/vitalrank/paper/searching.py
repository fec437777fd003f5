"""Settings to try: spread over the space, nearer to the best, bred from the best few, on lines; alike for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vitalrank.config import TrainConfig
from vitalrank.paper.contenders import Contender
from vitalrank.paper.points import Point, Tried, around, children, on_lines, spread_points
from vitalrank.tuning.plans import Plan, plan_of
from vitalrank.tuning.results import Settings
from vitalrank.tuning.spaces import Choice, Dimension, Range

SHARED = ("reg", "lr")
# Each round's share of the trials that are not bred, and of the space that it looks at around the best so far.
BOXES = ((0.5, 1.0), (0.25, 0.5), (0.25, 0.25))
BRED = 2  # rounds that follow, each with a sixth of all trials
ENOUGH = 48  # trials; with fewer there are too few good ones to breed from
PLENTY = 96  # trials; half of so many ask again what the first half took from one lucky trial
_LINES = 0.375  # of that second half; the rest is bred


# What was tried, a point of its own for each trial, random numbers -> the points of a round.
Finder = Callable[[Tried, NDArray[np.float64], np.random.Generator], list[Point]]


class Round(NamedTuple):
    """Trials that are known together, and how to find them from those before."""

    trials: int
    find: Finder


@dataclass(frozen=True)
class Search:
    """A contender's search, round by round.

    Parameters
    ----------
    contender
        Whose space it is.
    trials
        Settings to try in all rounds together.
    seed
        Of the points.

    Examples
    --------
    >>> from vitalrank.paper.contenders import CONTENDERS
    >>> search = Search(CONTENDERS["dns"], trials=4)
    >>> [search.settings(point).sampler for point in search.points(0)]
    [{'candidates': 17}, {'candidates': 6}]
    >>> [search.settings(point).sampler for point in search.points(1, [(search.points(0)[0], 0.1)])]
    [{'candidates': 23}]
    """

    contender: Contender
    trials: int
    seed: int = 0

    @cached_property
    def _plan(self) -> Plan:
        contender = self.contender
        return plan_of(contender.model, contender.sampler, dict(contender.space), TrainConfig(**contender.training))

    @cached_property
    def _own(self) -> list[str]:
        """What it does not share with the others."""
        return [name for name in self._plan.knobs if name not in SHARED]

    @cached_property
    def _rounds(self) -> list[Round]:
        first = self.trials // 2 if self.trials >= PLENTY else self.trials
        bred = [Round(first // 6, self._breed)] * BRED if first >= ENOUGH else []
        rest = first - sum(part.trials for part in bred)
        boxes = [Round(int(share * rest), _box(size)) for share, size in BOXES]
        boxes[0] = boxes[0]._replace(trials=rest - sum(part.trials for part in boxes[1:]))  # what shares leave over
        return [*boxes, *bred, *self._second_half(self.trials - first)]

    def _second_half(self, trials: int) -> list[Round]:
        """One thing at a time around the best, then bred again; nothing where there are no trials for it."""
        bred = int((1.0 - _LINES) * trials) // BRED
        lines = Round(trials - BRED * bred, self._change_one)
        return [lines, *[Round(bred, self._breed)] * BRED] if trials else []

    @property
    def rounds(self) -> int:
        """How many there are."""
        return len(self._rounds)

    def points(self, number: int, tried: Tried = ()) -> list[Point]:
        """The points of a round, given the trials before it that worked; without any they are spread again.

        While they are spread, learning rate and L2 take the same turns for every contender, so that none has better
        luck with them; what is its own is spread apart from them.
        """
        trials, find = self._rounds[number]
        before = sum(part.trials for part in self._rounds[:number])
        rows = self._spread(before + trials)[before:]  # (trials, d)
        return find(tried, rows, np.random.default_rng((self.seed, number))) if tried else list(rows)

    def _change_one(self, tried: Tried, rows: NDArray[np.float64], rng: np.random.Generator) -> list[Point]:
        changed = on_lines(tried, len(rows), self._few, self._lines)
        return [*changed, *rows[len(changed) :]]  # words alone may be too few

    def _breed(self, tried: Tried, rows: NDArray[np.float64], rng: np.random.Generator) -> list[Point]:
        return children(tried, len(rows), self._are_words, rng)

    def _spread(self, count: int) -> NDArray[np.float64]:
        widths = (len(SHARED), len(self._own))
        turns = [spread_points(count, width, self.seed + turn) for turn, width in enumerate(widths)]
        return np.hstack(turns)  # (count, d)

    @cached_property
    def _dimensions(self) -> list[Dimension | None]:
        """In the order of a point's shares; None for what is not searched."""
        knobs = self._plan.knobs
        return [knobs[name].dimension if name in knobs else None for name in (*SHARED, *self._own)]

    @cached_property
    def _few(self) -> list[int]:
        """How many values those dimensions have that have no more than a few."""
        return [len(one.values) if isinstance(one, Choice) else 0 for one in self._dimensions]

    @cached_property
    def _are_words(self) -> list[bool]:
        """Which dimensions have no order."""
        return [isinstance(one, Choice) and any(isinstance(v, str) for v in one.values) for one in self._dimensions]

    @cached_property
    def _lines(self) -> list[int]:
        """The ranges of its own, or the shared ones where it has none."""
        ranges = [place for place, one in enumerate(self._dimensions) if isinstance(one, Range)]
        return [place for place in ranges if place >= len(SHARED)] or ranges

    def settings(self, point: Point) -> Settings:
        """The settings at a point."""
        shares = dict(zip((*SHARED, *self._own), point.tolist(), strict=True))
        return self.named({name: value_at(knob.dimension, shares[name]) for name, knob in self._plan.knobs.items()})

    @property
    def names(self) -> set[str]:
        """What is searched."""
        return set(self._plan.knobs)

    def named(self, values: Mapping[str, Any]) -> Settings:
        """The settings with these values, one for each name."""
        return self._plan.settings(values)


def _box(share: float) -> Finder:
    """Look at a share of the space around the best."""
    return lambda tried, rows, rng: around(tried, share, rows)


def value_at(dimension: Dimension, share: float) -> Any:
    """The value that lies at this share of a dimension; real ones with three digits.

    Examples
    --------
    >>> from vitalrank.tuning.spaces import Range
    >>> value_at(Range(1, 64, log=True), 0.5), value_at(Choice(("a", "b")), 0.5)
    (8, 'b')
    """
    if isinstance(dimension, Choice):
        return dimension.values[min(int(share * len(dimension.values)), len(dimension.values) - 1)]
    low, high = dimension.low, dimension.high
    value = low * (high / low) ** share if dimension.log else low + (high - low) * share
    if isinstance(low, int) and isinstance(high, int):
        return round(value)
    return float(f"{value:.3g}") if value else 0.0
