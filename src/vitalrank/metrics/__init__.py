"""Ranking metrics, one function each: of accuracy per user, and beyond accuracy.

``METRICS`` are those of accuracy, per user, from hits alone. ``BEYOND`` need the lists themselves: :func:`novelty`,
:func:`diversity`, :func:`serendipity` and :func:`calibration` per user, and :func:`gini_of_exposure`, which like
:func:`coverage` is one number for the lists together.
"""

from collections.abc import Callable
from typing import Any

from vitalrank.metrics.accuracy import (
    ADDITIVE,
    BY_LENGTH,
    METRICS,
    average_precision,
    f1,
    harmonic_mean,
    hit_rate,
    mrr,
    ndcg,
    precision,
    recall,
)
from vitalrank.metrics.beyond import calibration, coverage, diversity, gini_of_exposure, novelty, serendipity

BEYOND: dict[str, Callable[..., Any]] = {
    "novelty": novelty,
    "diversity": diversity,
    "serendipity": serendipity,
    "calibration": calibration,
    "gini": gini_of_exposure,
}
TOGETHER = ("coverage", "gini")  # of all lists together: no values per user

__all__ = [
    "ADDITIVE",
    "BEYOND",
    "BY_LENGTH",
    "METRICS",
    "TOGETHER",
    "average_precision",
    "calibration",
    "coverage",
    "diversity",
    "f1",
    "gini_of_exposure",
    "harmonic_mean",
    "hit_rate",
    "mrr",
    "ndcg",
    "novelty",
    "precision",
    "recall",
    "serendipity",
]
