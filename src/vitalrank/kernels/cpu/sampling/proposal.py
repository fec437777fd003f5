"""One draw from a proposal distribution, never an item the user has seen; the building block of every sampler."""

from __future__ import annotations

from typing import Any

import numpy as np

from vitalrank.kernels.compiling import LEAN, njit
from vitalrank.kernels.cpu.sampling.fallback import exact_fallback
from vitalrank.kernels.cpu.sampling.rejection import item_at, load_candidates, load_words, reject_sample
from vitalrank.kernels.cpu.sampling.seen import is_seen
from vitalrank.kernels.rng import PAIRS, STREAMS, below, unit, word_pair

PATIENCE = 64  # seen items drawn in a row before the exact fallback


@njit(inline="always", cache=True, **LEAN)
def counter_prefix(counter: Any, row: Any, purpose: Any, index: Any) -> Any:
    """The part of the random counter that all words of a row's ``index``-th negative share."""
    return counter.seed, counter.step, counter.rows[row], purpose + STREAMS * index


@njit(inline="always", cache=True, **LEAN)
def uniform_item(proposal: Any, word: Any) -> Any:
    """An item of the pool with equal probability."""
    return item_at(proposal, below(word, proposal.size))


@njit(inline="always", cache=True, **LEAN)
def limit_sample(proposal: Any, item: Any, a: Any, b: Any) -> Any:
    """The limit of Algorithm 1 for many shots, drawn exactly: a mixture of a uniform part and a part by weight."""
    if proposal.is_uniform:
        return uniform_item(proposal, a)
    first = proposal.first_class[item]
    last = len(proposal.starts) - 1
    if first == last:
        return uniform_item(proposal, a)
    start = np.int32(0)
    stop = proposal.starts[first]
    accept_weight = np.float64(proposal.accept_weight[item])
    point = unit(b) * (stop + (proposal.mass[last] - proposal.mass[first]) / accept_weight)
    if point >= stop:
        k = class_at(proposal, proposal.mass[first] + (point - stop) * accept_weight)
        start = proposal.starts[k]
        stop = proposal.starts[k + 1]
    return np.int64(proposal.by_weight[start + below(a, stop - start)])


@njit(inline="always", cache=True, **LEAN)
def class_at(proposal: Any, point: Any) -> Any:
    """The class at a point of the cumulative mass."""
    last = len(proposal.starts) - 2
    k = proposal.guide[min(np.int64(point / proposal.mass[last + 1] * len(proposal.guide)), len(proposal.guide) - 1)]
    while k < last and proposal.mass[k + 1] <= point:
        k += 1
    return k


@njit(inline="always", cache=True, **LEAN)
def load_draws(proposal: Any, item: Any, buffer: Any, prefix: Any, draw: Any) -> None:
    """Load what ``sample`` reads around a draw index: random words or, for Algorithm 1, candidates."""
    if proposal.shots > 0:
        load_candidates(proposal, item, buffer, prefix, draw)
    else:
        load_words(buffer, prefix, draw)


@njit(inline="always", cache=True, **LEAN)
def sample(proposal: Any, item: Any, buffer: Any, prefix: Any, draw: Any) -> Any:
    """One item from the proposal, seen or not, and the next draw index."""
    if proposal.shots > 0:
        return reject_sample(proposal, item, buffer, prefix, draw)
    if (draw & (PAIRS - 1)) == 0:
        load_words(buffer, prefix, draw)
    a, b = word_pair(buffer.words, draw)
    return limit_sample(proposal, item, a, b), draw + 1


@njit(inline="always", cache=True, **LEAN)
def propose(proposal: Any, seen: Any, user: Any, item: Any, buffer: Any, prefix: Any, draw: Any, patience: Any) -> Any:
    """An unseen item, and the next draw index; the user must have an unseen item.

    A caller that starts inside a block of draws calls ``load_draws`` first.
    """
    for _ in range(patience):
        candidate, draw = sample(proposal, item, buffer, prefix, draw)
        if not is_seen(seen, user, candidate):
            return candidate, draw
    return exact_fallback(proposal, seen, user, item, prefix, draw), draw
