"""DNS, LFM-D, AHNS, BNS and CML: a pool of uniform draws, one of them picked by its rank."""

from __future__ import annotations

import math

import numpy as np

from reference.philox import MIX, RANK, fine_unit
from reference.proposing import at_point, normalised, propose, weighted_proposal
from reference.row import Answer, Row


def candidates_of(row: Row, count: int, pi: list[float], c: int = 0) -> list[int]:
    """``count`` unseen items drawn by ``pi``, with replacement."""
    drawing = weighted_proposal(pi, row.pool)
    stream = row.stream(c)
    return [propose(row, drawing, pi, stream) for _ in range(count)]


def best_first(row: Row, items: list[int]) -> list[int]:
    """By score descending; equal scores keep their order."""
    return sorted(items, key=lambda j: -row.score(j))


def under(row: Row, items: list[int], ceiling: float | str | None) -> list[int]:
    """The pool with its lowest candidate in place of each that is above the ceiling; -1 if all are."""
    kept = [j for j in items if row.score(j) <= row.limit(ceiling)]
    if not kept:
        return [-1] * len(items)
    lowest = min(kept, key=row.score)
    return [j if j in kept else lowest for j in items]


def pool_of(row: Row, c: int, candidates: int, ceiling: float | str | None) -> list[int]:
    """The pool of one negative, best first."""
    drawn = under(row, candidates_of(row, candidates, row.pi(0.0), c), ceiling)
    return drawn if drawn[0] < 0 else best_first(row, drawn)


def answer(ids: list[int], candidates: int) -> Answer:
    """Weight 1 for what was found."""
    return Answer(ids, [float(j >= 0) for j in ids], len(ids) * candidates)


def mixgcf(row: Row, k: int, candidates: int, ceiling: float | str | None) -> Answer:
    """The best of the draws, with a uniform share of the positive."""
    shares = [fine_unit(*row.stream(c).words(MIX, 0)[:2]) for c in range(k)]
    best = dns(row, k, candidates, 1, ceiling)
    return Answer(best.ids, best.weights, best.tries, mix=shares)


def ahns(row: Row, k: int, candidates: int, alpha: float, beta: float, p: float, ceiling: float | str | None) -> Answer:
    """The candidate whose score is nearest to ``beta (s_i + alpha)^(p + 1)``, the first drawn of equals."""
    if not row.open:
        return Answer([-1] * k, [0.0] * k, 0)
    base = max(row.score(row.positive) + alpha, 0.0)
    wanted = beta * (base ** (p + 1) if base > 0 or p >= -1 else math.inf)
    ids = []
    for c in range(k):
        pool = under(row, candidates_of(row, candidates, row.pi(0.0), c), ceiling)
        if pool[0] >= 0:
            scores = [row.score(j) for j in pool]
            target = min(max(wanted, min(scores)), max(scores))
            pool = sorted(pool, key=lambda j: abs(row.score(j) - target))
        ids.append(pool[0])
    return answer(ids, candidates)


def bns(row: Row, k: int, candidates: int, sample: int, alpha: float, ceiling: float | str | None) -> Answer:
    """The candidate of least ``info (1 - (1 + alpha) unbias)``, the first drawn of equals.

    F, the share of unseen items that score no more, is that of the pool and ``sample`` draws beside it.
    """
    if not row.open:
        return Answer([-1] * k, [0.0] * k, 0)
    ids = []
    for c in range(k):
        drawn = candidates_of(row, candidates + sample, row.pi(0.0), c)
        best, least = -1, math.inf
        for j in drawn[:candidates]:
            F = sum(row.score(other) <= row.score(j) for other in drawn) / (len(drawn) + 1)
            P = row.degree[j] / max(sum(row.degree), 1)
            unbias = (1 - F) * (1 - P) / (1 - F - P + 2 * F * P)
            info = 1 - 1 / (1 + math.exp(row.score(j) - row.score(row.positive)))
            risk = float(np.float32(info * (1 - (1 + alpha) * unbias)))
            if row.score(j) <= row.limit(ceiling) and risk < least:
                best, least = j, risk
        ids.append(best)
    return answer(ids, candidates + sample)


def lfmd(row: Row, k: int, candidates: int, rho: float, ceiling: float | str | None) -> Answer:
    """Of m draws the r-th best, ``p(r) ~ exp(-r / (m rho))``."""
    if not row.open:
        return Answer([-1] * k, [0.0] * k, 0)
    law = normalised({r: math.exp(-(r + 1) / (candidates * rho)) for r in range(candidates)})
    ids = []
    for c in range(k):
        pool = pool_of(row, c, candidates, ceiling)
        high, low, _, _ = row.stream(c).words(RANK, 0)
        ids.append(pool[at_point(law, range(candidates), fine_unit(high, low))])
    return answer(ids, candidates)


def dns(row: Row, k: int, candidates: int, top: int, ceiling: float | str | None) -> Answer:
    """The best of the draws, or any of the ``top`` best."""
    if not row.open:
        return Answer([-1] * k, [0.0] * k, 0)
    ids = []
    for c in range(k):
        pool = pool_of(row, c, candidates, ceiling)
        high, low, _, _ = row.stream(c).words(RANK, 0)
        ids.append(pool[int(top * fine_unit(high, low))])
    return answer(ids, candidates)


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
