"""One exact draw from a proposal over unseen items, its probabilities summed class by class."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from vitalrank.kernels.gpu.runtime.lanes import count, value_at
from vitalrank.kernels.gpu.runtime.rng import FALLBACK, fine_unit, philox
from vitalrank.kernels.gpu.sampling.seen import items_seen


@triton.jit
def _power(base: tl.tensor, exponent: tl.tensor) -> Any:
    """``base`` multiplied ``exponent`` times."""
    result = base * 0.0 + 1.0
    for _ in range(exponent):
        result *= base
    return result


@triton.jit
def _walk_classes(
    proposal: tl.tensor,
    seen: tl.tensor,
    user: tl.tensor,
    item: tl.tensor,
    target: tl.tensor,
    SHOTS: tl.constexpr,
    T: tl.constexpr,
) -> Any:
    """Sum the probabilities of the user's unseen items class by class, lightest first: see ``cpu.sampling.fallback``.

    Returns the total, and the first item at which the running total passes ``target``.
    """
    size = tl.load(proposal.sizes).to(tl.float64)
    classes = tl.load(proposal.sizes + 1)
    accept_weight = tl.load(proposal.accept_weight + item).to(tl.float64)
    first = tl.load(proposal.first_class + item)
    head = tl.load(proposal.starts + first)
    accepted = head.to(tl.float64) + (tl.load(proposal.mass + classes) - tl.load(proposal.mass + first)) / accept_weight
    rejected = 1.0 - accepted / size
    lost = tl.where((SHOTS > 0) & (rejected > 1e-12), _power(rejected, SHOTS), 0.0)
    total = accepted * 0.0
    lighter = total
    lighter_lost = total
    found = head * 0 - 1
    k = classes - 1
    while k >= 0:
        start = tl.load(proposal.starts + k).to(tl.int64)
        stop = tl.load(proposal.starts + k + 1).to(tl.int64)
        members = (stop - start).to(tl.float64)
        accept = tl.where(start < head, 1.0, tl.load(proposal.weight + k).to(tl.float64) / accept_weight)
        each = accept / accepted * (1.0 - lost)
        if (lost > 0.0) & (accept < 1.0):
            lighter += members * (1.0 - accept) / size
            up_to = _power(lighter, SHOTS)
            each += (up_to - lighter_lost) / members
            lighter_lost = up_to
        while start < stop:
            p = start + tl.arange(0, T)
            inside = p < stop
            candidate = tl.load(proposal.by_weight + p, mask=inside, other=0)
            unseen = inside & (items_seen(seen, user, candidate, inside) == 0)
            cumulative = total + each * tl.cumsum(unseen.to(tl.int32), axis=0).to(tl.float64)
            passed = tl.min(tl.where(unseen & (cumulative > target), tl.arange(0, T), T), axis=0)
            found = tl.where((found < 0) & (passed < T), value_at(candidate, passed, T), found)
            total += each * count(unseen).to(tl.float64)
            start += T
        k -= 1
    return total, found


@triton.jit
def exact_fallback(
    proposal: tl.tensor,
    seen: tl.tensor,
    user: tl.tensor,
    item: tl.tensor,
    prefix: tl.tensor,
    stream: tl.tensor,
    draw: tl.tensor,
    SHOTS: tl.constexpr,
    T: tl.constexpr,
) -> Any:
    """One exact draw over the unseen items alone, in O(items): for users who have seen nearly all."""
    a, b, _, _ = philox(prefix, draw, stream + FALLBACK)
    total, _ = _walk_classes(proposal, seen, user, item, float("inf"), SHOTS, T)
    _, found = _walk_classes(proposal, seen, user, item, total * fine_unit(a, b), SHOTS, T)
    return found
