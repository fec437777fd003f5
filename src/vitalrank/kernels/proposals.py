"""Plain arrays that kernels read: a proposal distribution, seen items with their Bloom filters, the random counter."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Proposal(NamedTuple):
    """A proposal distribution over a pool of items; items of equal weight form a class, the heaviest class first.

    Given a positive item ``i``, item ``j`` is proposed with probability proportional to
    ``min(accept_weight[j] / accept_weight[i], 1)``: the items of the classes before ``first_class[i]`` weigh at least
    as much as ``i`` and are equally likely; the others follow their weight. ``first_class`` past the last class for
    every item is the uniform distribution; 0 for every item, with acceptance weights 1, follows the weights alone. With
    ``shots > 0`` the distribution is Algorithm 1's, which takes the heaviest candidate after so many rejections.
    """

    size: int  # m, items in the pool
    pool: NDArray[np.int32]  # (m,) the pool's ids ascending; empty when the pool is the whole catalogue
    by_weight: NDArray[np.int32]  # (m,) the pool's ids, weight descending, then id ascending
    starts: NDArray[np.int32]  # (c + 1,) where each class of equal weight begins in ``by_weight``
    mass: NDArray[np.float64]  # (c + 1,) weight of all classes before this one
    weight: NDArray[np.float32]  # (c,) weight of one item of the class
    guide: NDArray[np.int32]  # (g,) the class at each g-th part of the total mass, where a search starts
    first_class: NDArray[np.int32]  # (n,) for each item of the catalogue
    accept_weight: NDArray[np.float32]  # (n,) acceptance weight of each item of the catalogue
    pool_accept_weight: NDArray[np.float32]  # (m,) those of the pool's items, ascending by id
    shots: int
    is_uniform: bool  # whatever the positive, so that its class is not read


BLOOM_WORDS = 8  # of 64 bits, for every user
BLOOM_ITEMS_PER_WORD = 2  # seen items per additional word, which keeps filters sparse; a power of 2
BLOOM_HASH = 0x9E3779B1


NO_ROWS: NDArray[np.int32] = np.zeros(0, np.int32)


class Seen(NamedTuple):
    """The items that each user has seen, and how many items of the pool they have not.

    A Bloom filter per user answers most queries. A user's words follow those of the users before, so ``indptr`` gives
    their offset. With ``h = item * BLOOM_HASH % 2**32``, bit ``h * bits // 2**32`` of the user and bit ``h % 64`` of
    that word are set if the user may have seen the item: two bits have far fewer false positives than one.
    """

    indptr: NDArray[np.int64]  # (U + 1,)
    items: NDArray[np.int32]  # (N,) sorted within a user
    bloom: NDArray[np.uint64]  # (W,)
    unseen: NDArray[np.int32]  # (U,) items of the pool
    any_exhausted: bool  # whether some user has no unseen item; without any, kernels skip the check
    # Of a batch whose rows count items that came later as seen: kernels are then given row numbers in place of users,
    # and ``unseen`` is (B,). Item j counts as seen in row b where ``first_seen[j] >= before[b]``.
    owner: NDArray[np.int32] = NO_ROWS  # (B,) the user of each row; empty: kernels are given users
    before: NDArray[np.int32] = NO_ROWS  # (B,)
    first_seen: NDArray[np.int32] = NO_ROWS  # (n,)


class Counter(NamedTuple):
    """The part of the random counter that one call shares: see ``kernels.rng``."""

    seed: int
    step: int
    rows: NDArray[np.uint32]  # (B,)
