"""Candidates, their scores and the choice among them on the GPU: one warp for each negative, or a lane."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from vitalrank.kernels.gpu.runtime.lanes import at, count
from vitalrank.kernels.gpu.runtime.words import (
    PROPOSE,
    RANK,
    STREAMS,
    counter_prefix,
    counter_prefixes,
    fine_unit,
    pair,
    words,
)
from vitalrank.kernels.gpu.sampling.arrays import Counter, Proposal, Seen
from vitalrank.kernels.gpu.sampling.proposal import PATIENCE, exact_fallback, limit_items, propose_draws, shape_of
from vitalrank.kernels.gpu.sampling.seen import are_seen

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
    """Fill ``ids`` (R, k, C) with open candidates: see :func:`vitalrank.kernels.cpu.draw_candidates`."""
    if not ids.numel():
        return
    if ids.shape[2] == 1 and not proposal.shots:  # a lane for each row instead of a warp
        rows = ids.shape[0] * ids.shape[1]
        _draw_one[(triton.cdiv(rows, _LANES),)](
            proposal.arrays, seen, counter, users, positives, first, draws, ids, rows, ids.shape[1],
            LISTED=proposal.is_listed, EVEN=proposal.is_uniform, T=_LANES, **_ONE_WARP,
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
        **shape_of(proposal),
        **_ONE_WARP,
    )


def score(queries: Tensor, table: Tensor, ids: Tensor, scores: Tensor) -> None:
    """``scores[b, x] = queries[b] . table[ids[b, x]]``; -inf where the id is -1."""  # (B, M)
    width, many = table.shape[1], ids.shape[1]
    tile = min(16, triton.next_power_of_2(max(many, 1)))
    if ids.numel():
        _score[(len(ids), triton.cdiv(many, tile))](
            queries, table, ids, scores, many, width, C=tile, D=triton.next_power_of_2(width), **_ONE_WARP
        )


def tell_drawn(ids: Tensor, each: int, weights: Tensor, tries: Tensor) -> None:
    """Weight 1 for every id that was drawn, and ``each`` tries for it."""  # (B, k), (B, k), (B,)
    many = ids.shape[1]
    if ids.numel():
        _tell_drawn[(triton.cdiv(len(ids), _LANES),)](
            ids, each, weights, tries, len(ids), many, R=_LANES, K=triton.next_power_of_2(many), **_ONE_WARP
        )


def take(table: Tensor, places: Tensor, values: Tensor) -> None:
    """``values[x] = table[places[x]]``, whatever the shape."""
    count = places.numel()
    if count:
        _take[(triton.cdiv(count, _LANES),)](table, places, values, count, T=_LANES, **_ONE_WARP)


def pick_by_rank(scores: Tensor, ids: Tensor, cumulative: Tensor, counter: Counter, picked: Tensor) -> None:
    """Of each pool take the r-th best: see :func:`vitalrank.kernels.cpu.pick_by_rank`."""
    many, ranks = ids.shape[2], len(cumulative)
    if picked.numel():
        _pick_by_rank[tuple(picked.shape)](
            scores, ids, cumulative, counter, picked, many, ranks,
            C=triton.next_power_of_2(many), R=triton.next_power_of_2(ranks), **_ONE_WARP,
        )  # fmt: skip


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
    LISTED: tl.constexpr,
    EVEN: tl.constexpr,
    SHOTS: tl.constexpr,
    T: tl.constexpr,
) -> None:
    b = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1)
    p = tl.arange(0, T)
    row = b * tl.num_programs(1) + c
    user = tl.load(users + b).to(tl.int64)
    item = tl.load(positives + b).to(tl.int64)
    prefix = counter_prefix(counter, b)
    stream = (c + first) * STREAMS + PROPOSE
    draw = tl.load(draws + row)
    refused = c * 0
    got = c * 0
    if tl.load(seen.unseen + user) == 0:
        while got < many:
            tl.store(ids + row * many + got + p, p * 0 - 1, mask=got + p < many)
            got += T
    while got < many:
        chosen, given, used, refused = propose_draws(
            proposal, seen, user, item, prefix, stream, draw, refused, LISTED, EVEN, SHOTS, T
        )
        number = got + tl.cumsum(given.to(tl.int32), axis=0)  # of each proposal, from 1
        wanted = given & (number <= many)
        tl.store(ids + row * many + number - 1, chosen, mask=wanted)
        got += count(given)
        draw += tl.where(got >= many, tl.max(tl.where(wanted, p, 0), axis=0) + 1, used)
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
    LISTED: tl.constexpr,
    EVEN: tl.constexpr,
    T: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64) * T + tl.arange(0, T)  # (T,)
    lane = tl.arange(0, T)
    b = row // k
    stream = (row - b * k + first) * STREAMS + PROPOSE
    inside = row < rows
    user = tl.load(users + b, mask=inside, other=0).to(tl.int64)
    item = tl.load(positives + b, mask=inside, other=0)
    prefix = counter_prefixes(counter, b, inside)
    draw = tl.load(draws + row, mask=inside, other=0)
    picked = item * 0 - 1
    drawn = item * 0
    looking = inside & (tl.load(seen.unseen + user) > 0)
    while count(looking) > 0:
        a, word = pair(prefix, draw, stream)
        chosen = limit_items(proposal, item, a, word, LISTED, EVEN)
        taken = are_seen(seen, user, chosen, looking)
        draw = tl.where(looking, draw + 1, draw)
        drawn += looking.to(tl.int32)
        picked = tl.where(looking & (taken == 0), chosen, picked)
        looking = looking & taken
        stuck = tl.min(tl.where(looking & (drawn >= PATIENCE), lane, T), axis=0)
        if stuck < T:
            saved = exact_fallback(
                proposal, seen, at(user, stuck, T), at(item, stuck, T), counter_prefix(counter, at(b, stuck, T)),
                at(stream, stuck, T), at(draw, stuck, T), 0, T,
            )  # fmt: skip
            picked = tl.where(lane == stuck, saved, picked)
            looking = looking & (lane != stuck)
    tl.store(ids + row, picked, mask=inside)
    tl.store(draws + row, draw, mask=inside)


@triton.jit
def _score(
    queries: tl.tensor,
    table: tl.tensor,
    ids: tl.tensor,
    scores: tl.tensor,
    many: tl.tensor,
    width: tl.tensor,
    C: tl.constexpr,
    D: tl.constexpr,
) -> None:
    b = tl.program_id(0).to(tl.int64)
    x = tl.program_id(1) * C + tl.arange(0, C)
    d = tl.arange(0, D)
    item = tl.load(ids + b * many + x, mask=x < many, other=-1)
    query = tl.load(queries + b * width + d, mask=d < width, other=0.0)
    inside = (item >= 0)[:, None] & (d < width)[None, :]
    rows = tl.load(table + item[:, None] * width + d[None, :], mask=inside, other=0.0)  # (C, D)
    value = tl.where(item >= 0, tl.sum(rows * query[None, :], axis=1), -float("inf"))
    tl.store(scores + b * many + x, value, mask=x < many)


@triton.jit
def _pick_by_rank(
    scores: tl.tensor,
    ids: tl.tensor,
    cumulative: tl.tensor,
    counter: tl.tensor,
    picked: tl.tensor,
    many: tl.tensor,
    ranks: tl.tensor,
    C: tl.constexpr,
    R: tl.constexpr,
) -> None:
    b = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1)
    row = b * tl.num_programs(1) + c
    x = tl.arange(0, C)
    own = tl.load(scores + row * many + x, mask=x < many, other=-float("inf"))
    behind = x * 0  # how many candidates rank before each
    wanted = c * 0
    if R > 1:
        high, low, _, _ = words(counter_prefix(counter, b), c * 0, c * STREAMS + RANK)
        r = tl.arange(0, R)
        steps = tl.load(cumulative + r, mask=r < ranks, other=float("inf"))
        wanted = tl.minimum(tl.sum((steps <= fine_unit(high, low)).to(tl.int32), axis=0), many - 1)
        y = c * 0
        while y < many:
            other = tl.load(scores + row * many + y)
            behind += ((other > own) | ((other == own) & (y < x))).to(tl.int32)
            y += 1
        pick = tl.min(tl.where((behind == wanted) & (x < many), x, C), axis=0)
    else:
        pick = tl.argmax(own, axis=0, tie_break_left=True)
    tl.store(picked + row, tl.load(ids + row * many + tl.minimum(pick, many - 1)))


@triton.jit
def _take(table: tl.tensor, places: tl.tensor, values: tl.tensor, count: tl.tensor, T: tl.constexpr) -> None:
    x = tl.program_id(0).to(tl.int64) * T + tl.arange(0, T)
    inside = x < count
    tl.store(values + x, tl.load(table + tl.load(places + x, mask=inside, other=0), mask=inside), mask=inside)


@triton.jit
def _tell_drawn(
    ids: tl.tensor,
    each: tl.tensor,
    weights: tl.tensor,
    tries: tl.tensor,
    rows: tl.tensor,
    many: tl.tensor,
    R: tl.constexpr,
    K: tl.constexpr,
) -> None:
    b = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)
    x = tl.arange(0, K)
    inside = (b < rows)[:, None] & (x < many)[None, :]
    cell = b[:, None] * many + x[None, :]  # (R, K)
    drawn = tl.load(ids + cell, mask=inside, other=-1) >= 0
    tl.store(weights + cell, drawn.to(tl.float32), mask=inside)
    tl.store(tries + b, tl.sum(drawn.to(tl.int32), axis=1) * each, mask=b < rows)
