"""Algorithm 2 on the GPU: one warp for each negative, many candidates at a time."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from vitalrank.kernels.gpu.runtime.lanes import count, grid_cell
from vitalrank.kernels.gpu.runtime.rng import PROPOSE, STREAMS, counter_prefix
from vitalrank.kernels.gpu.sampling.arrays import Counter, Proposal, Seen
from vitalrank.kernels.gpu.sampling.proposal import constexprs_of, propose_draws

# Columns of the candidates' vectors held at once: more leave room for fewer warps, which slows the longer loop of
# Algorithm 1 (``shots > 0``) first.
_COLUMNS, _REJECT_COLUMNS = 32, 16


def draw_until(
    proposal: Proposal,
    seen: Seen,
    counter: Counter,
    queries: Tensor,
    table: Tensor,
    users: Tensor,
    positives: Tensor,
    kappa: int,
    margin: float,
    ceiling: tuple[float, float],
    ids: Tensor,
    tries: Tensor,
    violated: Tensor,
) -> None:
    """Algorithm 2: see :func:`vitalrank.kernels.cpu.draw_until`."""
    width = table.shape[1]
    columns = min(_REJECT_COLUMNS if proposal.shots else _COLUMNS, triton.next_power_of_2(width))
    if ids.numel():
        _draw_until[tuple(ids.shape)](
            proposal.arrays, seen, counter, queries, table, users, positives, kappa, float(margin),
            *map(float, ceiling), ids, tries, violated, width, D=triton.next_power_of_2(width), C=columns,
            **constexprs_of(proposal), num_warps=1,
        )  # fmt: skip


@triton.jit
def _draw_until(
    proposal: tl.tensor,
    seen: tl.tensor,
    counter: tl.tensor,
    queries: tl.tensor,
    table: tl.tensor,
    users: tl.tensor,
    positives: tl.tensor,
    kappa: tl.tensor,
    margin: tl.tensor,
    above: tl.tensor,
    share: tl.tensor,
    ids: tl.tensor,
    tries: tl.tensor,
    violated: tl.tensor,
    width: tl.tensor,
    D: tl.constexpr,
    C: tl.constexpr,
    IS_SUBSET: tl.constexpr,
    UNIFORM: tl.constexpr,
    SHOTS: tl.constexpr,
    T: tl.constexpr,
) -> None:
    b, c, row = grid_cell()
    p = tl.arange(0, T)
    d = tl.arange(0, D)
    user = tl.load(users + b).to(tl.int64)
    item = tl.load(positives + b).to(tl.int64)
    query = tl.load(queries + b * width + d, mask=d < width, other=0.0)  # (D,)
    own = tl.sum(query * tl.load(table + item * width + d, mask=d < width, other=0.0), axis=0)
    threshold = own - margin
    limit_score = own + above + share * tl.abs(own)
    prefix = counter_prefix(counter, b)
    stream = c * STREAMS + PROPOSE
    limit = tl.where(tl.load(seen.unseen + user) > 0, kappa, 0)
    best = p * 0 - 1  # of each lane
    best_score = tl.zeros((T,), tl.float32) - float("inf")
    best_number = p * 0
    K = limit * 0
    draw = item * 0
    seen_in_a_row = c * 0
    found = False
    while (K < limit) & (found == 0):  # noqa: SIM300
        chosen, is_given, used, seen_in_a_row = propose_draws(
            proposal, seen, user, item, prefix, stream, draw, seen_in_a_row, IS_SUBSET, UNIFORM, SHOTS, T
        )
        number = K + tl.cumsum(is_given.to(tl.int32), axis=0)
        tried = is_given & (number <= limit)
        row_start = chosen.to(tl.int64) * width
        values = tl.zeros((T,), tl.float32)
        for start in tl.static_range(0, D, C):
            e = start + tl.arange(0, C)
            part = tl.load(queries + b * width + e, mask=e < width, other=0.0)
            tile = tried[:, None] & (e < width)[None, :]
            rows = tl.load(table + row_start[:, None] + e[None, :], mask=tile, other=0.0)  # (T, C)
            values += tl.sum(rows * part[None, :], axis=1)
        tried = tried & ((values > limit_score) == 0)
        better = tried & ((values > best_score) | (best < 0))
        best = tl.where(better, chosen, best)
        best_score = tl.where(better, values, best_score)
        best_number = tl.where(better, number, best_number)
        found = count(tried & (values > threshold)) > 0
        K = tl.minimum(K + count(is_given), limit)
        draw += used
    # Only the last block has candidates above the threshold, and the first of them counts; without one, the first of
    # the best does.
    top = tl.max(best_score, axis=0)
    counts = (best >= 0) & tl.where(found, best_score > threshold, (best_score < top) == 0)
    number = tl.min(tl.where(counts, best_number, 2147483647), axis=0)
    tl.store(ids + row, tl.max(tl.where(best_number == number, best, -1), axis=0))
    tl.store(tries + row, tl.where(found, number, K))
    tl.store(violated + row, found)
