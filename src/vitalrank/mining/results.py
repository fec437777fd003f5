"""What mining found: negatives by row number, and their counts."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class MiningSummary:
    """What came of it: pairs of a query and a positive, negatives in all, and queries with fewer than k."""

    pairs: int
    negatives: int
    short: int

    def __add__(self, other: MiningSummary) -> MiningSummary:
        return MiningSummary(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


@dataclass(frozen=True)
class Mined:
    """Negatives of each pair of a query and a positive, by row numbers, in the order of queries and positives.

    Parameters
    ----------
    queries, positives, positive_scores
        The pairs and their scores, (M,).
    negatives, scores
        (M, k), best first, or as they were drawn; -1 and -inf where there are fewer.
    """

    queries: NDArray[np.int64]
    positives: NDArray[np.int64]
    positive_scores: NDArray[np.float32]
    negatives: NDArray[np.int64]
    scores: NDArray[np.float32]

    @property
    def summary(self) -> MiningSummary:
        """How many were found."""
        lacking = (self.negatives < 0).any(1)
        return MiningSummary(len(self.queries), int((self.negatives >= 0).sum()), len(np.unique(self.queries[lacking])))
