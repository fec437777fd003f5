"""IRGAN on the GPU: the generator's softmax over the whole catalogue, drawn exactly."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from vitalrank.kernels.gpu.runtime.lanes import grid_cell
from vitalrank.kernels.gpu.runtime.rng import PROPOSE, STREAMS, counter_prefix, fine_unit, philox
from vitalrank.kernels.gpu.sampling.arrays import Counter, Seen
from vitalrank.kernels.gpu.sampling.seen import mask_seen

_TILE = 256


def score_all(queries: Tensor, table: Tensor, pool: Tensor, scores: Tensor) -> None:
    """``scores[b, p] = queries[b] . table[pool[p]]``."""  # (B, m)
    torch.matmul(queries, table[pool].T, out=scores)


def draw_softmax(
    scores: Tensor,
    temperature: float,
    pool: Tensor,
    seen: Seen,
    counter: Counter,
    users: Tensor,
    ids: Tensor,
    log_q: Tensor,
) -> None:
    """Draw k unseen items a row: see :func:`vitalrank.kernels.cpu.draw_softmax`."""
    if not ids.numel():
        return
    unseen_scores = torch.nan_to_num(scores, nan=torch.finfo(scores.dtype).min)  # only seen items are at -inf
    mask_seen(unseen_scores, pool, seen, users)
    _draw_softmax[tuple(ids.shape)](
        unseen_scores, float(temperature), pool, seen, counter, users, ids, log_q, len(pool), T=_TILE, num_warps=4
    )


@triton.jit
def _draw_softmax(
    scores: tl.tensor,
    temperature: tl.tensor,
    pool: tl.tensor,
    seen: tl.tensor,
    counter: tl.tensor,
    users: tl.tensor,
    ids: tl.tensor,
    log_q: tl.tensor,
    size: tl.tensor,
    T: tl.constexpr,
) -> None:
    b, c, row = grid_cell()
    p = tl.arange(0, T)
    picked = row * 0 - 1
    log_prob = picked.to(tl.float32) * 0.0
    if tl.load(seen.unseen + tl.load(users + b)) > 0:
        top = log_prob.to(tl.float64) - float("inf")
        start = c * 0
        while start < size:
            logit = tl.load(scores + b * size + start + p, mask=start + p < size, other=-float("inf"))
            top = tl.maximum(top, tl.max(logit.to(tl.float64), axis=0) / temperature)
            start += T
        total = top * 0.0
        start = c * 0
        while start < size:
            logit = tl.load(scores + b * size + start + p, mask=start + p < size, other=-float("inf"))
            total += tl.sum(tl.exp(logit.to(tl.float64) / temperature - top), axis=0)
            start += T
        high, low, _, _ = philox(counter_prefix(counter, b), c * 0, c * STREAMS + PROPOSE)
        target = fine_unit(high, low) * total
        before = top * 0.0
        position = c * 0 - 1
        last = c * 0
        start = c * 0
        while (start < size) & (position < 0):
            logit = tl.load(scores + b * size + start + p, mask=start + p < size, other=-float("inf"))
            mass = tl.exp(logit.to(tl.float64) / temperature - top)
            passed = tl.min(tl.where((mass > 0.0) & (before + tl.cumsum(mass, axis=0) > target), p, T), axis=0)
            position = tl.where(passed < T, start + passed, position)
            last = tl.maximum(last, tl.max(tl.where(mass > 0.0, start + p, 0), axis=0))
            before += tl.sum(mass, axis=0)
            start += T
        position = tl.where(position < 0, last, position)  # rounding error left the target above the total
        picked = tl.load(pool + position)
        logit = tl.load(scores + b * size + position).to(tl.float64) / temperature
        log_prob = (logit - top - tl.log(total)).to(tl.float32)
    tl.store(ids + row, picked)
    tl.store(log_q + row, log_prob)
