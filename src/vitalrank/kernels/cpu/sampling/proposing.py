"""One proposal from a law, never an item the user has seen; the building block of every sampler."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from vitalrank.kernels.compiling import FAST, INNER, LEAN
from vitalrank.kernels.cpu.runtime.intrinsics import lowest_bit, prefetch_line
from vitalrank.kernels.cpu.sampling.bloom import ask_for_words, is_marked
from vitalrank.kernels.cpu.sampling.simd import fill_words, fire_shots
from vitalrank.kernels.rng import (
    LANES,
    PAIRS,
    RESCUE,
    STREAMS,
    below,
    fine_unit,
    new_words,
    philox,
    unit,
    word_pair,
)  # fmt: skip

# Draws of seen items in a row before the law over what is open is worked out exactly, in O(items).
PATIENCE = 64

KEPT = 2 * PAIRS  # shots that a buffer keeps

_AHEAD = 8  # rows
_INDEX = 8  # bytes


@njit(inline="always", cache=True, fastmath=FAST, **LEAN)
def dot(left: Any, row: Any, right: Any, other: Any) -> Any:
    """Inner product of ``left[row]`` and ``right[other]``."""
    total = np.float32(0.0)
    for f in range(left.shape[1]):
        total += left[row, f] * right[other, f]
    return total


@njit(inline="always", cache=True, **LEAN)
def is_seen(seen: Any, user: Any, item: Any) -> Any:
    """Whether the user has touched the item."""
    return is_marked(seen, user, item) and _is_listed(seen.items, seen.indptr[user], seen.indptr[user + 1], item)


@njit(cache=True, **INNER)
def _is_listed(items: Any, start: Any, end: Any, item: Any) -> Any:
    size = end - start
    while size > 1:  # binary search without a branch to guess
        half = size >> 1
        start += half if items[start + half] <= item else 0
        size -= half
    return items[start] == item


@njit(inline="always", cache=True, **LEAN)
def ask_for_sieve(seen: Any, users: Any, r: Any) -> None:
    """Start loading the sieve of the user of row ``r``; where a later user's begins, a little sooner."""
    if r + _AHEAD < len(users):
        prefetch_line(seen.indptr, users[r + _AHEAD] * _INDEX)
    if r < len(users):
        ask_for_words(seen, users[r])


@njit(inline="always", cache=True, **LEAN)
def ask_for_user(seen: Any, user: Any) -> None:
    """Start loading what leads to the sieve of a user."""
    prefetch_line(seen.indptr, user * _INDEX)


@njit(inline="always", cache=True, **LEAN)
def is_full(seen: Any, user: Any) -> Any:
    """Whether the user has no open item left."""
    return seen.any_full and seen.open[user] == 0


@njit(inline="always", cache=True, **LEAN)
def any_item(law: Any, word: Any) -> Any:
    """An item of the pool, all alike."""
    return _item_at(law, below(word, law.size))


@njit(inline="always", cache=True, **LEAN)
def _item_at(law: Any, place: Any) -> Any:
    return place if len(law.listed) == 0 else np.int64(law.listed[place])


class Shots(NamedTuple):
    """The random words around a turn or, if the law rejects, what the shots around it and before it hit."""

    words: NDArray[np.uint64]  # (4, LANES)
    hits: NDArray[np.int64]  # (KEPT,) places in the pool; shot ``turn`` is at ``turn % KEPT``
    weights: NDArray[np.float32]  # (KEPT,)
    accepted: NDArray[np.uint64]  # (1,) a bit for each of the last PAIRS shots


def new_shots() -> Shots:
    """A buffer for ``propose``."""
    return Shots(new_words(), np.empty(KEPT, np.int64), np.empty(KEPT, np.float32), np.empty(1, np.uint64))


@njit(inline="always", cache=True, **LEAN)
def load_shots(law: Any, item: Any, shots: Any, place: Any, turn: Any) -> None:
    """Load what ``sample`` reads around ``turn``: random words or, if the law rejects, shots already judged."""
    if law.shots > 0:
        _judge_shots(law, item, shots, place, turn)
    else:
        _load_words(shots, place, turn)


@njit(inline="always", cache=True, **LEAN)
def _load_words(shots: Any, place: Any, turn: Any) -> None:
    seed, step, row, stream = place
    fill_words(seed, step, row, stream, (turn // PAIRS) * LANES, shots.words)


@njit(inline="always", cache=True, **LEAN)
def _judge_shots(law: Any, item: Any, shots: Any, place: Any, turn: Any) -> None:
    """All shots around ``turn`` at once: that is quicker than one by one until a hit."""
    seed, step, row, stream = place
    level = np.float64(law.level[item])
    at = turn & (KEPT - PAIRS)
    hits, weights = shots.hits[at:], shots.weights[at:]
    shots.accepted[0] = fire_shots(
        seed, step, row, stream, (turn // PAIRS) * LANES, law.size, level, law.pool_level, hits, weights
    )  # fmt: skip


@njit(inline="always", cache=True, **LEAN)
def reject_sample(law: Any, item: Any, shots: Any, place: Any, turn: Any) -> Any:
    """Algorithm 1: an item that tends to weigh more than ``item``, and the next turn."""
    last = turn + law.shots
    at = turn
    while at < last:
        shot = at & (PAIRS - 1)
        if shot == 0:
            _judge_shots(law, item, shots, place, at)
        accepted = shots.accepted[0] >> np.uint64(shot)
        if accepted != 0:
            at += np.int64(lowest_bit(accepted))
            break
        at += PAIRS - shot
    if at < last:
        hit = shots.hits[at & (KEPT - 1)]
        last = at + 1
    elif law.shots <= KEPT - PAIRS:
        hit = _heaviest(shots.hits, shots.weights, turn, last)
    else:
        hit = _heaviest_of_many(law.pool_level, place, turn, last)
    return _item_at(law, hit), last


@njit(cache=True, **INNER)
def _heaviest(hits: Any, weights: Any, first: Any, last: Any) -> Any:
    """What the heaviest of some shots hit, the first of equals."""
    heaviest = first
    most = weights[first & (KEPT - 1)]
    for turn in range(first + 1, last):
        weight = weights[turn & (KEPT - 1)]
        heaviest = turn if weight > most else heaviest  # no branch: nobody could guess it
        most = max(weight, most)
    return hits[heaviest & (KEPT - 1)]


@njit(cache=True, **INNER)
def _heaviest_of_many(pool_level: Any, place: Any, first: Any, last: Any) -> Any:
    """The same for more shots than are kept: they are fired again."""
    seed, step, row, stream = place
    heaviest = np.int64(-1)
    for turn in range(first, last):
        a, _, c, _ = philox(seed, step, row, turn >> 1, stream)
        hit = below(c if turn & 1 else a, len(pool_level))
        if heaviest < 0 or pool_level[hit] > pool_level[heaviest]:
            heaviest = hit
    return heaviest


@njit(inline="always", cache=True, **LEAN)
def limit_sample(law: Any, item: Any, a: Any, b: Any) -> Any:
    """The limit of Algorithm 1 for many shots, drawn exactly: a uniform block plus a block by weight."""
    if law.is_uniform:
        return any_item(law, a)
    first = law.first_class[item]
    last = len(law.starts) - 1
    if first == last:
        return any_item(law, a)
    start = np.int32(0)
    stop = law.starts[first]
    level = np.float64(law.level[item])
    point = unit(b) * (stop + (law.mass[last] - law.mass[first]) / level)
    if point >= stop:
        k = class_at(law, law.mass[first] + (point - stop) * level)
        start = law.starts[k]
        stop = law.starts[k + 1]
    return np.int64(law.ranked[start + below(a, stop - start)])


@njit(inline="always", cache=True, **LEAN)
def class_at(law: Any, point: Any) -> Any:
    """The class in which a point of the mass lies."""
    last = len(law.starts) - 2
    k = law.guide[min(np.int64(point / law.mass[last + 1] * len(law.guide)), len(law.guide) - 1)]
    while k < last and law.mass[k + 1] <= point:
        k += 1
    return k


@njit(cache=True, **INNER)
def _power(base: Any, exponent: Any) -> Any:
    result = 1.0
    for _ in range(exponent):
        result *= base
    return result


@njit(inline="always", cache=True, **LEAN)
def _spread(law: Any, seen: Any, user: Any, item: Any, target: Any, mass: Any) -> Any:
    """Walk the law of a proposal class by class, lightest first.

    Fills ``mass`` (n,) with the probability of each item if it has room; leaves out what ``user`` has seen
    unless he is -1; returns the total, and the first item at which the running total passes ``target``.
    """
    size = law.size
    level = np.float64(law.level[item])
    classes = len(law.starts) - 1
    head = law.starts[law.first_class[item]]
    accepted = head + (law.mass[classes] - law.mass[law.first_class[item]]) / level  # times 1/size: by one shot
    rejected = 1.0 - accepted / size
    lost = _power(rejected, law.shots) if law.shots > 0 and rejected > 1e-12 else 0.0
    total = 0.0
    found = np.int64(-1)
    lighter = 0.0  # chance that one shot is rejected and lands in a lighter class
    lighter_lost = 0.0
    for k in range(classes - 1, -1, -1):
        start, stop = law.starts[k], law.starts[k + 1]
        accept = 1.0 if start < head else law.weight[k] / level
        each = accept / accepted * (1.0 - lost)
        if lost > 0.0 and accept < 1.0:
            # All shots rejected: the heaviest class among them wins, each of its members alike.
            lighter += (stop - start) * (1.0 - accept) / size
            up_to = _power(lighter, law.shots)
            each += (up_to - lighter_lost) / (stop - start)
            lighter_lost = up_to
        for position in range(start, stop):
            candidate = law.ranked[position]
            if len(mass) > 0:
                mass[candidate] = each
            if user < 0 or not is_seen(seen, user, candidate):
                total += each
                if found < 0 and total > target:
                    found = np.int64(candidate)
    return total, found


@njit(cache=True)
def proposal_mass(law: Any, seen: Any, item: Any) -> Any:
    """Probability of every item, given the positive item, before seen items are left out."""
    mass = np.zeros(len(law.level), np.float64)  # (n,)
    _spread(law, seen, -1, item, np.inf, mass)
    return mass


@njit(cache=True, **INNER)
def rescue(law: Any, seen: Any, user: Any, item: Any, place: Any, turn: Any) -> Any:
    """One draw from the law over the open items alone, in O(items): for users who have seen nearly all."""
    seed, step, row, stream = place
    a, b, _, _ = philox(seed, step, row, turn, stream + RESCUE)
    nowhere = law.mass[:0]
    target, candidate = np.inf, np.int64(-1)
    for _ in range(2):  # first for the total, then for the item; called in one place, it is compiled once
        total, candidate = _spread(law, seen, user, item, target, nowhere)
        target = total * fine_unit(a, b)
    return candidate


@njit(inline="always", cache=True, **LEAN)
def sample(law: Any, item: Any, shots: Any, place: Any, turn: Any) -> Any:
    """An item by the law, seen or not, and the next turn."""
    if law.shots > 0:
        return reject_sample(law, item, shots, place, turn)
    if (turn & (PAIRS - 1)) == 0:
        _load_words(shots, place, turn)
    a, b = word_pair(shots.words, turn)
    return limit_sample(law, item, a, b), turn + 1


@njit(inline="always", cache=True, **LEAN)
def propose(law: Any, seen: Any, user: Any, item: Any, shots: Any, place: Any, turn: Any, patience: Any) -> Any:
    """An item the user has not seen, and the next turn; the user must have an open item.

    Whoever starts at a turn inside a buffer loads the shots around it first.
    """
    for _ in range(patience):
        candidate, turn = sample(law, item, shots, place, turn)
        if not is_seen(seen, user, candidate):
            return candidate, turn
    return rescue(law, seen, user, item, place, turn), turn


@njit(inline="always", cache=True, **LEAN)
def place_of(counter: Any, row: Any, purpose: Any, index: Any) -> Any:
    """Where the words of a row's ``index``-th negative begin."""
    return counter.seed, counter.step, counter.rows[row], purpose + STREAMS * index
