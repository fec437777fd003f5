"""The search in rounds: points spread over the space, nearer to the best, bred from the best few, and line searches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vitalrank.tuning.points import Evaluated, Point, around, children, on_lines, spread_points
from vitalrank.tuning.spaces import Choice, Dimension, Range, Space, share_of, value_from_share

SHARED = ("reg", "lr")
# Each round's share of the trials that are not bred, and of the space that it looks at around the best so far.
BOXES = ((0.5, 1.0), (0.25, 0.5), (0.25, 0.25))
BRED = 2  # rounds that follow, each with a sixth of all trials
ENOUGH = 48  # trials; with fewer there are too few good ones to breed from
PLENTY = 96  # trials; half of so many ask again what the first half took from one lucky trial
_LINES = 0.375  # of that second half; the rest is bred

# Evaluated points, a spread point for each trial, a random generator -> the points of a round.
Proposer = Callable[[Evaluated, NDArray[np.float64], np.random.Generator], list[Point]]


class Round(NamedTuple):
    """Trials that depend on no result of each other, and how to choose them from those before."""

    trials: int
    propose: Proposer


@dataclass(frozen=True)
class Rounds:
    """The rounds of a search over a space.

    Parameters
    ----------
    space
        What is searched.
    trials
        Settings to try in all rounds together.
    seed
        Of the points.

    Examples
    --------
    >>> rounds = Rounds({"candidates": Range(4, 64, log=True)}, trials=4)
    >>> [rounds.values(point) for point in rounds.points(0)]
    [{'candidates': 17}, {'candidates': 6}]
    >>> [rounds.values(point) for point in rounds.points(1, [(rounds.points(0)[0], 0.1)])]
    [{'candidates': 23}]
    """

    space: Space
    trials: int
    seed: int = 0

    @cached_property
    def _names(self) -> list[str]:
        """In the order of a point's coordinates: first what searches of different samplers share."""
        return [*SHARED, *(name for name in self.space if name not in SHARED)]

    @cached_property
    def _rounds(self) -> list[Round]:
        first = self.trials // 2 if self.trials >= PLENTY else self.trials
        bred = [Round(first // 6, self._breed)] * BRED if first >= ENOUGH else []
        rest = first - sum(part.trials for part in bred)
        boxes = [Round(int(share * rest), _box(size)) for share, size in BOXES]
        boxes[0] = boxes[0]._replace(trials=rest - sum(part.trials for part in boxes[1:]))  # what shares leave over
        return [*boxes, *bred, *self._second_half(self.trials - first)]

    def _second_half(self, trials: int) -> list[Round]:
        """Line searches around the best, then bred again; nothing where there are no trials for it."""
        bred = int((1.0 - _LINES) * trials) // BRED
        lines = Round(trials - BRED * bred, self._change_one)
        return [lines, *[Round(bred, self._breed)] * BRED] if trials else []

    def __len__(self) -> int:
        return len(self._rounds)

    def points(self, number: int, evaluated: Evaluated = ()) -> list[Point]:
        """The points of a round, given the evaluated ones before it; without any they are spread again.

        While they are spread, learning rate and L2 have the same sequence for every sampler, so that none has better
        luck with them; the sampler's own settings are spread apart from them.
        """
        trials, propose = self._rounds[number]
        before = sum(part.trials for part in self._rounds[:number])
        rows = self._spread(before + trials)[before:]  # (trials, d)
        rng = np.random.default_rng((self.seed, number))
        return propose(evaluated, rows, rng) if evaluated else list(rows)

    def values(self, point: Point) -> dict[str, Any]:
        """The settings at a point."""
        shares = dict(zip(self._names, point.tolist(), strict=True))
        return {name: value_from_share(dimension, shares[name]) for name, dimension in self.space.items()}

    def point(self, values: Mapping[str, Any]) -> Point:
        """The point of some settings."""
        shares = [share_of(self.space[name], values[name]) if name in self.space else 0.5 for name in self._names]
        return np.array(shares)

    def _change_one(self, evaluated: Evaluated, rows: NDArray[np.float64], rng: np.random.Generator) -> list[Point]:
        changed = on_lines(evaluated, len(rows), self._sizes, self._lines)
        return [*changed, *rows[len(changed) :]]  # choices alone may be too few

    def _breed(self, evaluated: Evaluated, rows: NDArray[np.float64], rng: np.random.Generator) -> list[Point]:
        return children(evaluated, len(rows), self._unordered, rng)

    def _spread(self, count: int) -> NDArray[np.float64]:
        widths = (len(SHARED), len(self._names) - len(SHARED))
        parts = [spread_points(count, width, self.seed + number) for number, width in enumerate(widths)]
        return np.hstack(parts)  # (count, d)

    @cached_property
    def _dimensions(self) -> list[Dimension | None]:
        """In the order of a point's coordinates; None for what is not searched."""
        return [self.space.get(name) for name in self._names]

    @cached_property
    def _sizes(self) -> list[int]:
        """The number of values of each choice; 0 for the others."""
        return [len(one.values) if isinstance(one, Choice) else 0 for one in self._dimensions]

    @cached_property
    def _unordered(self) -> list[bool]:
        """Which dimensions have no order."""
        return [isinstance(one, Choice) and any(isinstance(v, str) for v in one.values) for one in self._dimensions]

    @cached_property
    def _lines(self) -> list[int]:
        """The ranges of the sampler's own, or the shared ones where it has none."""
        ranges = [number for number, one in enumerate(self._dimensions) if isinstance(one, Range)]
        return [number for number in ranges if number >= len(SHARED)] or ranges


class TrialResult(NamedTuple):
    """The result of a trial that ended; no value if it failed."""

    value: float | None


class RoundsState:
    """How far a search in rounds has come.

    Parameters
    ----------
    rounds
        The search.
    result
        The result of a trial with some settings; None if it is not finished.
    start
        Settings to try before all rounds.
    """

    def __init__(
        self,
        rounds: Rounds,
        result: Callable[[Mapping[str, Any]], TrialResult | None],
        start: Mapping[str, Any] | None = None,
    ) -> None:
        self._rounds = rounds
        self._result = result
        self._known = 0  # rounds whose trials are known
        self._trials = [] if start is None else [(rounds.point(start), dict(start))]

    @property
    def candidates(self) -> list[dict[str, Any]]:
        """The settings of all trials that are known so far."""
        return [values for _, values in self._trials]

    @property
    def is_complete(self) -> bool:
        """Whether all trials are known and finished."""
        return self._known == len(self._rounds) and self._are_finished()

    def advance(self) -> None:
        """Choose the trials of the next rounds, as far as the results of those before are there."""
        while self._known < len(self._rounds) and self._are_finished():
            results = [(point, self._result(values)) for point, values in self._trials]
            evaluated = [(point, one.value) for point, one in results if one is not None and one.value is not None]
            points = self._rounds.points(self._known, evaluated)
            self._trials += [(point, self._rounds.values(point)) for point in points]
            self._known += 1

    def _are_finished(self) -> bool:
        return all(self._result(values) is not None for values in self.candidates)


def finalists_of(results: Sequence[tuple[Mapping[str, Any], float | None]], count: int) -> list[Mapping[str, Any]]:
    """The settings with the best values, the best first, none twice; a trial that failed has no value.

    Examples
    --------
    >>> finalists_of([({"dim": 8}, 0.2), ({"dim": 4}, 0.1), ({"dim": 8}, 0.2), ({"dim": 2}, None)], 2)
    [{'dim': 8}, {'dim': 4}]
    """
    working = [(value, settings) for settings, value in results if value is not None]
    ranked = [settings for _, settings in sorted(working, key=lambda pair: -pair[0])]
    return [settings for number, settings in enumerate(ranked) if settings not in ranked[:number]][:count]


def _box(share: float) -> Proposer:
    """Look at a share of the space around the best."""
    return lambda evaluated, rows, rng: around(evaluated, share, rows)
