"""A proposal's probabilities summed class by class: the exact law, and one exact draw from it over unseen items."""

from __future__ import annotations

from typing import Any

import numpy as np

from vitalrank.kernels.compiling import INNER, LEAN, njit
from vitalrank.kernels.cpu.sampling.seen import is_seen
from vitalrank.kernels.rng import FALLBACK, fine_unit, philox


@njit(cache=True, **INNER)
def _power(base: Any, exponent: Any) -> Any:
    result = 1.0
    for _ in range(exponent):
        result *= base
    return result


@njit(inline="always", cache=True, **LEAN)
def _walk_classes(proposal: Any, seen: Any, user: Any, item: Any, target: Any, mass: Any) -> Any:
    """Sum the probabilities of a proposal class by class, lightest first.

    Fills ``mass`` (n,) with the probability of each item unless it is empty. Leaves out what ``user`` has seen unless
    that is -1. Returns the total, and the first item at which the running total passes ``target``.
    """
    size = proposal.size
    accept_weight = np.float64(proposal.accept_weight[item])
    classes = len(proposal.starts) - 1
    first = proposal.first_class[item]
    head = proposal.starts[first]
    accepted = head + (proposal.mass[classes] - proposal.mass[first]) / accept_weight  # size * P(one shot is accepted)
    rejected = 1.0 - accepted / size
    lost = _power(rejected, proposal.shots) if proposal.shots > 0 and rejected > 1e-12 else 0.0
    total = 0.0
    found = np.int64(-1)
    lighter = 0.0  # P(one shot is rejected and falls on a lighter class)
    lighter_lost = 0.0
    for k in range(classes - 1, -1, -1):
        start, stop = proposal.starts[k], proposal.starts[k + 1]
        accept = 1.0 if start < head else proposal.weight[k] / accept_weight
        each = accept / accepted * (1.0 - lost)
        if lost > 0.0 and accept < 1.0:
            # All shots rejected: the heaviest class among them wins, its members with equal probability.
            lighter += (stop - start) * (1.0 - accept) / size
            up_to = _power(lighter, proposal.shots)
            each += (up_to - lighter_lost) / (stop - start)
            lighter_lost = up_to
        for position in range(start, stop):
            candidate = proposal.by_weight[position]
            if len(mass) > 0:
                mass[candidate] = each
            if user < 0 or not is_seen(seen, user, candidate):
                total += each
                if found < 0 and total > target:
                    found = np.int64(candidate)
    return total, found


@njit(cache=True)
def proposal_mass(proposal: Any, seen: Any, item: Any) -> Any:
    """Probability of every item, given the positive item, before seen items are left out."""
    mass = np.zeros(len(proposal.accept_weight), np.float64)  # (n,)
    _walk_classes(proposal, seen, -1, item, np.inf, mass)
    return mass


@njit(cache=True, **INNER)
def exact_fallback(proposal: Any, seen: Any, user: Any, item: Any, prefix: Any, draw: Any) -> Any:
    """One exact draw over the unseen items alone, in O(items): for users who have seen nearly all."""
    seed, step, row, stream = prefix
    a, b, _, _ = philox(seed, step, row, draw, stream + FALLBACK)
    no_mass = proposal.mass[:0]
    target, candidate = np.inf, np.int64(-1)
    for _ in range(2):  # first for the total, then for the item; one call site, so it is compiled once
        total, candidate = _walk_classes(proposal, seen, user, item, target, no_mass)
        target = total * fine_unit(a, b)
    return candidate
