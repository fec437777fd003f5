"""Proposals from a law, never an item the user has seen: many turns of one row's stream at once.

The CPU walks a stream turn by turn. Here a warp looks at T turns together and finds out which of them end a proposal,
so that the same words give the same items.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from vitalrank.kernels.cpu.sampling import proposal as cpu
from vitalrank.kernels.gpu.runtime.lanes import at, count, running_max
from vitalrank.kernels.gpu.runtime.words import FALLBACK, below, fine_unit, pair, unit, words
from vitalrank.kernels.gpu.sampling.arrays import Proposal
from vitalrank.kernels.gpu.sampling.seen import is_seen

PATIENCE = tl.constexpr(cpu.PATIENCE)
_LEAST_TURNS = 32  # a turn for each lane of a warp


def draws_per_warp(shots: int) -> int:
    """Turns a warp looks at together: at least one whole proposal."""
    return max(_LEAST_TURNS, 1 << (max(shots, 1) - 1).bit_length())


def shape_of(proposal: Proposal) -> dict[str, Any]:
    """What a kernel that draws from the law is compiled for."""
    return {
        "LISTED": proposal.is_listed,
        "EVEN": proposal.is_uniform,
        "SHOTS": proposal.shots,
        "T": draws_per_warp(proposal.shots),
    }


@triton.jit
def _heavier(
    begun: tl.tensor,
    weight: tl.tensor,
    item: tl.tensor,
    begins: tl.tensor,
    weight_2: tl.tensor,
    item_2: tl.tensor,
) -> Any:
    """Join two stretches of turns: the heaviest item since a proposal last began, the first of equals."""
    later = (begins > 0) | (weight_2 > weight)
    return begun | begins, tl.where(later, weight_2, weight), tl.where(later, item_2, item)


@triton.jit
def uniform_item(proposal: tl.tensor, word: tl.tensor, LISTED: tl.constexpr) -> Any:
    """Items of the pool, all alike."""  # (T,)
    prefix = below(word, tl.load(proposal.sizes))
    if LISTED:
        prefix = tl.load(proposal.pool + prefix)
    return prefix


@triton.jit
def reject_draws(
    proposal: tl.tensor,
    item: tl.tensor,
    prefix: tl.tensor,
    stream: tl.tensor,
    draw: tl.tensor,
    LISTED: tl.constexpr,
    SHOTS: tl.constexpr,
    T: tl.constexpr,
) -> Any:
    """Algorithm 1 from ``turn`` on: the item chosen at each turn, and whether the turn ends a proposal."""  # (T,) each
    p = tl.arange(0, T)
    a, b = pair(prefix, draw + p, stream)
    candidate = uniform_item(proposal, a, LISTED)
    weight = tl.load(proposal.accept_weight + candidate)
    accepted = unit(b) * tl.load(proposal.accept_weight + item).to(tl.float64) < weight.to(tl.float64)
    run = p - running_max(tl.where(accepted, p, -1))  # turns rejected in a row
    ends = accepted | (run % SHOTS == 0)  # the last shot ends a proposal with the heaviest it saw
    begins = accepted | ((run - 1) % SHOTS == 0)  # an accepted turn stands for itself
    _, _, chosen = tl.associative_scan((begins.to(tl.int32), weight, candidate), 0, _heavier)
    return chosen, ends


@triton.jit
def limit_items(
    proposal: tl.tensor, item: tl.tensor, a: tl.tensor, b: tl.tensor, LISTED: tl.constexpr, EVEN: tl.constexpr
) -> Any:
    """Algorithm 1's limit for many shots, drawn exactly from a pair of words; ``item`` is one positive or one each."""
    chosen = uniform_item(proposal, a, LISTED)
    if not EVEN:
        chosen = _leaning_items(proposal, item, a, b, chosen)
    return chosen


@triton.jit
def _leaning_items(proposal: tl.tensor, item: tl.tensor, a: tl.tensor, b: tl.tensor, chosen: tl.tensor) -> Any:
    """A uniform block plus a block by weight, where the law does not treat all items alike."""
    classes = tl.load(proposal.sizes + 1).to(tl.int32)
    first = tl.load(proposal.first_class + item) + a.to(tl.int32) * 0  # (T,)
    leaning = first != classes
    if count(leaning) > 0:
        stop = tl.load(proposal.starts + first)
        accept_weight = tl.load(proposal.accept_weight + item).to(tl.float64)
        before = tl.load(proposal.mass + first)
        point = unit(b) * (stop.to(tl.float64) + (tl.load(proposal.mass + classes) - before) / accept_weight)
        tail = leaning & (point >= stop.to(tl.float64))
        k = class_at(proposal, before + (point - stop.to(tl.float64)) * accept_weight, tail, classes)
        begin = tl.where(tail, tl.load(proposal.starts + k), 0)
        end = tl.where(tail, tl.load(proposal.starts + k + 1), stop)
        chosen = tl.where(leaning, tl.load(proposal.by_weight + begin + below(a, end - begin), mask=leaning), chosen)
    return chosen


@triton.jit
def class_at(proposal: tl.tensor, point: tl.tensor, asked: tl.tensor, classes: tl.tensor) -> Any:
    """The classes in which points of the mass lie."""  # (T,)
    last = classes - 1
    parts = tl.load(proposal.sizes + 2).to(tl.int32)
    part = tl.where(asked, point / tl.load(proposal.mass + classes) * parts.to(tl.float64), 0.0).to(tl.int32)
    k = tl.load(proposal.guide + tl.minimum(part, parts - 1))
    more = asked & (k < last) & (tl.load(proposal.mass + k + 1) <= point)
    while count(more) > 0:
        k = tl.where(more, k + 1, k)
        more = more & (k < last) & (tl.load(proposal.mass + k + 1) <= point)
    return k


@triton.jit
def power(base: tl.tensor, exponent: tl.tensor) -> Any:
    """``base`` multiplied ``exponent`` times."""
    result = base * 0.0 + 1.0
    for _ in range(exponent):
        result *= base
    return result


@triton.jit
def spread(
    proposal: tl.tensor,
    seen: tl.tensor,
    user: tl.tensor,
    item: tl.tensor,
    target: tl.tensor,
    SHOTS: tl.constexpr,
    T: tl.constexpr,
) -> Any:
    """Walk the law over the user's open items, lightest class first; the total, and the item that passes the target."""
    size = tl.load(proposal.sizes).to(tl.float64)
    classes = tl.load(proposal.sizes + 1)
    accept_weight = tl.load(proposal.accept_weight + item).to(tl.float64)
    first = tl.load(proposal.first_class + item)
    head = tl.load(proposal.starts + first)
    accepted = head.to(tl.float64) + (tl.load(proposal.mass + classes) - tl.load(proposal.mass + first)) / accept_weight
    rejected = 1.0 - accepted / size
    lost = tl.where((SHOTS > 0) & (rejected > 1e-12), power(rejected, SHOTS), 0.0)
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
            up_to = power(lighter, SHOTS)
            each += (up_to - lighter_lost) / members
            lighter_lost = up_to
        while start < stop:
            p = start + tl.arange(0, T)
            inside = p < stop
            candidate = tl.load(proposal.by_weight + p, mask=inside, other=0)
            free = inside & (is_seen(seen, user, candidate, inside) == 0)
            running = total + each * tl.cumsum(free.to(tl.int32), axis=0).to(tl.float64)
            passed = tl.min(tl.where(free & (running > target), tl.arange(0, T), T), axis=0)
            found = tl.where((found < 0) & (passed < T), at(candidate, passed, T), found)
            total += each * count(free).to(tl.float64)
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
    """One draw from the law over the open items alone, in O(items): for users who have seen nearly all."""
    a, b, _, _ = words(prefix, draw, stream + FALLBACK)
    total, _ = spread(proposal, seen, user, item, float("inf"), SHOTS, T)
    _, found = spread(proposal, seen, user, item, total * fine_unit(a, b), SHOTS, T)
    return found


@triton.jit
def propose_draws(
    proposal: tl.tensor,
    seen: tl.tensor,
    user: tl.tensor,
    item: tl.tensor,
    prefix: tl.tensor,
    stream: tl.tensor,
    draw: tl.tensor,
    refused: tl.tensor,
    LISTED: tl.constexpr,
    EVEN: tl.constexpr,
    SHOTS: tl.constexpr,
    T: tl.constexpr,
) -> Any:
    """Proposals from ``turn`` on: items, which turns give one, the turns used up, seen draws in a row at their end."""
    p = tl.arange(0, T)
    if SHOTS > 0:
        chosen, ends = reject_draws(proposal, item, prefix, stream, draw, LISTED, SHOTS, T)
    else:
        a, b = pair(prefix, draw + p, stream)
        chosen = limit_items(proposal, item, a, b, LISTED, EVEN)
        ends = p >= 0
    taken = is_seen(seen, user, chosen, ends)
    given = ends & (taken == 0)
    last = tl.max(tl.where(ends, p, 0), axis=0)
    if count(taken) > 0:
        so_far = tl.cumsum(taken.to(tl.int32), axis=0)
        in_row = so_far - tl.maximum(running_max(tl.where(given, so_far, -2147483648)), -refused)
        stuck = tl.min(tl.where(taken & (in_row >= PATIENCE), p, T), axis=0)
        refused = at(in_row, last, T)
        if stuck < T:
            saved = exact_fallback(proposal, seen, user, item, prefix, stream, draw + stuck + 1, SHOTS, T)
            chosen = tl.where(p == stuck, saved, chosen)
            given = (given & (p < stuck)) | (p == stuck)
            last = stuck
            refused = stuck * 0
    else:
        refused = last * 0
    return chosen, given, last + 1, refused
