"""Which candidates may be negatives: a rank range, score limits, margins to the positives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.checks import check_choice, check_count, check_number
from vitalrank._util.typing import Array
from vitalrank.errors import SettingError

SIMILARITIES = ("cosine", "dot")
_SPARE = 10  # candidates for each negative, where limits or margins may remove some


@dataclass(frozen=True)
class MiningRule:
    """What a negative must be like. Margins are to the lowest score of a query's positives.

    Parameters
    ----------
    k
        Negatives of each query, or of each pair with a sampler.
    range_min, range_max
        Of the candidates that are left, best first, skip ``range_min`` and look no further than ``range_max``. None:
        ``range_min + k``, ten times k if there are limits or margins.
    max_score, min_score
        The score of a negative lies between them.
    absolute_margin, relative_margin
        ``score + absolute_margin <= positive`` and ``score <= positive - relative_margin * |positive|``.
    similarity
        ``"cosine"`` or ``"dot"``.

    Examples
    --------
    >>> MiningRule(k=3, range_min=2).depth, MiningRule(k=3, max_score=0.9).depth
    (5, 30)
    """

    k: int = 1
    range_min: int = 0
    range_max: int | None = None
    max_score: float | None = None
    min_score: float | None = None
    absolute_margin: float | None = None
    relative_margin: float | None = None
    similarity: str = "cosine"

    def __post_init__(self) -> None:
        check_count("k", self.k)
        check_count("range_min", self.range_min, least=0)
        check_choice("similarity", self.similarity, SIMILARITIES)
        for name in ("max_score", "min_score"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name))
        for name in ("absolute_margin", "relative_margin"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), least=0)
        if self.range_max is not None:
            check_count("range_max", self.range_max)
            if self.range_max < self.range_min + self.k:
                raise SettingError(
                    f"range_max is {self.range_max}, which leaves fewer than k={self.k} ranks after "
                    f"range_min={self.range_min}; raise it."
                )

    @property
    def depth(self) -> int:
        """How many candidates of a query are looked at."""
        if self.range_max is not None:
            return self.range_max
        limits = (self.max_score, self.min_score, self.absolute_margin, self.relative_margin)
        return self.range_min + self.k * (1 if limits == (None,) * 4 else _SPARE)

    def allows(self, scores: Array, lowest_positive: Array) -> NDArray[np.bool_]:
        """Which scores (Q, n) are within limits and margins, given the lowest score of the positives (Q,)."""
        allowed = np.isfinite(scores)
        positive = lowest_positive[:, None]
        if self.absolute_margin is not None:
            allowed &= scores + np.float32(self.absolute_margin) <= positive
        if self.relative_margin is not None:
            # Not (1 - margin) * positive, which is above a positive below 0.
            allowed &= scores <= positive - np.abs(positive) * np.float32(self.relative_margin)
        if self.max_score is not None:
            allowed &= scores <= self.max_score
        if self.min_score is not None:
            allowed &= scores >= self.min_score
        return allowed
