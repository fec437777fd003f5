"""AOBPR: an item by its rank along one factor, or by its rank among all scores."""

from __future__ import annotations

import math

import numpy as np

from reference.philox import FACTOR, FALLBACK, fine_unit, unit
from reference.proposing import Proposal, at_point, normalised
from reference.row import PATIENCE, Answer, Row


def rank_at(point: float, size: int, scale: float) -> int:
    """The rank at ``point`` of [0, 1) of ``p(r) ~ exp(-r / scale)``, r below ``size``."""
    return at_point(rank_law(size, scale), range(size), point)


def rank_law(size: int, scale: float) -> Proposal:
    """``p(r) ~ exp(-r / scale)``."""
    return normalised({r: math.exp(-r / scale) for r in range(size)})


def factor_law(row: Row) -> Proposal:
    """``p(f | u) ~ |q_f| sigma_f``, sigma the standard deviation over the pool; even if all are 0."""
    sigma = [float(np.std([row.table[j][f] for j in row.pool])) for f in range(len(row.query))]
    weights = {f: abs(q) * sigma[f] for f, q in enumerate(row.query)}
    return normalised(weights if sum(weights.values()) > 0 else dict.fromkeys(weights, 1.0))


def along(row: Row, f: int) -> list[int]:
    """The pool in the order factor f gives it: descending, and the other way round where the query is not positive."""
    descending = sorted(row.pool, key=lambda j: -row.table[j][f])
    return descending if row.query[f] > 0 else descending[::-1]


def item_law(row: Row, rho: float) -> Proposal:
    """Probability of each item of the pool, seen or not."""
    factors, ranks = factor_law(row), rank_law(len(row.pool), rho * len(row.pool))
    law = dict.fromkeys(row.pool, 0.0)
    for f, share in factors.items():
        for r, item in enumerate(along(row, f)):
            law[item] += share * ranks[r]
    return law


def aobpr(row: Row, k: int, rho: float, refresh: int | None, exact: bool) -> Answer:
    """K negatives by the sorting of this very step."""
    if not row.open:
        return Answer([-1] * k, [0.0] * k, 0)
    if exact:
        return Answer([by_scores(row, c, rho) for c in range(k)], [1.0] * k, len(row.pool))
    return Answer([by_factor(row, c, rho) for c in range(k)], [1.0] * k, k)


def by_factor(row: Row, c: int, rho: float) -> int:
    """A rank, a factor, the item there; again while it is seen."""
    size, factors = len(row.pool), factor_law(row)
    for turn in range(PATIENCE):
        high, low, word, _ = row.stream(c).words(FACTOR, turn)
        r = rank_at(fine_unit(high, low), size, rho * size)
        item = along(row, at_point(factors, range(len(factors)), unit(word)))[r]
        if item not in row.seen:
            return item
    high, low, _, _ = row.stream(c).words(FALLBACK, 0)
    return open_pair(row, rho, fine_unit(high, low))


def open_pair(row: Row, rho: float, point: float) -> int:
    """The item at ``point`` of the law of factor and rank, given that it is open."""
    ranks = rank_law(len(row.pool), rho * len(row.pool))
    items = {(f, r): item for f in range(len(row.query)) for r, item in enumerate(along(row, f)) if item in row.open}
    factors = factor_law(row)
    return items[at_point({(f, r): factors[f] * ranks[r] for f, r in items}, list(items), point)]


def by_scores(row: Row, c: int, rho: float) -> int:
    """A rank among the unseen items in the order of their full scores, equal scores by id."""
    ranked = sorted(row.open, key=lambda j: (-row.score(j), j))
    high, low, _, _ = row.stream(c).words(FACTOR, 0)
    return ranked[rank_at(fine_unit(high, low), len(ranked), rho * len(row.pool))]
