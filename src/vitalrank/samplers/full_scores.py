"""Scores of the whole pool for every row, a block of rows at a time, so that memory stays bounded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.typing import DeviceArray
from vitalrank.samplers.draws import SampleRequest

_CELLS = 1 << 24  # scores held at once


def score_blocks(request: SampleRequest, pool: NDArray[np.int64]) -> Iterator[tuple[slice, Any, Any]]:
    """Some rows of the batch at a time: which, their random counter, and their scores of the pool."""  # (R, m)
    if not len(pool):
        return
    block = max(1, _CELLS // len(pool))
    for start in range(0, len(request), block):
        part = slice(start, min(start + block, len(request)))
        scores = _scores(request, part, pool)
        if request.check_finite:
            request.checked_scores(scores)
        yield part, request.counter._replace(rows=request.counter.rows[part]), scores


def _scores(request: SampleRequest, part: slice, pool: NDArray[np.int64]) -> DeviceArray:
    rows = np.arange(part.start, part.stop)
    if request.scorer is not None:
        scored: DeviceArray = request.scorer(rows, np.tile(pool, (len(rows), 1)))
        return scored
    backend = request.backend
    scores: DeviceArray = backend.empty((len(rows), len(pool)), np.float32)
    queries = None if request.queries is None else request.queries[part]
    backend.kernels.score_all(queries, request.table, backend.cached_to_device(pool), scores)
    return scores


def full_scan_weights(
    request: SampleRequest, pool: NDArray[np.int64], ids: DeviceArray
) -> tuple[DeviceArray, DeviceArray]:
    """Weight 1 for every id that was drawn, and as many tries as the pool has items."""  # (B, k), (B,)
    backend = request.backend
    weights, _ = backend.unit_weights(ids, each=1)
    return weights, backend.cast(backend.xp.where(ids[:, 0] >= 0, len(pool), 0), np.int32)
