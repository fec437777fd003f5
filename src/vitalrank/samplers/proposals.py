"""From a log to the arrays the kernels read: which items may be drawn, with which proposal, and what is seen."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vitalrank.errors import SettingError
from vitalrank.interactions import Interactions
from vitalrank.kernels.cpu.sampling.bloom import new_bloom_filter
from vitalrank.kernels.proposals import Proposal, Seen


def pool_of(n_items: int, allowed: ArrayLike | None) -> NDArray[np.int64]:
    """Internal ids that may be drawn, ascending, from a mask over the catalogue or a list of ids."""
    if allowed is None:
        return np.arange(n_items)
    given = np.asarray(allowed)
    if given.dtype == bool:
        if given.shape != (n_items,):
            raise SettingError(f"allowed is a mask of shape {given.shape}; it must be ({n_items},), one flag per item.")
        given = np.flatnonzero(given)
    elif given.size and not np.issubdtype(given.dtype, np.integer):
        raise SettingError(f"allowed has type {given.dtype}; give a boolean mask or internal item ids.")
    pool = np.unique(given.astype(np.int64))
    if pool.size and (pool[0] < 0 or pool[-1] >= n_items):
        raise SettingError(f"allowed names item {pool[0] if pool[0] < 0 else pool[-1]}; ids are 0 to {n_items - 1}.")
    return pool


def degree_weights(train: Interactions, beta: float) -> NDArray[np.float32]:
    """``pi(i) = d_i ** beta``; an item absent from the log counts as degree 1."""  # (n,)
    return np.power(np.maximum(train.item_degree, 1).astype(np.float64), beta).astype(np.float32)


def _proposal(
    pool: NDArray[np.int64],
    weights: NDArray[np.float32],
    first_class: NDArray[np.int32] | None = None,
    accept_weight: NDArray[np.float32] | None = None,
    shots: int = 0,
) -> Proposal:
    """A proposal over the pool by ``weights`` (n,); by default an item's own weight is its acceptance weight."""
    n = len(weights)
    accept_weight = weights if accept_weight is None else accept_weight
    by_weight = pool[np.lexsort((pool, -weights[pool]))]
    weight = weights[by_weight]
    starts = np.flatnonzero(np.r_[True, weight[1:] != weight[:-1]]) if len(weight) else np.zeros(0, np.int64)
    class_weight = weight[starts]
    starts = np.r_[starts, len(weight)]
    mass = np.r_[0.0, np.cumsum(weight, dtype=np.float64)][starts]
    parts = 1 << max(len(starts) - 1, 16).bit_length()
    guide = np.searchsorted(mass, mass[-1] * np.arange(parts) / parts, side="right") - 1
    if first_class is None:  # how many classes weigh at least as much as the item
        first_class = np.searchsorted(-class_weight, -weights, side="right").astype(np.int32)
    return Proposal(
        size=len(pool),
        pool=np.zeros(0, np.int32) if len(pool) == n else pool.astype(np.int32),
        by_weight=by_weight.astype(np.int32),
        starts=starts.astype(np.int32),
        mass=mass,
        weight=class_weight,
        guide=np.clip(guide, 0, max(len(starts) - 2, 0)).astype(np.int32),
        first_class=first_class,
        accept_weight=accept_weight,
        pool_accept_weight=np.ascontiguousarray(
            accept_weight if len(pool) == n else accept_weight[pool], np.float32
        ),  # read without strides
        shots=shots,
        is_uniform=not shots and bool((first_class == len(starts) - 1).all()),
    )


def uniform_proposal(train: Interactions, pool: NDArray[np.int64]) -> Proposal:
    """The uniform proposal over the pool."""
    return _proposal(pool, np.ones(train.n_items, np.float32))


def weighted_proposal(weights: NDArray[np.float32], pool: NDArray[np.int64]) -> Proposal:
    """Items in proportion to their weight, whatever the positive."""
    n = len(weights)
    if np.all(weights == 1.0):
        return _proposal(pool, weights)
    return _proposal(pool, weights, first_class=np.zeros(n, np.int32), accept_weight=np.ones(n, np.float32))


def reject_proposal(weights: NDArray[np.float32], pool: NDArray[np.int64], shots: int | None) -> Proposal:
    """Algorithm 1 with so many shots, or its exact limit for ``shots=None``."""
    return _proposal(pool, weights, shots=0 if shots is None else shots)


def seen_by(train: Interactions, pool: NDArray[np.int64]) -> Seen:
    """The users' sorted rows and how many items of the pool each has left; of a rank's view of a log, its users'."""
    indptr, items = train.indptr, train.sorted_items
    first, last = train.own_users
    left = np.full(train.n_users, len(pool), np.int32)
    if len(pool) == train.n_items:
        left -= train.user_degree.astype(np.int32)
    else:
        inside = np.zeros(train.n_items, np.int32)
        inside[pool] = 1
        rows = indptr[first : last + 1]
        left[first:last] -= row_sums(rows - rows[0], inside[items[rows[0] : rows[-1]]]).astype(np.int32)
    return Seen(indptr, items, new_bloom_filter(indptr, items, first, last), left, bool((left == 0).any()))


def row_sums(indptr: NDArray[np.int64], values: NDArray[Any]) -> NDArray[np.float64]:
    """Sum of each user's values; 0 for a user without rows."""  # (U,)
    running = np.r_[0.0, np.cumsum(values, dtype=np.float64)]
    return np.asarray(running[indptr[1:]] - running[indptr[:-1]], dtype=np.float64)
