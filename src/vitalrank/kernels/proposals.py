"""The plain arrays that describe which items may be drawn, for which user, with which probability."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Proposal(NamedTuple):
    """A proposal law over a pool of items; items of equal weight form a class, the heaviest class first.

    Given a positive item ``i``, item ``j`` is proposed with probability proportional to
    ``min(level[j] / level[i], 1)``: the items of the classes before ``first_class[i]`` weigh at least as much
    as ``i`` and are equally likely; the others follow their weight. ``first_class`` past the last class for every
    item is the uniform law; 0 for every item, with all levels 1, is the law of the weights themselves.
    With ``shots > 0`` the law is Algorithm 1's, which tries so often and then takes the heaviest it saw.
    """

    size: int  # m, items in the pool
    pool: NDArray[np.int32]  # (m,) the pool's ids ascending; empty when the pool is the whole catalogue
    by_weight: NDArray[np.int32]  # (m,) the pool's ids, weight descending, then id ascending
    starts: NDArray[np.int32]  # (c + 1,) where each class of equal weight begins in ``ranked``
    mass: NDArray[np.float64]  # (c + 1,) weight of all classes before this one
    weight: NDArray[np.float32]  # (c,) weight of one item of the class
    guide: NDArray[np.int32]  # (g,) the class at each g-th part of the whole mass, where a search may begin
    first_class: NDArray[np.int32]  # (n,) for each item of the catalogue
    accept_weight: NDArray[np.float32]  # (n,)
    pool_accept_weight: NDArray[np.float32]  # (m,) the levels of the pool's items, ascending by id
    shots: int
    is_uniform: bool  # every item of the pool alike, whatever the positive: nobody need look at its class


BLOOM_WORDS = 8  # of 64 bits, for every user
BLOOM_ITEMS_PER_WORD = 2  # items seen for each word more, so that few bits are set whoever asks; a power of 2
BLOOM_HASH = 0x9E3779B1


class Seen(NamedTuple):
    """What each user has already touched, and how many items of the pool that leaves open.

    The sieve answers most questions alone. A user's words follow those of the users before him, so that their place
    is known from ``indptr``. With ``h = item * SIEVE_HASH % 2**32``, his bit ``h * bits // 2**32`` and bit ``h % 64``
    of that word are set if he may have seen the item: two bits let far fewer others through than one.
    """

    indptr: NDArray[np.int64]  # (U + 1,)
    items: NDArray[np.int32]  # (N,) sorted within a user
    bloom: NDArray[np.uint64]  # (W,)
    unseen: NDArray[np.int32]  # (U,)
    any_exhausted: bool  # whether some user has no open item left; if none has, nobody need look


class Counter(NamedTuple):
    """The part of the random counter that one call shares: see ``kernels.rng``."""

    seed: int
    step: int
    rows: NDArray[np.uint32]  # (B,)
