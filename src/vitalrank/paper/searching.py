"""Settings to try: points spread evenly over a space, the same way for every contender, each trial on its own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitalrank.paper.contenders import Contender
from vitalrank.training.settings import TrainConfig
from vitalrank.tuning.plans import plan_of
from vitalrank.tuning.results import Settings
from vitalrank.tuning.spaces import Choice, Dimension

SHARED = ("reg", "lr")


def settings_to_try(contender: Contender, count: int, seed: int = 0) -> list[Settings]:
    """The first ``count`` points of the contender's space; asking for more keeps those of less.

    Learning rate and L2 take the same turns for every contender, so that none has better luck with them; what is its
    own is spread apart from them.

    Examples
    --------
    >>> from vitalrank.paper.contenders import CONTENDERS
    >>> [found.sampler for found in settings_to_try(CONTENDERS["dns"], 2)]
    [{'candidates': 17}, {'candidates': 6}]
    """
    config = TrainConfig(**contender.training)
    plan = plan_of(contender.model, contender.sampler, dict(contender.space), config)
    own = [name for name in plan.knobs if name not in SHARED]
    rows = np.hstack([spread_points(count, len(SHARED), seed), spread_points(count, len(own), seed + 1)])
    chosen = [dict(zip((*SHARED, *own), row, strict=True)) for row in rows.tolist()]
    return [
        plan.settings({name: value_at(knob.dimension, values[name]) for name, knob in plan.knobs.items()})
        for values in chosen
    ]


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
        return dimension.values[int(share * len(dimension.values))]
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
