"""Settings to try: spread over the space, then nearer to the best, then bred from the best few; alike for all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitalrank.paper.contenders import Contender
from vitalrank.training.settings import TrainConfig
from vitalrank.tuning.plans import Plan, plan_of
from vitalrank.tuning.results import Settings
from vitalrank.tuning.spaces import Choice, Dimension

SHARED = ("reg", "lr")
# Each round's share of the trials that are not bred, and of the space that it looks at around the best so far.
BOXES = ((0.5, 1.0), (0.25, 0.5), (0.25, 0.25))
BRED = 2  # rounds that follow, each with a sixth of all trials
ENOUGH = 48  # trials; with fewer there are too few good ones to breed from
_PARENTS = 8
_BEYOND = 0.25  # of the way between its parents, a child may lie past either
_JITTER = 0.05

Point = NDArray[np.float64]  # one share of each dimension
Tried = Sequence[tuple[Point, float]]  # points and what came of them on valid


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
    def _counts(self) -> list[int]:
        """Trials of each round; those that a share leaves over go to the first."""
        bred = [self.trials // 6] * BRED if self.trials >= ENOUGH else []
        rest = self.trials - sum(bred)
        later = [int(share * rest) for share, _ in BOXES[1:]]
        return [rest - sum(later), *later, *bred]

    @property
    def rounds(self) -> int:
        """How many there are."""
        return len(self._counts)

    def points(self, number: int, tried: Tried = ()) -> list[Point]:
        """The points of a round, given the trials before it that worked; without any they are spread again.

        While they are spread, learning rate and L2 take the same turns for every contender, so that none has better
        luck with them; what is its own is spread apart from them.
        """
        count, before = self._counts[number], sum(self._counts[:number])
        if number >= len(BOXES) and tried:
            return self._children(tried, count, np.random.default_rng((self.seed, number)))
        rows = self._spread(before + count)[before:]  # (count, d)
        share = BOXES[number][1] if number < len(BOXES) else 1.0
        return list(_around(tried, share, rows)) if tried else list(rows)

    def _spread(self, count: int) -> NDArray[np.float64]:
        widths = (len(SHARED), len(self._own))
        turns = [spread_points(count, width, self.seed + turn) for turn, width in enumerate(widths)]
        return np.hstack(turns)  # (count, d)

    def _children(self, tried: Tried, count: int, rng: np.random.Generator) -> list[Point]:
        """Points on the line between two of the best, or a little past them; a word is one of theirs."""
        best = sorted(tried, key=lambda trial: -trial[1])[:_PARENTS]
        parents = np.array([point for point, _ in best])  # (p, d)
        pairs = [rng.choice(len(parents), 2, replace=len(parents) < 2) for _ in range(count)]
        one, other = np.moveaxis(parents[np.array(pairs)], 1, 0)  # (count, d) each
        ways = rng.uniform(-_BEYOND, 1 + _BEYOND, (count, 1))
        between = one + ways * (other - one) + rng.normal(0.0, _JITTER, one.shape)
        inherited = np.where(ways < 0.5, one, other)
        return list(np.where(self._words, inherited, np.clip(between, 0.0, 1.0)))

    @cached_property
    def _words(self) -> list[bool]:
        """Which dimensions have no order."""
        knobs = self._plan.knobs
        choices = [knobs[name].dimension if name in knobs else None for name in (*SHARED, *self._own)]
        return [isinstance(one, Choice) and any(isinstance(value, str) for value in one.values) for one in choices]

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


def _around(tried: Tried, share: float, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows of the unit cube moved into a box around the best, which lies inside the cube as a whole."""
    best = max(tried, key=lambda trial: trial[1])[0]
    return np.clip(best - share / 2, 0.0, 1.0 - share) + share * rows


def spread_points(count: int, dimensions: int, seed: int = 0) -> NDArray[np.float64]:
    """Points of the unit cube, evenly spread however many are taken: an additive sequence from a random start.

    References
    ----------
    Roberts, "The unreasonable effectiveness of quasirandom sequences", 2018.

    Examples
    --------
    >>> spread_points(3, 2).shape, bool(np.all(spread_points(2, 2) == spread_points(3, 2)[:2]))
    ((3, 2), True)
    """
    root = 2.0
    for _ in range(60):  # of x ** (d + 1) = x + 1
        root = (1.0 + root) ** (1.0 / (dimensions + 1))
    steps = root ** -np.arange(1.0, dimensions + 1)  # (d,)
    start = np.random.default_rng(seed).random(dimensions)
    points: NDArray[np.float64] = (start + np.arange(count)[:, None] * steps) % 1.0
    return points


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


def is_better(value: float | None, than: float | None) -> bool:
    """Whether a value on valid beats another; a run that failed has none."""
    return value is not None and math.isfinite(value) and (than is None or value > than)
