"""SA and PRIS: all candidates kept, weighted by a softmax."""

from __future__ import annotations

import math

import numpy as np

from reference.philox import CLUSTER, FALLBACK, PROPOSE, below, fine_unit, philox, unit
from reference.pooled import candidates_of
from reference.proposing import Proposal, at_point, normalised
from reference.row import PATIENCE, Answer, Row

ROUNDS = 10


def softmax(logits: list[float]) -> list[float]:
    """Exponentials over their sum."""
    if max(logits) == -math.inf:
        return [0.0] * len(logits)
    powers = [math.exp(x - max(logits)) for x in logits]
    return [power / sum(powers) for power in powers]


def sa(row: Row, k: int, candidates: int, temperature: float, ceiling: float | str | None) -> Answer:
    """Uniform candidates, ``w = softmax(temperature * s)``."""
    if not row.open:
        return Answer([-1] * candidates, [0.0] * candidates, 0, [0.0] * candidates)
    ids = candidates_of(row, candidates, row.pi(0.0))
    kept = [row.score(j) <= row.limit(ceiling) for j in ids]
    ids = [j if keep else -1 for j, keep in zip(ids, kept, strict=True)]
    weights = softmax([temperature * row.score(j) if keep else -math.inf for j, keep in zip(ids, kept, strict=True)])
    return Answer(ids, weights, candidates, [-math.log(len(row.open))] * candidates)


def pris(
    row: Row,
    k: int,
    candidates: int,
    clusters: int,
    proposal: str,
    refresh: int | None,
    detach: bool,
    ceiling: float | str | None,
) -> Answer:
    """Candidates from q, ``w = softmax(s - ln q)``."""
    if not row.open:
        return Answer([-1] * candidates, [0.0] * candidates, 0, [0.0] * candidates)
    pi = [math.log(1 + max(d, 1)) if proposal == "popularity" else 1.0 for d in row.degree]
    pi = [float(np.float32(weight)) for weight in pi]
    if clusters:
        centers, owner = k_means(row, min(clusters, len(row.pool)))
        ids = clustered_candidates(row, candidates, pi, centers, owner)
        q = clustered_law(row, pi, centers, owner)
    else:
        ids = candidates_of(row, candidates, pi)
        q = normalised({j: pi[j] for j in row.open})
    log_q = [math.log(q[j]) for j in ids]
    kept = [row.score(j) <= row.limit(ceiling) for j in ids]
    logits = [row.score(j) - log if keep else -math.inf for j, log, keep in zip(ids, log_q, kept, strict=True)]
    ids = [j if keep else -1 for j, keep in zip(ids, kept, strict=True)]
    return Answer(ids, softmax(logits), candidates, log_q)


def k_means(row: Row, clusters: int) -> tuple[list[list[float]], dict[int, int]]:
    """Lloyd's rounds from centers drawn in the pool: the centers, and each item's cluster."""
    words = [philox(row.seed, row.step, c, 0, CLUSTER)[0] for c in range(clusters)]
    centers = [list(row.table[row.pool[below(word, len(row.pool))]]) for word in words]
    owner = dict.fromkeys(row.pool, -1)
    for _ in range(ROUNDS):
        nearest = {j: min(range(clusters), key=lambda c: distance(row.table[j], centers[c])) for j in row.pool}
        if nearest == owner:
            break
        owner = nearest
        for c in range(clusters):
            members = [row.table[j] for j in row.pool if owner[j] == c]
            if members:
                centers[c] = [float(np.float32(sum(column) / len(members))) for column in zip(*members, strict=True)]
    return centers, owner


def distance(a: list[float], b: list[float]) -> float:
    """Squared, between two vectors."""
    return sum((x - y) ** 2 for x, y in zip(a, b, strict=True))


def cluster_law(row: Row, pi: list[float], centers: list[list[float]], owner: dict[int, int]) -> Proposal:
    """``P(c | u) ~ exp(q_u . center_c) * (unseen mass of c)``."""
    mass = dict.fromkeys(range(len(centers)), 0.0)
    for j in row.open:
        mass[owner[j]] += pi[j]
    affinity = [sum(a * b for a, b in zip(row.query, center, strict=True)) for center in centers]
    return normalised({c: math.exp(affinity[c]) * mass[c] for c in mass})


def clustered_law(row: Row, pi: list[float], centers: list[list[float]], owner: dict[int, int]) -> Proposal:
    """``q(j | u) = P(c | u) pi_j / (unseen mass of c)`` over the unseen items."""
    law = cluster_law(row, pi, centers, owner)
    mass = {c: sum(pi[j] for j in row.open if owner[j] == c) for c in law}
    return {j: law[owner[j]] * pi[j] / mass[owner[j]] for j in row.open}


def clustered_candidates(
    row: Row, count: int, pi: list[float], centers: list[list[float]], owner: dict[int, int]
) -> list[int]:
    """A cluster, then an item inside it by ``pi``; again inside it while the item is seen."""
    law = cluster_law(row, pi, centers, owner)
    return [inside(row, x, pi, law, owner) for x in range(count)]


def inside(row: Row, x: int, pi: list[float], law: Proposal, owner: dict[int, int]) -> int:
    """The ``x``-th candidate."""
    stream = row.stream()
    c = at_point(law, range(len(law)), unit(stream.words(PROPOSE, x * PATIENCE)[0]))
    members = [j for j in row.pool if owner[j] == c]
    shares = {j: pi[j] for j in members}
    for turn in range(PATIENCE):
        _, high, low, _ = stream.words(PROPOSE, x * PATIENCE + turn)
        item = at_point(shares, members, fine_unit(high, low))
        if item not in row.seen:
            return item
    _, high, low, _ = stream.words(FALLBACK, x * PATIENCE)
    return at_point(shares, [j for j in members if j not in row.seen], fine_unit(high, low))
