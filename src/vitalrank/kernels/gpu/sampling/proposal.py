"""Draws from a proposal distribution, never an item the user has seen: many draw indices of one stream at once.

The CPU walks a stream draw by draw. Here a warp evaluates T draws together and finds which of them end a proposal, so
that the same words give the same items. Hence the functions that have no twin of their name on the CPU:
``reject_draws`` is its ``reject_sample``, and ``propose_draws`` its ``propose``.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from vitalrank.kernels.cpu.sampling import proposal as cpu
from vitalrank.kernels.gpu.runtime.lanes import count, cumulative_max, value_at
from vitalrank.kernels.gpu.runtime.rng import below, unit, word_pair
from vitalrank.kernels.gpu.sampling.arrays import Proposal
from vitalrank.kernels.gpu.sampling.fallback import exact_fallback
from vitalrank.kernels.gpu.sampling.seen import items_seen

PATIENCE = tl.constexpr(cpu.PATIENCE)
_LANES = 32  # of a warp, one draw each


def draws_per_warp(shots: int) -> int:
    """Draws that a warp evaluates together: at least one whole proposal."""
    return max(_LANES, 1 << (max(shots, 1) - 1).bit_length())


def constexprs_of(proposal: Proposal) -> dict[str, Any]:
    """The constexpr arguments of a kernel that draws from the proposal."""
    return {
        "IS_SUBSET": proposal.is_subset,
        "UNIFORM": proposal.is_uniform,
        "SHOTS": proposal.shots,
        "T": draws_per_warp(proposal.shots),
    }


@triton.jit
def _heaviest(
    begun: tl.tensor,
    weight: tl.tensor,
    item: tl.tensor,
    begins: tl.tensor,
    weight_2: tl.tensor,
    item_2: tl.tensor,
) -> Any:
    """Combine two stretches of draws: the heaviest item since a proposal last began, the first of equals."""
    later = (begins > 0) | (weight_2 > weight)
    return begun | begins, tl.where(later, weight_2, weight), tl.where(later, item_2, item)


@triton.jit
def uniform_item(proposal: tl.tensor, word: tl.tensor, IS_SUBSET: tl.constexpr) -> Any:
    """Items of the pool with equal probability."""  # (T,)
    item = below(word, tl.load(proposal.sizes))
    if IS_SUBSET:
        item = tl.load(proposal.pool + item)
    return item


@triton.jit
def reject_draws(
    proposal: tl.tensor,
    item: tl.tensor,
    prefix: tl.tensor,
    stream: tl.tensor,
    draw: tl.tensor,
    IS_SUBSET: tl.constexpr,
    SHOTS: tl.constexpr,
    T: tl.constexpr,
) -> Any:
    """Algorithm 1 from ``draw`` on: the item chosen at each draw, and whether the draw ends a proposal."""  # (T,) each
    p = tl.arange(0, T)
    a, b = word_pair(prefix, draw + p, stream)
    candidate = uniform_item(proposal, a, IS_SUBSET)
    weight = tl.load(proposal.accept_weight + candidate)
    accepted = unit(b) * tl.load(proposal.accept_weight + item).to(tl.float64) < weight.to(tl.float64)
    run = p - cumulative_max(tl.where(accepted, p, -1))  # draws rejected in a row
    ends = accepted | (run % SHOTS == 0)  # the last shot ends a proposal with the heaviest it saw
    begins = accepted | ((run - 1) % SHOTS == 0)  # an accepted draw stands for itself
    _, _, chosen = tl.associative_scan((begins.to(tl.int32), weight, candidate), 0, _heaviest)
    return chosen, ends


@triton.jit
def limit_sample(
    proposal: tl.tensor, item: tl.tensor, a: tl.tensor, b: tl.tensor, IS_SUBSET: tl.constexpr, UNIFORM: tl.constexpr
) -> Any:
    """The limit of Algorithm 1 for many shots, drawn exactly; ``item`` is one positive or one for each lane."""
    chosen = uniform_item(proposal, a, IS_SUBSET)
    if not UNIFORM:
        chosen = _mixture_sample(proposal, item, a, b, chosen)
    return chosen


@triton.jit
def _mixture_sample(proposal: tl.tensor, item: tl.tensor, a: tl.tensor, b: tl.tensor, chosen: tl.tensor) -> Any:
    """A mixture of a uniform part and a part by weight, where the proposal is not uniform."""
    classes = tl.load(proposal.sizes + 1).to(tl.int32)
    first = tl.load(proposal.first_class + item) + a.to(tl.int32) * 0  # (T,)
    is_mixture = first != classes
    if count(is_mixture) > 0:
        stop = tl.load(proposal.starts + first)
        accept_weight = tl.load(proposal.accept_weight + item).to(tl.float64)
        before = tl.load(proposal.mass + first)
        point = unit(b) * (stop.to(tl.float64) + (tl.load(proposal.mass + classes) - before) / accept_weight)
        tail = is_mixture & (point >= stop.to(tl.float64))
        k = class_at(proposal, before + (point - stop.to(tl.float64)) * accept_weight, tail, classes)
        begin = tl.where(tail, tl.load(proposal.starts + k), 0)
        end = tl.where(tail, tl.load(proposal.starts + k + 1), stop)
        chosen = tl.where(
            is_mixture, tl.load(proposal.by_weight + begin + below(a, end - begin), mask=is_mixture), chosen
        )
    return chosen


@triton.jit
def class_at(proposal: tl.tensor, point: tl.tensor, mask: tl.tensor, classes: tl.tensor) -> Any:
    """The classes at points of the cumulative mass."""  # (T,)
    last = classes - 1
    entries = tl.load(proposal.sizes + 2).to(tl.int32)
    entry = tl.where(mask, point / tl.load(proposal.mass + classes) * entries.to(tl.float64), 0.0).to(tl.int32)
    k = tl.load(proposal.guide + tl.minimum(entry, entries - 1))
    more = mask & (k < last) & (tl.load(proposal.mass + k + 1) <= point)
    while count(more) > 0:
        k = tl.where(more, k + 1, k)
        more = more & (k < last) & (tl.load(proposal.mass + k + 1) <= point)
    return k


@triton.jit
def propose_draws(
    proposal: tl.tensor,
    seen: tl.tensor,
    user: tl.tensor,
    item: tl.tensor,
    prefix: tl.tensor,
    stream: tl.tensor,
    draw: tl.tensor,
    seen_in_a_row: tl.tensor,
    IS_SUBSET: tl.constexpr,
    UNIFORM: tl.constexpr,
    SHOTS: tl.constexpr,
    T: tl.constexpr,
) -> Any:
    """Proposals from ``draw`` on: items, which draws give one, how many are used, and how many seen items end them."""
    p = tl.arange(0, T)
    if SHOTS > 0:
        chosen, ends = reject_draws(proposal, item, prefix, stream, draw, IS_SUBSET, SHOTS, T)
    else:
        a, b = word_pair(prefix, draw + p, stream)
        chosen = limit_sample(proposal, item, a, b, IS_SUBSET, UNIFORM)
        ends = p >= 0
    was_seen = items_seen(seen, user, chosen, ends)
    is_given = ends & (was_seen == 0)
    last = tl.max(tl.where(ends, p, 0), axis=0)
    if count(was_seen) > 0:
        so_far = tl.cumsum(was_seen.to(tl.int32), axis=0)
        in_a_row = so_far - tl.maximum(cumulative_max(tl.where(is_given, so_far, -2147483648)), -seen_in_a_row)
        stuck = tl.min(tl.where(was_seen & (in_a_row >= PATIENCE), p, T), axis=0)
        seen_in_a_row = value_at(in_a_row, last, T)
        if stuck < T:
            fallback = exact_fallback(proposal, seen, user, item, prefix, stream, draw + stuck + 1, SHOTS, T)
            chosen = tl.where(p == stuck, fallback, chosen)
            is_given = (is_given & (p < stuck)) | (p == stuck)
            last = stuck
            seen_in_a_row = stuck * 0
    else:
        seen_in_a_row = last * 0
    return chosen, is_given, last + 1, seen_in_a_row
