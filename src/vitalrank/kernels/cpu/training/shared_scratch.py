"""Memory of a training step on negatives that the batch shares."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.memory import large_zeros
from vitalrank.kernels.cpu.runtime.blocks import LANES
from vitalrank.kernels.cpu.training.coalescing import Coalesced, new_coalesced
from vitalrank.kernels.cpu.training.exponentials import TILE


class SharedScratch(NamedTuple):
    """Memory of a step; E rows are those of the batch, then its first C again, then zeros; D is d rounded up."""

    negatives: int  # C
    queries: NDArray[np.float32]  # (blocks * 64, D)
    items: NDArray[np.float32]  # (E, D)
    panels: NDArray[np.float32]  # (E / 64, D, 64) the items, so that a loop runs along them
    weights: NDArray[np.float32]  # (E,) of each row's positive as a negative; 0 if it may not be drawn
    count_before: NDArray[np.int64]  # (E + 1,) how many of the earlier rows may be drawn
    weight_before: NDArray[np.float64]  # (E + 1,) their weight
    grads: NDArray[np.float32]  # (blocks, 64, W) dL/dscore by the window of each block; its own positive's is at r, r
    query_grads: NDArray[np.float32]  # (blocks * 64, D)
    item_grads: NDArray[np.float32]  # (E, D)
    hits: NDArray[np.int32]  # (blocks, W) rows of the block that leave out this negative
    found: NDArray[np.int32]  # (B,) negatives of each row
    weight_sums: NDArray[np.float64]  # (B,) and the sum of their weights
    losses: NDArray[np.float32]  # (B,)
    vanished: NDArray[np.bool_]  # (B,)
    row_weights: NDArray[np.float32]  # (B,) of the positives in the loss
    slot: NDArray[np.int32]  # (I,) number of each item among those of the batch, else -1
    users_of: Coalesced
    items_of: Coalesced


def new_shared_scratch(n_users: int, n_items: int, width: int, size: int, negatives: int) -> SharedScratch:
    """Memory for batches of ``size`` positives with so many negatives each, of vectors of so many columns.

    Examples
    --------
    >>> scratch = new_shared_scratch(n_users=9, n_items=8, width=6, size=70, negatives=30)
    >>> scratch.grads.shape, scratch.items.shape
    ((2, 64, 128), (192, 16))
    """
    dim = -(-width // LANES) * LANES
    blocks = -(-size // TILE)
    window = TILE + -(-negatives // TILE) * TILE
    rows = (blocks - 1) * TILE + window
    floats = lambda *shape: large_zeros(shape, np.float32)  # noqa: E731
    return SharedScratch(
        negatives=negatives,
        queries=floats(blocks * TILE, dim),
        items=floats(rows, dim),
        panels=floats(rows // TILE, dim, TILE),
        weights=floats(rows),
        count_before=np.zeros(rows + 1, np.int64),
        weight_before=np.zeros(rows + 1),
        grads=floats(blocks, TILE, window),
        query_grads=floats(blocks * TILE, dim),
        item_grads=floats(rows, dim),
        hits=np.zeros((blocks, window), np.int32),
        found=np.zeros(size, np.int32),
        weight_sums=np.zeros(size),
        losses=np.zeros(size, np.float32),
        vanished=np.zeros(size, np.bool_),
        row_weights=np.ones(size, np.float32),
        slot=np.full(n_items, -1, np.int32),
        users_of=new_coalesced(n_users, size),
        items_of=new_coalesced(n_items, size),
    )
