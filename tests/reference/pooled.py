"""DNS, LFM-D and CML: a pool of uniform draws, one of them picked by its rank."""

from __future__ import annotations

import math

from reference.philox import RANK, fine_unit
from reference.proposing import at_point, normalised, propose, weighted_proposal
from reference.row import Answer, Row


def candidates_of(row: Row, count: int, pi: list[float], c: int = 0) -> list[int]:
    """``count`` open items drawn by ``pi``, with replacement."""
    drawing = weighted_proposal(pi, row.pool)
    stream = row.stream(c)
    return [propose(row, drawing, pi, stream) for _ in range(count)]


def best_first(row: Row, items: list[int]) -> list[int]:
    """By score descending; equal scores keep their order."""
    return sorted(items, key=lambda j: -row.score(j))


def lfmd(row: Row, k: int, candidates: int, rho: float) -> Answer:
    """Of m draws the r-th best, ``p(r) ~ exp(-r / (m rho))``."""
    if not row.open:
        return Answer([-1] * k, [0.0] * k, 0)
    law = normalised({r: math.exp(-(r + 1) / (candidates * rho)) for r in range(candidates)})
    ids = []
    for c in range(k):
        pool = best_first(row, candidates_of(row, candidates, row.pi(0.0), c))
        high, low, _, _ = row.stream(c).words(RANK, 0)
        ids.append(pool[at_point(law, range(candidates), fine_unit(high, low))])
    return Answer(ids, [1.0] * k, k * candidates)


def dns(row: Row, k: int, candidates: int, top: int) -> Answer:
    """The best of the draws, or any of the ``top`` best."""
    if not row.open:
        return Answer([-1] * k, [0.0] * k, 0)
    ids = []
    for c in range(k):
        pool = best_first(row, candidates_of(row, candidates, row.pi(0.0), c))
        high, low, _, _ = row.stream(c).words(RANK, 0)
        ids.append(pool[int(top * fine_unit(high, low))])
    return Answer(ids, [1.0] * k, k * candidates)


def cml(row: Row, k: int, candidates: int, margin: float) -> Answer:
    """The nearest of W draws, weighted ``ln(1 + n M / W)`` with M draws within the margin."""
    if not row.open:
        return Answer([-1] * k, [0.0] * k, 0, violated=False)
    ids, weights = [], []
    for c in range(k):
        pool = best_first(row, candidates_of(row, candidates, row.pi(0.0), c))
        # d^2(u, j) = |u|^2 - 2 x_uj
        impostors = sum(margin - 2 * row.score(row.positive) + 2 * row.score(j) > 0 for j in pool)
        ids.append(pool[0])
        weights.append(math.log(1 + len(row.pool) * impostors / candidates))
    return Answer(ids, weights, k * candidates, violated=all(weight > 0 for weight in weights))
