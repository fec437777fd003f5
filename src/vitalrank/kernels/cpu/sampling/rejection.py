"""Algorithm 1 (RejectSampler): accept/reject of uniform candidates, several at once in vector registers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vitalrank.kernels.compiling import INNER, LEAN, njit
from vitalrank.kernels.cpu.runtime.intrinsics import lowest_bit
from vitalrank.kernels.cpu.sampling.simd import accept_reject, fill_words
from vitalrank.kernels.rng import LANES, PAIRS, below, new_words, philox

BUFFERED = 2 * PAIRS  # candidates that a buffer holds


class DrawBuffer(NamedTuple):
    """Random words around a draw index, or, for Algorithm 1, the candidates around it and before it."""

    words: NDArray[np.uint64]  # (4, LANES)
    positions: NDArray[np.int64]  # (BUFFERED,) in the pool; that of draw ``n`` is at ``n % BUFFERED``
    weights: NDArray[np.float32]  # (BUFFERED,)
    accepted: NDArray[np.uint64]  # (1,) a bit mask over the last PAIRS candidates


def new_draw_buffer() -> DrawBuffer:
    """An empty buffer."""
    return DrawBuffer(new_words(), np.empty(BUFFERED, np.int64), np.empty(BUFFERED, np.float32), np.empty(1, np.uint64))


@njit(inline="always", cache=True, **LEAN)
def item_at(proposal: Any, position: Any) -> Any:
    """The item at a position of the pool."""
    return position if len(proposal.pool) == 0 else np.int64(proposal.pool[position])


@njit(inline="always", cache=True, **LEAN)
def load_words(buffer: Any, prefix: Any, draw: Any) -> None:
    """Load the random words around a draw index."""
    seed, step, row, stream = prefix
    fill_words(seed, step, row, stream, (draw // PAIRS) * LANES, buffer.words)


@njit(inline="always", cache=True, **LEAN)
def load_candidates(proposal: Any, item: Any, buffer: Any, prefix: Any, draw: Any) -> None:
    """Accept or reject all PAIRS candidates around a draw index: quicker than one by one until the first accepted."""
    seed, step, row, stream = prefix
    accept_weight = np.float64(proposal.accept_weight[item])
    at = draw & (BUFFERED - PAIRS)
    positions, weights = buffer.positions[at:], buffer.weights[at:]
    buffer.accepted[0] = accept_reject(
        seed, step, row, stream, (draw // PAIRS) * LANES, proposal.size, accept_weight, proposal.pool_accept_weight,
        positions, weights,
    )  # fmt: skip


@njit(inline="always", cache=True, **LEAN)
def reject_sample(proposal: Any, item: Any, buffer: Any, prefix: Any, draw: Any) -> Any:
    """Algorithm 1: an item accepted by its weight relative to ``item``'s, and the next draw index."""
    last = draw + proposal.shots
    at = draw
    while at < last:
        shot = at & (PAIRS - 1)
        if shot == 0:
            load_candidates(proposal, item, buffer, prefix, at)
        accepted = buffer.accepted[0] >> np.uint64(shot)
        if accepted != 0:
            at += np.int64(lowest_bit(accepted))
            break
        at += PAIRS - shot
    if at < last:
        position = buffer.positions[at & (BUFFERED - 1)]
        last = at + 1
    elif proposal.shots <= BUFFERED - PAIRS:
        position = _heaviest(buffer.positions, buffer.weights, draw, last)
    else:
        position = _heaviest_redrawn(proposal.pool_accept_weight, prefix, draw, last)
    return item_at(proposal, position), last


@njit(cache=True, **INNER)
def _heaviest(positions: Any, weights: Any, first: Any, last: Any) -> Any:
    """The position of the heaviest buffered candidate, the first of equals."""
    heaviest = first
    most = weights[first & (BUFFERED - 1)]
    for draw in range(first + 1, last):
        weight = weights[draw & (BUFFERED - 1)]
        heaviest = draw if weight > most else heaviest  # no branch to mispredict
        most = max(weight, most)
    return positions[heaviest & (BUFFERED - 1)]


@njit(cache=True, **INNER)
def _heaviest_redrawn(pool_accept_weight: Any, prefix: Any, first: Any, last: Any) -> Any:
    """The same for more candidates than the buffer holds: they are drawn again."""
    seed, step, row, stream = prefix
    heaviest = np.int64(-1)
    for draw in range(first, last):
        a, _, c, _ = philox(seed, step, row, draw >> 1, stream)
        position = below(c if draw & 1 else a, len(pool_accept_weight))
        if heaviest < 0 or pool_accept_weight[position] > pool_accept_weight[heaviest]:
            heaviest = position
    return heaviest
