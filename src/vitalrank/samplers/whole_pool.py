"""What samplers share that score the whole pool for every row: blocks of rows, so that memory stays bounded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitalrank.samplers.base import Batch

_CELLS = 1 << 24  # scores held at once


def scored_blocks(batch: Batch, pool: NDArray[np.int64]) -> Iterator[tuple[slice, Any, Any]]:
    """Some rows of the batch at a time: which, their random counter, and their scores of the pool."""  # (R, m)
    if not len(pool):
        return
    block = max(1, _CELLS // len(pool))
    for start in range(0, len(batch), block):
        part = slice(start, min(start + block, len(batch)))
        yield part, batch.counter._replace(rows=batch.counter.rows[part]), _scores(batch, part, pool)


def _scores(batch: Batch, part: slice, pool: NDArray[np.int64]) -> Any:
    rows = np.arange(part.start, part.stop)
    if batch.scorer is not None:
        return batch.scorer(rows, np.tile(pool, (len(rows), 1)))
    arrays = batch.arrays
    scores = arrays.empty((len(rows), len(pool)), np.float32)
    arrays.kernels.score_all(batch.queries[part], batch.table, arrays.hold(pool), scores)
    return scores


def drawn_of_all(batch: Batch, pool: NDArray[np.int64], ids: Any) -> tuple[Any, Any]:
    """Weight 1 for every id that was drawn, and as many tries as the pool has items."""  # (B, k), (B,)
    arrays = batch.arrays
    weights, _ = arrays.drawn(ids, each=1)
    return weights, arrays.cast(arrays.xp.where(ids[:, 0] >= 0, len(pool), 0), np.int32)
