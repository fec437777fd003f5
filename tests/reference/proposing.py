"""Algorithm 1 (RejectSampler), its limit, static laws, and the redrawing of seen items."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

from reference.philox import FALLBACK, Stream, below, fine_unit, unit
from reference.row import PATIENCE, Row

Proposal = dict[int, float]  # item -> probability
Proposal = tuple[Callable[[Stream], int], Callable[[], Proposal]]  # how to draw once, and the law of that draw


def reject_sampler(i: int, s: int, pi: Sequence[float], pool: Sequence[int], stream: Stream) -> int:
    """Algorithm 1, line by line. Each shot reads one pair of words: a place and a coin."""
    selected_j, max_deg = -1, -1.0
    for _ in range(s):
        place, coin = stream.pair()
        j = pool[below(place, len(pool))]  # randint
        if pi[j] > max_deg:  # in case of the extreme popular item i
            max_deg = pi[j]
            selected_j = j
        reject_ratio = 1 - min(pi[j] / pi[i], 1)
        if 1 - unit(coin) > reject_ratio:
            selected_j = j
            break
    return selected_j


def reject_law(i: int, s: int, pi: Sequence[float], pool: Sequence[int]) -> Proposal:
    """The law of Algorithm 1 by following every course of its s shots: who is selected so far, and is it over?"""
    over = dict.fromkeys(pool, 0.0)
    going_on = {-1: 1.0}  # selected_j -> probability
    for _ in range(s):
        after: Proposal = {}
        for selected, chance in going_on.items():
            for j in pool:
                accept = min(pi[j] / pi[i], 1)
                over[j] += chance * accept / len(pool)
                best = j if selected < 0 or pi[j] > pi[selected] else selected
                after[best] = after.get(best, 0.0) + chance * (1 - accept) / len(pool)
        going_on = after
    return {j: over[j] + going_on.get(j, 0.0) for j in pool}


def limit_law(i: int, pi: Sequence[float], pool: Sequence[int]) -> Proposal:
    """Algorithm 1 for s to infinity: accepted draws only, ``min(pi_j / pi_i, 1)`` normalised."""
    return normalised({j: min(pi[j] / pi[i], 1) for j in pool})


def weighted_law(pi: Sequence[float], pool: Sequence[int]) -> Proposal:
    """Each item by its weight."""
    return normalised({j: pi[j] for j in pool})


def normalised(weights: Proposal) -> Proposal:
    """Weights over their sum."""
    total = sum(weights.values())
    return {j: weight / total for j, weight in weights.items()}


def by_weight(pi: Sequence[float], pool: Sequence[int]) -> list[int]:
    """The pool, heaviest first, then by id."""
    return sorted(pool, key=lambda j: (-pi[j], j))


def draw_block(blocks: Iterable[list[int]], law: Proposal, stream: Stream) -> int:
    """A block of equally likely items by the coin, a member of it by the place."""
    place, coin = stream.pair()
    point = unit(coin)
    block: list[int] = []
    for block in blocks:
        share = sum(law[j] for j in block)
        if point < share:
            break
        point -= share
    return block[below(place, len(block))]


def proposal(i: int, s: int | None, pi: Sequence[float], pool: Sequence[int]) -> Proposal:
    """RejectSampler with s shots, or its exact limit: the items at least as heavy as i form one uniform block."""
    if s is not None:
        return lambda stream: reject_sampler(i, s, pi, pool, stream), lambda: reject_law(i, s, pi, pool)
    law = limit_law(i, pi, pool)
    ranked = by_weight(pi, pool)
    heavy = [j for j in ranked if pi[j] >= pi[i]]
    light = [list(block) for _, block in groupby(ranked[len(heavy) :], key=lambda j: pi[j])]
    blocks = [heavy, *light] if light else [list(pool)]
    return lambda stream: draw_block([b for b in blocks if b], law, stream), lambda: law


def weighted_proposal(pi: Sequence[float], pool: Sequence[int]) -> Proposal:
    """A static law: a class of equal weight, then a member of it."""
    if all(weight == 1.0 for weight in pi):
        return proposal(pool[0], None, pi, pool)
    law = weighted_law(pi, pool)
    blocks = [list(block) for _, block in groupby(by_weight(pi, pool), key=lambda j: pi[j])]
    return lambda stream: draw_block(blocks, law, stream), lambda: law


def propose(row: Row, drawing: Proposal, pi: Sequence[float], stream: Stream) -> int:
    """An item the user has not seen: draw again while it is seen, and after many turns draw from the unseen items."""
    draw, law = drawing
    for _ in range(PATIENCE):
        j = draw(stream)
        if j not in row.seen:
            return j
    high, low, _, _ = stream.words(FALLBACK, stream.turn)
    return at_point(law(), lightest_first(pi, row.open), fine_unit(high, low))


def lightest_first(pi: Sequence[float], items: Sequence[int]) -> list[int]:
    """By weight ascending, then by id."""
    return sorted(items, key=lambda j: (pi[j], j))


def at_point(law: Proposal, items: Sequence[int], point: float) -> int:
    """The item at ``point`` of [0, 1) of the items' share of the law."""
    target = point * sum(law[j] for j in items)
    running = 0.0
    for j in items:
        running += law[j]
        if running > target:
            return j
    return items[-1]
