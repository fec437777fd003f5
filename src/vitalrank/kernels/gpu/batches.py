"""The batches of an epoch on the GPU: which positives come next, at which step and rate."""

from __future__ import annotations

from typing import NamedTuple

import triton
import triton.language as tl
from torch import Tensor

from vitalrank.kernels.gpu.orders import Order, rows_at

_LOAD_ROWS = 8


class Now(NamedTuple):
    """Where training stands; read and moved on the device."""

    cursor: Tensor  # (2,) int64: batches of the epoch done, steps done before the epoch
    rates: Tensor  # (steps of an epoch,) float32
    step: Tensor  # (1,) int64, of the batch being trained
    rate: Tensor  # (1,) float32


class Log(NamedTuple):
    """The positives of the log, and how many of them make a batch."""

    users: Tensor  # (N,) int32
    items: Tensor  # (N,) int32
    stride: int


class Batch(NamedTuple):
    """Positives of one batch."""

    users: Tensor  # (B,) int32
    positives: Tensor  # (B,) int32
    queries: Tensor  # (B, d)


def load_batch(order: Order, offset: int, now: Now, log: Log, table: Tensor, batch: Batch) -> None:
    """Fill the users, positives and queries of the batch ``offset`` after the cursor; set its step and rate."""
    size, width = batch.queries.shape
    _load_batch[(triton.cdiv(size, _LOAD_ROWS),)](
        order, offset, now, log.users, log.items, table, batch, size, log.stride, width,
        R=_LOAD_ROWS, D=triton.next_power_of_2(width), num_warps=1,
    )  # fmt: skip


@triton.jit(do_not_specialize=["offset"])
def _load_batch(
    order: tl.tensor,
    offset: tl.tensor,
    now: tl.tensor,
    log_users: tl.tensor,
    log_items: tl.tensor,
    table: tl.tensor,
    batch: tl.tensor,
    size: tl.tensor,
    stride: tl.tensor,
    width: tl.tensor,
    R: tl.constexpr,
    D: tl.constexpr,
) -> None:
    b = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)
    d = tl.arange(0, D)
    inside = b < size
    number = tl.load(now.cursor) + offset
    row = rows_at(order, number * stride + b, inside)
    user = tl.load(log_users + row, mask=inside, other=0)
    tl.store(batch.users + b, user, mask=inside)
    tl.store(batch.positives + b, tl.load(log_items + row, mask=inside, other=0), mask=inside)
    tile = inside[:, None] & (d < width)[None, :]
    query = tl.load(table + user.to(tl.int64)[:, None] * width + d[None, :], mask=tile, other=0.0)
    tl.store(batch.queries + b[:, None] * width + d[None, :], query, mask=tile)
    if tl.program_id(0) == 0:
        tl.store(now.step, tl.load(now.cursor + 1) + number)
        tl.store(now.rate, tl.load(now.rates + number))
