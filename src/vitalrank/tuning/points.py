"""Points of the unit cube to evaluate next: low-discrepancy, around the best, on lines through it, or bred."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_PARENTS = 8
_BEYOND = 0.25  # of the way between its parents, a child may lie past either
_JITTER = 0.05

Point = NDArray[np.float64]  # one coordinate per dimension, a share of its range
Evaluated = Sequence[tuple[Point, float]]  # points and their values on valid


def spread_points(count: int, dimensions: int, seed: int = 0) -> NDArray[np.float64]:
    """A low-discrepancy sequence in the unit cube: additive, from a random start.

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


def around(evaluated: Evaluated, share: float, rows: NDArray[np.float64]) -> list[Point]:
    """Rows of the unit cube moved into a box around the best, which lies inside the cube as a whole.

    Examples
    --------
    >>> [point.tolist() for point in around([(np.array([0.5]), 1.0)], 0.5, np.array([[0.0], [1.0]]))]
    [[0.25], [0.75]]
    """
    best = _best(evaluated, 1)[0]
    return list(np.clip(best - share / 2, 0.0, 1.0 - share) + share * rows)


def on_lines(evaluated: Evaluated, count: int, sizes: Sequence[int], lines: Sequence[int]) -> list[Point]:
    """The best with one thing changed: to each other choice, and to values along each searched range.

    Parameters
    ----------
    evaluated
        Points and their values on valid.
    count
        Points wanted.
    sizes
        Number of values of each dimension that is a choice; 0 for the others.
    lines
        Dimensions to search along.

    Examples
    --------
    >>> [point.tolist() for point in on_lines([(np.array([0.3, 0.1]), 1.0)], 3, sizes=[0, 2], lines=[0])]
    [[0.3, 0.75], [0.25, 0.1], [0.75, 0.1]]
    """
    best = _best(evaluated, 1)[0]
    changes = [
        (dimension, (value + 0.5) / size)
        for dimension, size in enumerate(sizes)
        for value in range(size)
        if value != min(int(best[dimension] * size), size - 1)
    ][:count]
    for number, dimension in enumerate(lines):
        many = (count - len(changes)) // (len(lines) - number)
        changes += [(dimension, (step + 0.5) / many) for step in range(many)]
    points = np.repeat(best[None], len(changes), axis=0)  # (count, d)
    for point, (dimension, share) in zip(points, changes, strict=True):
        point[dimension] = share
    return list(points)


def children(evaluated: Evaluated, count: int, unordered: Sequence[bool], rng: np.random.Generator) -> list[Point]:
    """Points on the line between two of the best, or a little past them; an unordered value is one of theirs.

    Examples
    --------
    >>> two = [(np.array([0.2, 0.1]), 1.0), (np.array([0.4, 0.9]), 2.0)]
    >>> [point.round(2).tolist() for point in children(two, 2, [False, True], np.random.default_rng(0))]
    [[0.41, 0.9], [0.22, 0.1]]
    """
    parents = np.array(_best(evaluated, _PARENTS))  # (p, d)
    pairs = [rng.choice(len(parents), 2, replace=len(parents) < 2) for _ in range(count)]
    one, other = np.moveaxis(parents[np.array(pairs)], 1, 0)  # (count, d) each
    weights = rng.uniform(-_BEYOND, 1 + _BEYOND, (count, 1))
    between = one + weights * (other - one) + rng.normal(0.0, _JITTER, one.shape)
    inherited = np.where(weights < 0.5, one, other)
    return list(np.where(unordered, inherited, np.clip(between, 0.0, 1.0)))


def _best(evaluated: Evaluated, count: int) -> list[Point]:
    return [point for point, _ in sorted(evaluated, key=lambda trial: -trial[1])[:count]]
