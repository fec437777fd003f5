"""What a sampler may look at for one positive pair, and what it answers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from reference.philox import Stream

PATIENCE = 64  # draws of seen items in a row before the law over the unseen items is worked out


@dataclass(frozen=True)
class Row:
    """A positive pair (u, i): the user's query and seen items, the catalogue, and the row's random counter."""

    seed: int
    step: int
    number: int
    positive: int
    query: list[float]  # (d,)
    seen: frozenset[int]
    table: list[list[float]]  # (n, d)
    degree: list[int]  # (n,)
    pool: list[int]  # ids that may be drawn, ascending

    def score(self, item: int) -> float:
        """``x_uj``."""
        return sum(a * b for a, b in zip(self.query, self.table[item], strict=True))

    def limit(self, ceiling: float | str | None) -> float:
        """The highest score that a negative may have."""
        s = self.score(self.positive)
        if ceiling is None:
            return math.inf
        return s + float(ceiling[:-1]) / 100 * abs(s) if isinstance(ceiling, str) else s + ceiling

    def stream(self, index: int = 0) -> Stream:
        """Random words of the row's ``index``-th negative."""
        return Stream(self.seed, self.step, self.number, index)

    def pi(self, beta: float) -> list[float]:
        """``pi(i) = d_i ** beta`` in single precision; an absent item counts as degree 1."""
        return [float(np.float32(max(d, 1) ** beta)) for d in self.degree]

    @property
    def open(self) -> list[int]:
        """Items that may be drawn and that the user has not seen."""
        return [j for j in self.pool if j not in self.seen]


@dataclass(frozen=True)
class Answer:
    """One row of a ``Draw``."""

    ids: list[int]
    weights: list[float]
    tries: int
    log_q: list[float] | None = None
    violated: bool | None = None
    mix: list[float] | None = None
