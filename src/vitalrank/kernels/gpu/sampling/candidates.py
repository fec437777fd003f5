"""Candidates of static and pooled samplers on the GPU: one warp for each negative, or a lane where one is enough."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from vitalrank.kernels.gpu.runtime.lanes import count, grid_cell, value_at
from vitalrank.kernels.gpu.runtime.rng import (
    PROPOSE,
    STREAMS,
    counter_prefix,
    counter_prefixes,
    fine_unit,
    philox,
    word_pair,
)
from vitalrank.kernels.gpu.sampling.arrays import Counter, Proposal, Seen
from vitalrank.kernels.gpu.sampling.fallback import exact_fallback
from vitalrank.kernels.gpu.sampling.proposal import PATIENCE, constexprs_of, limit_sample, propose_draws
from vitalrank.kernels.gpu.sampling.seen import pairs_seen

_ONE_WARP = {"num_warps": 1}
_LANES = 32


def draw_candidates(
    proposal: Proposal,
    seen: Seen,
    counter: Counter,
    users: Tensor,
    positives: Tensor,
    first: int,
    draws: Tensor,
    ids: Tensor,
) -> None:
    """Fill ``ids`` (R, k, C) with unseen candidates: see :func:`vitalrank.kernels.cpu.draw_candidates`."""
    if not ids.numel():
        return
    if ids.shape[2] == 1 and not proposal.shots:  # a lane for each negative instead of a warp
        rows = ids.shape[0] * ids.shape[1]
        _draw_one[(triton.cdiv(rows, _LANES),)](
            proposal.arrays, seen, counter, users, positives, first, draws, ids, rows, ids.shape[1],
            IS_SUBSET=proposal.is_subset, UNIFORM=proposal.is_uniform, T=_LANES, **_ONE_WARP,
        )  # fmt: skip
        return
    _draw_candidates[ids.shape[:2]](
        proposal.arrays,
        seen,
        counter,
        users,
        positives,
        first,
        draws,
        ids,
        ids.shape[2],
        **constexprs_of(proposal),
        **_ONE_WARP,
    )


def draw_units(counter: Counter, purpose: int, units: Tensor) -> None:
    """Fill ``units`` (B, k) with uniform numbers: see :func:`vitalrank.kernels.cpu.draw_units`."""
    if units.numel():
        _draw_units[tuple(units.shape)](counter, units, PURPOSE=purpose, **_ONE_WARP)


@triton.jit
def _draw_units(counter: tl.tensor, units: tl.tensor, PURPOSE: tl.constexpr) -> None:
    b, c, cell = grid_cell()
    high, low, _, _ = philox(counter_prefix(counter, b), c * 0, c * STREAMS + PURPOSE)
    tl.store(units + cell, fine_unit(high, low))


@triton.jit
def _draw_candidates(
    proposal: tl.tensor,
    seen: tl.tensor,
    counter: tl.tensor,
    users: tl.tensor,
    positives: tl.tensor,
    first: tl.tensor,
    draws: tl.tensor,
    ids: tl.tensor,
    many: tl.tensor,
    IS_SUBSET: tl.constexpr,
    UNIFORM: tl.constexpr,
    SHOTS: tl.constexpr,
    T: tl.constexpr,
) -> None:
    b, c, row = grid_cell()
    p = tl.arange(0, T)
    user = tl.load(users + b).to(tl.int64)
    item = tl.load(positives + b).to(tl.int64)
    prefix = counter_prefix(counter, b)
    stream = (c + first) * STREAMS + PROPOSE
    draw = tl.load(draws + row)
    seen_in_a_row = c * 0
    done = c * 0
    if tl.load(seen.unseen + user) == 0:
        while done < many:
            tl.store(ids + row * many + done + p, p * 0 - 1, mask=done + p < many)
            done += T
    while done < many:
        chosen, is_given, used, seen_in_a_row = propose_draws(
            proposal, seen, user, item, prefix, stream, draw, seen_in_a_row, IS_SUBSET, UNIFORM, SHOTS, T
        )
        number = done + tl.cumsum(is_given.to(tl.int32), axis=0)  # of each proposal, from 1
        wanted = is_given & (number <= many)
        tl.store(ids + row * many + number - 1, chosen, mask=wanted)
        done += count(is_given)
        draw += tl.where(done >= many, tl.max(tl.where(wanted, p, 0), axis=0) + 1, used)
    tl.store(draws + row, draw)


@triton.jit
def _draw_one(
    proposal: tl.tensor,
    seen: tl.tensor,
    counter: tl.tensor,
    users: tl.tensor,
    positives: tl.tensor,
    first: tl.tensor,
    draws: tl.tensor,
    ids: tl.tensor,
    rows: tl.tensor,
    k: tl.tensor,
    IS_SUBSET: tl.constexpr,
    UNIFORM: tl.constexpr,
    T: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64) * T + tl.arange(0, T)  # (T,)
    lane = tl.arange(0, T)
    b = row // k
    stream = (row - b * k + first) * STREAMS + PROPOSE
    mask = row < rows
    user = tl.load(users + b, mask=mask, other=0).to(tl.int64)
    item = tl.load(positives + b, mask=mask, other=0)
    prefix = counter_prefixes(counter, b, mask)
    draw = tl.load(draws + row, mask=mask, other=0)
    picked = item * 0 - 1
    n_drawn = item * 0
    active = mask & (tl.load(seen.unseen + user) > 0)
    while count(active) > 0:
        a, word = word_pair(prefix, draw, stream)
        chosen = limit_sample(proposal, item, a, word, IS_SUBSET, UNIFORM)
        was_seen = pairs_seen(seen, user, chosen, active)
        draw = tl.where(active, draw + 1, draw)
        n_drawn += active.to(tl.int32)
        picked = tl.where(active & (was_seen == 0), chosen, picked)
        active = active & was_seen
        stuck = tl.min(tl.where(active & (n_drawn >= PATIENCE), lane, T), axis=0)
        if stuck < T:
            fallback = exact_fallback(
                proposal, seen, value_at(user, stuck, T), value_at(item, stuck, T),
                counter_prefix(counter, value_at(b, stuck, T)), value_at(stream, stuck, T), value_at(draw, stuck, T),
                0, T,
            )  # fmt: skip
            picked = tl.where(lane == stuck, fallback, picked)
            active = active & (lane != stuck)
    tl.store(ids + row, picked, mask=mask)
    tl.store(draws + row, draw, mask=mask)
