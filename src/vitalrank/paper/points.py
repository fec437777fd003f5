"""Points of the unit cube to look at next: spread, around the best, on lines through it, or bred from the best few."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_PARENTS = 8
_BEYOND = 0.25  # of the way between its parents, a child may lie past either
_JITTER = 0.05

Point = NDArray[np.float64]  # one share of each dimension
Tried = Sequence[tuple[Point, float]]  # points and what came of them on valid


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


def around(tried: Tried, share: float, rows: NDArray[np.float64]) -> list[Point]:
    """Rows of the unit cube moved into a box around the best, which lies inside the cube as a whole.

    Examples
    --------
    >>> [point.tolist() for point in around([(np.array([0.5]), 1.0)], 0.5, np.array([[0.0], [1.0]]))]
    [[0.25], [0.75]]
    """
    best = _best(tried, 1)[0]
    return list(np.clip(best - share / 2, 0.0, 1.0 - share) + share * rows)


def on_lines(tried: Tried, count: int, words: Sequence[int], lines: Sequence[int]) -> list[Point]:
    """The best with one thing changed: to each other word, and to places all along the range of each line's dimension.

    Parameters
    ----------
    tried
        What was tried, and what came of it.
    count
        Points wanted.
    words
        Values of each dimension that has no more than a few; 0 for the others.
    lines
        Dimensions to go along.

    Examples
    --------
    >>> [point.tolist() for point in on_lines([(np.array([0.3, 0.1]), 1.0)], 3, words=[0, 2], lines=[0])]
    [[0.3, 0.75], [0.25, 0.1], [0.75, 0.1]]
    """
    best = _best(tried, 1)[0]
    changes = [
        (dimension, (word + 0.5) / many)
        for dimension, many in enumerate(words)
        for word in range(many)
        if word != min(int(best[dimension] * many), many - 1)
    ][:count]
    for turn, dimension in enumerate(lines):
        many = (count - len(changes)) // (len(lines) - turn)
        changes += [(dimension, (place + 0.5) / many) for place in range(many)]
    points = np.repeat(best[None], len(changes), axis=0)  # (count, d)
    for point, (dimension, share) in zip(points, changes, strict=True):
        point[dimension] = share
    return list(points)


def children(tried: Tried, count: int, is_word: Sequence[bool], rng: np.random.Generator) -> list[Point]:
    """Points on the line between two of the best, or a little past them; a word is one of theirs.

    Examples
    --------
    >>> two = [(np.array([0.2, 0.1]), 1.0), (np.array([0.4, 0.9]), 2.0)]
    >>> [point.round(2).tolist() for point in children(two, 2, [False, True], np.random.default_rng(0))]
    [[0.41, 0.9], [0.22, 0.1]]
    """
    parents = np.array(_best(tried, _PARENTS))  # (p, d)
    pairs = [rng.choice(len(parents), 2, replace=len(parents) < 2) for _ in range(count)]
    one, other = np.moveaxis(parents[np.array(pairs)], 1, 0)  # (count, d) each
    ways = rng.uniform(-_BEYOND, 1 + _BEYOND, (count, 1))
    between = one + ways * (other - one) + rng.normal(0.0, _JITTER, one.shape)
    inherited = np.where(ways < 0.5, one, other)
    return list(np.where(is_word, inherited, np.clip(between, 0.0, 1.0)))


def _best(tried: Tried, count: int) -> list[Point]:
    return [point for point, _ in sorted(tried, key=lambda trial: -trial[1])[:count]]
