"""Settings to try: first spread evenly over the space, then nearer and nearer to the best; the same for everyone."""

from __future__ import annotations

import math
from collections.abc import Mapping
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
# Each round's share of the trials, and of the space that it looks at around the best trial so far.
ROUNDS = ((0.5, 1.0), (0.25, 0.5), (0.25, 0.25))

Point = NDArray[np.float64]  # one share of each dimension


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
    >>> [search.settings(point).sampler for point in search.points(1, search.points(0)[0])]
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
        later = [int(share * self.trials) for share, _ in ROUNDS[1:]]
        return [self.trials - sum(later), *later]

    @property
    def rounds(self) -> int:
        """How many there are."""
        return len(ROUNDS)

    def points(self, number: int, best: Point | None = None) -> list[Point]:
        """The points of a round, given the best of the rounds before; without one they are spread again.

        Learning rate and L2 take the same turns for every contender, so that none has better luck with them; what is
        its own is spread apart from them.
        """
        count, before, share = self._counts[number], sum(self._counts[:number]), ROUNDS[number][1]
        widths = (len(SHARED), len(self._own))
        turns = [spread_points(before + count, width, self.seed + turn) for turn, width in enumerate(widths)]
        rows = np.hstack(turns)[before:]  # (count, d)
        if best is None or share == 1.0:
            return list(rows)
        low = np.clip(best - share / 2, 0.0, 1.0 - share)  # the whole box lies inside
        return list(low + share * rows)

    def settings(self, point: Point) -> Settings:
        """The settings at a point."""
        knobs = self._plan.knobs
        shares = dict(zip((*SHARED, *self._own), point.tolist(), strict=True))
        return self._plan.settings({name: value_at(knob.dimension, shares[name]) for name, knob in knobs.items()})


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


def merged(*parts: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of several origins; a later one wins."""
    return {name: value for part in parts for name, value in part.items()}


def is_better(value: float | None, than: float | None) -> bool:
    """Whether a value on valid beats another; a run that failed has none."""
    return value is not None and math.isfinite(value) and (than is None or value > than)
