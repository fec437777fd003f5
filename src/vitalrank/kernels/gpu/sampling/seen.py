"""What users have touched."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl
from torch import Tensor

from vitalrank.kernels.gpu.runtime.lanes import count
from vitalrank.kernels.gpu.runtime.words import below
from vitalrank.kernels.gpu.sampling.arrays import Seen
from vitalrank.kernels.proposals import BLOOM_HASH, BLOOM_ITEMS_PER_WORD, BLOOM_WORDS

WORDS, SHARE, HASH = tl.constexpr(BLOOM_WORDS), tl.constexpr(BLOOM_ITEMS_PER_WORD), tl.constexpr(BLOOM_HASH)
_TILE = 128


def strike_seen(scores: Tensor, pool: Tensor, seen: Seen, users: Tensor) -> None:
    """Set the scores of what each user has seen to -inf."""  # (B, m)
    grid = len(scores), triton.cdiv(len(pool), _TILE)
    _strike_seen[grid](scores, pool, seen, users, len(pool), T=_TILE, num_warps=1)


@triton.jit
def has_seen(seen: tl.tensor, user: tl.tensor, item: tl.tensor) -> Any:
    """Whether one user has touched one item."""
    one = item + tl.arange(0, 1)
    return tl.sum(is_seen(seen, user, one, one >= 0).to(tl.int32), axis=0) > 0


@triton.jit
def is_seen(seen: tl.tensor, user: tl.tensor, items: tl.tensor, asked: tl.tensor) -> Any:
    """Which of the items asked for one user has touched."""  # (T,)
    return are_seen(seen, user + items.to(tl.int64) * 0, items, asked)


@triton.jit
def are_seen(seen: tl.tensor, users: tl.tensor, items: tl.tensor, asked: tl.tensor) -> Any:
    """Which of the items asked for the users have touched, one each."""  # (T,)
    place = tl.load(seen.indptr + users, mask=asked, other=0)
    end = tl.load(seen.indptr + users + 1, mask=asked, other=0)
    begin = place // SHARE + users * WORDS
    bits = (end // SHARE + (users + 1) * WORDS - begin) * 64
    hashed = items.to(tl.uint32) * HASH
    bit = below(hashed, bits)
    word = tl.load(seen.bloom + begin + (bit >> 6), mask=asked, other=0)
    maybe = asked & (((word >> (bit & 63)) & (word >> (hashed & 63).to(tl.int64)) & 1) != 0)
    if count(maybe) > 0:
        size = tl.where(maybe, end - place, 0)
        longest = tl.max(size, axis=0)
        while longest > 1:  # a shorter row's search stands still once it is done
            half = size >> 1
            probe = tl.load(seen.items + place + half, mask=maybe, other=0)
            place = tl.where(maybe & (probe <= items), place + half, place)
            size -= half
            longest -= longest >> 1
        maybe = maybe & (tl.load(seen.items + place, mask=maybe, other=-1) == items)
    return maybe


@triton.jit
def _strike_seen(
    scores: tl.tensor, pool: tl.tensor, seen: tl.tensor, users: tl.tensor, size: tl.tensor, T: tl.constexpr
) -> None:
    b = tl.program_id(0).to(tl.int64)
    p = tl.program_id(1) * T + tl.arange(0, T)
    item = tl.load(pool + p, mask=p < size, other=0)
    taken = is_seen(seen, tl.load(users + b).to(tl.int64), item, p < size)
    tl.store(scores + b * size + p, p.to(tl.float32) * 0.0 - float("inf"), mask=taken)
