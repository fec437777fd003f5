"""Uniform and Popularity: one draw from a fixed law."""

from __future__ import annotations

import math

from reference.proposing import propose, weighted_proposal
from reference.row import Answer, Row


def popularity(row: Row, k: int, beta: float) -> Answer:
    """By ``pi`` among the unseen items."""
    if not row.open:
        return Answer([-1] * k, [0.0] * k, 0, [0.0] * k)
    pi = row.pi(beta)
    drawing = weighted_proposal(pi, row.pool)
    ids = [propose(row, drawing, pi, row.stream(c)) for c in range(k)]
    total = sum(pi[j] for j in row.open)
    return Answer(ids, [1.0] * k, k, [math.log(pi[j] / total) for j in ids])


def uniform(row: Row, k: int) -> Answer:
    """All unseen items alike."""
    return popularity(row, k, beta=0.0)
