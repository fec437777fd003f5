"""Mixed: one of two samplers for each negative."""

from __future__ import annotations

import math

from reference.philox import CHOICE, fine_unit
from reference.row import Answer, Row
from reference.static import popularity, uniform

PARTS = {"uni": uniform, "pop": lambda row, k: popularity(row, k, beta=0.75)}


def mixed(row: Row, k: int, a: str, b: str, share: float) -> Answer:
    """``a`` where the coin falls below the share, else ``b``; the density is that of the mixture."""
    if not row.open:
        return Answer([-1] * k, [0.0] * k, 0, [0.0] * k)
    first, second = (PARTS[name](row, k) for name in (a, b))
    coins = [fine_unit(*row.stream(c).words(CHOICE, 0)[:2]) for c in range(k)]
    ids = [x if coin < share else y for x, y, coin in zip(first.ids, second.ids, coins, strict=True)]
    q_a, q_b = ({j: density(row, name, j) for j in row.open} for name in (a, b))
    return Answer(ids, [1.0] * k, 2 * k, [math.log(share * q_a[j] + (1 - share) * q_b[j]) for j in ids])


def density(row: Row, name: str, item: int) -> float:
    """A part's probability of an item."""
    pi = row.pi({"uni": 0.0, "pop": 0.75}[name])
    return pi[item] / sum(pi[j] for j in row.open)
