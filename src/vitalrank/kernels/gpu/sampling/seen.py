"""Whether users have seen items: the Bloom filter first, then a binary search of the user's items."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl
from torch import Tensor

from vitalrank.kernels.gpu.runtime.lanes import count
from vitalrank.kernels.gpu.runtime.rng import below
from vitalrank.kernels.gpu.sampling.arrays import Seen
from vitalrank.kernels.proposals import BLOOM_HASH, BLOOM_ITEMS_PER_WORD, BLOOM_WORDS

WORDS, SHARE, HASH = tl.constexpr(BLOOM_WORDS), tl.constexpr(BLOOM_ITEMS_PER_WORD), tl.constexpr(BLOOM_HASH)
_TILE = 128


def mask_seen(scores: Tensor, pool: Tensor, seen: Seen, users: Tensor) -> None:
    """Set the scores of what each user has seen to -inf."""  # (B, m)
    grid = len(scores), triton.cdiv(len(pool), _TILE)
    _mask_seen[grid](scores, pool, seen, users, len(pool), T=_TILE, num_warps=1)


def drop_seen(seen: Seen, users: Tensor, ids: Tensor) -> None:
    """Set the ids (B, C) that each row's user has seen to -1."""
    if ids.numel():
        grid = len(ids), triton.cdiv(ids.shape[1], _TILE)
        _drop_seen[grid](ids, seen, users, ids.shape[1], T=_TILE, num_warps=1)


@triton.jit
def is_seen(seen: tl.tensor, user: tl.tensor, item: tl.tensor) -> Any:
    """Whether the user has seen the item."""
    one = item + tl.arange(0, 1)
    return tl.sum(items_seen(seen, user, one, one >= 0).to(tl.int32), axis=0) > 0


@triton.jit
def items_seen(seen: tl.tensor, user: tl.tensor, items: tl.tensor, mask: tl.tensor) -> Any:
    """Which of the items under the mask one user has seen."""  # (T,)
    return pairs_seen(seen, user + items.to(tl.int64) * 0, items, mask)


@triton.jit
def pairs_seen(seen: tl.tensor, users: tl.tensor, items: tl.tensor, mask: tl.tensor) -> Any:
    """Which of the items under the mask the users have seen, one item for each user."""  # (T,)
    position = tl.load(seen.indptr + users, mask=mask, other=0)
    end = tl.load(seen.indptr + users + 1, mask=mask, other=0)
    begin = position // SHARE + users * WORDS
    bits = (end // SHARE + (users + 1) * WORDS - begin) * 64
    hashed = items.to(tl.uint32) * HASH
    bit = below(hashed, bits)
    word = tl.load(seen.bloom + begin + (bit >> 6), mask=mask, other=0)
    maybe = mask & (((word >> (bit & 63)) & (word >> (hashed & 63).to(tl.int64)) & 1) != 0)
    if count(maybe) > 0:
        size = tl.where(maybe, end - position, 0)
        longest = tl.max(size, axis=0)
        while longest > 1:  # the search of a shorter row idles once it is done
            half = size >> 1
            probe = tl.load(seen.items + position + half, mask=maybe, other=0)
            position = tl.where(maybe & (probe <= items), position + half, position)
            size -= half
            longest -= longest >> 1
        maybe = maybe & (tl.load(seen.items + position, mask=maybe, other=-1) == items)
    return maybe


@triton.jit
def _mask_seen(
    scores: tl.tensor, pool: tl.tensor, seen: tl.tensor, users: tl.tensor, size: tl.tensor, T: tl.constexpr
) -> None:
    b = tl.program_id(0).to(tl.int64)
    p = tl.program_id(1) * T + tl.arange(0, T)
    item = tl.load(pool + p, mask=p < size, other=0)
    masked = items_seen(seen, tl.load(users + b).to(tl.int64), item, p < size)
    tl.store(scores + b * size + p, p.to(tl.float32) * 0.0 - float("inf"), mask=masked)


@triton.jit
def _drop_seen(ids: tl.tensor, seen: tl.tensor, users: tl.tensor, many: tl.tensor, T: tl.constexpr) -> None:
    b = tl.program_id(0).to(tl.int64)
    x = tl.program_id(1) * T + tl.arange(0, T)
    item = tl.load(ids + b * many + x, mask=x < many, other=-1)
    taken = items_seen(seen, tl.load(users + b).to(tl.int64), item, item >= 0)
    tl.store(ids + b * many + x, item * 0 - 1, mask=taken)
