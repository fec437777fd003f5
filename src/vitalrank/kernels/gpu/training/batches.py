"""The batches of an epoch on the GPU: which positives come next, at which step and rate."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from vitalrank.kernels.gpu.training.permutation import Permutation, rows_at

_LOAD_ROWS, _LANES = 8, 32  # of a warp, with vectors and without


class StepState(NamedTuple):
    """Where training stands; read and advanced on the device."""

    cursor: Tensor  # (2,) int64: batches of the epoch done, steps done before the epoch
    rates: Tensor  # (steps of an epoch,) float32
    steps: Tensor  # (batches between two advances of the cursor,) int64: the number of each, for samplers


class Positives(NamedTuple):
    """The positives of the log, and how many of them make a batch."""

    users: Tensor  # (N,) int32
    items: Tensor  # (N,) int32
    weights: Tensor | None  # (N,) float32
    batch_size: int


class Batch(NamedTuple):
    """Positives of one batch."""

    users: Tensor  # (B,) int32
    positives: Tensor  # (B,) int32
    queries: Tensor  # (B, d), or (B, 0) for a sampler that scores nothing
    weights: Tensor  # (B,) float32, or (0,) for a log without weights


def new_batch(size: int, width: int, device: torch.device | str, weighted: bool = False) -> Batch:
    """An empty batch."""
    users, positives = torch.empty((2, size), dtype=torch.int32, device=device)
    queries, weights = torch.empty((size, width), device=device), torch.empty(size if weighted else 0, device=device)
    return Batch(users, positives, queries, weights)


def load_batch(
    permutation: Permutation, offset: int, step_state: StepState, positives: Positives, table: Tensor, batch: Batch
) -> None:
    """Fill the batch ``offset`` after the cursor: users, positives, weights, queries, and the number of its step."""
    size, width = batch.queries.shape
    rows = _LOAD_ROWS if width else _LANES
    _load_batch[(triton.cdiv(size, rows),)](
        permutation, offset, step_state, positives.users, positives.items,
        batch.weights if positives.weights is None else positives.weights, table, batch, size, positives.batch_size,
        width, R=rows, D=triton.next_power_of_2(width), WEIGHTED=positives.weights is not None, num_warps=1,
    )  # fmt: skip


@triton.jit
def step_of(step_state: tl.tensor, offset: tl.tensor) -> Any:
    """The number of a batch's step, from 1."""
    return tl.load(step_state.cursor) + tl.load(step_state.cursor + 1) + offset + 1


@triton.jit
def rate_of(step_state: tl.tensor, offset: tl.tensor) -> Any:
    """The step size of a batch."""
    return tl.load(step_state.rates + tl.load(step_state.cursor) + offset)


@triton.jit(do_not_specialize=["offset"])
def _load_batch(
    permutation: tl.tensor,
    offset: tl.tensor,
    step_state: tl.tensor,
    log_users: tl.tensor,
    log_items: tl.tensor,
    log_weights: tl.tensor,
    table: tl.tensor,
    batch: tl.tensor,
    size: tl.tensor,
    batch_size: tl.tensor,
    width: tl.tensor,
    R: tl.constexpr,
    D: tl.constexpr,
    WEIGHTED: tl.constexpr,
) -> None:
    b = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)
    inside = b < size
    number = tl.load(step_state.cursor) + offset
    row = rows_at(permutation, number * batch_size + b, inside)
    user = tl.load(log_users + row, mask=inside, other=0)
    tl.store(batch.users + b, user, mask=inside)
    tl.store(batch.positives + b, tl.load(log_items + row, mask=inside, other=0), mask=inside)
    if WEIGHTED:
        tl.store(batch.weights + b, tl.load(log_weights + row, mask=inside, other=0.0), mask=inside)
    if D > 0:
        d = tl.arange(0, D)
        tile = inside[:, None] & (d < width)[None, :]
        query = tl.load(table + user.to(tl.int64)[:, None] * width + d[None, :], mask=tile, other=0.0)
        tl.store(batch.queries + b[:, None] * width + d[None, :], query, mask=tile)
    if tl.program_id(0) == 0:
        tl.store(step_state.steps + offset, step_of(step_state, offset) - 1)
