"""Algorithm 2 (VINS), and LFM-W as its uniform case."""

from __future__ import annotations

import math

from reference.proposing import proposal, propose
from reference.row import Answer, Row


def log2_weight(r: float) -> float:
    """Numerator of Eq. (w_ui)."""
    return 1 + 0.5 * (math.ceil(math.log2(r + 1)) - 1)


def harmonic_weight(r: float) -> float:
    """WARP's truncated harmonic sum."""
    return sum(1 / z for z in range(1, math.floor(r) + 1))


WEIGHTS = {"log2": log2_weight, "harmonic": harmonic_weight, "none": lambda r: 1.0}


def vins(
    row: Row, k: int, beta: float, kappa: int, margin: float, shots: int | None, weight: str,
    ceiling: float | str | None = None,
) -> Answer:  # fmt: skip
    """K negatives by Algorithm 2."""
    if not row.open:
        return Answer([-1] * k, [0.0] * k, 0, violated=False)
    found = [search(row, c, beta, kappa, margin, shots, ceiling) for c in range(k)]
    Z = sum(row.pi(beta)[j] for j in row.pool)
    w = WEIGHTS[weight]
    weights = [w(math.floor(Z / K)) / w(Z) if j >= 0 else 0.0 for j, K, _ in found]
    tries = sum(K for _, K, _ in found)
    return Answer([j for j, _, _ in found], weights, tries, violated=all(violated for _, _, violated in found))


def search(
    row: Row, c: int, beta: float, kappa: int, margin: float, shots: int | None, ceiling: float | str | None
) -> tuple[int, int, bool]:
    """The loop of Algorithm 2: the negative, K, and whether it violates."""
    pi = row.pi(beta)
    drawing = proposal(row.positive, shots, pi, row.pool)
    stream = row.stream(c)
    x_ui = row.score(row.positive)
    selected_j, max_j, x_uji = -1, -math.inf, -math.inf  # no violator yet
    for K in range(1, kappa + 1):  # noqa: B007
        j = propose(row, drawing, pi, stream)
        x_uj = row.score(j)
        if x_uj > row.limit(ceiling):
            continue
        x_uji = x_uj + margin - x_ui
        if x_uj > max_j:
            max_j = x_uj
            selected_j = j
        if x_uji > 0:
            break
    return selected_j, K, x_uji > 0


def lfmw(row: Row, k: int, margin: float, kappa: int, weight: str, ceiling: float | str | None) -> Answer:
    """WARP: uniform draws until one violates."""
    return vins(row, k, beta=0.0, kappa=kappa, margin=margin, shots=None, weight=weight, ceiling=ceiling)
