"""One proposal from a law, never an item the user has seen; the building block of every sampler."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from vitalrank.kernels.laws import SIEVE_WORDS
from vitalrank.kernels.rng import LEAN, RESCUE, STREAMS, below, fine_unit, pair, philox, unit

# Sums may be reordered (so that they vectorise), but NaN and infinity keep their meaning.
FAST = {"reassoc", "contract", "nsz"}
# Draws of seen items in a row before the law over what is open is worked out exactly, in O(items).
PATIENCE = 64


@njit(cache=True, fastmath=FAST, **LEAN)
def dot(left: Any, row: Any, right: Any, other: Any) -> Any:
    """Inner product of ``left[row]`` and ``right[other]``."""
    total = np.float32(0.0)
    for f in range(left.shape[1]):
        total += left[row, f] * right[other, f]
    return total


@njit(inline="always", cache=True, **LEAN)
def is_seen(seen: Any, user: Any, item: Any) -> Any:
    """Whether the user has touched the item."""
    word = seen.sieve[user, (item >> 6) % SIEVE_WORDS]
    if (word >> np.uint64(item & 63)) & np.uint64(1) == 0:
        return False
    start = seen.indptr[user]
    size = seen.indptr[user + 1] - start
    while size > 1:  # binary search without a branch to guess
        half = size >> 1
        start += half if seen.items[start + half] <= item else 0
        size -= half
    return seen.items[start] == item


@njit(inline="always", cache=True, **LEAN)
def any_item(law: Any, word: Any) -> Any:
    """An item of the pool, all alike."""
    place = below(word, law.size)
    return place if len(law.listed) == 0 else np.int64(law.listed[place])


@njit(inline="always", cache=True, **LEAN)
def reject_sample(law: Any, item: Any, words: Any, place: Any, turn: Any) -> Any:
    """Algorithm 1: an item that tends to weigh more than ``item``, and the next turn."""
    level = law.level[item]
    chosen = np.int64(-1)
    heaviest = np.float32(-1.0)
    accepted = False
    last = turn + law.shots
    while turn < last and not accepted:
        a, b = pair(words, place, turn)
        turn += 1
        candidate = any_item(law, a)
        weight = law.level[candidate]
        accepted = unit(b) * level < weight
        if accepted or weight > heaviest:
            chosen = candidate
            heaviest = weight
    return chosen, turn


@njit(inline="always", cache=True, **LEAN)
def limit_sample(law: Any, item: Any, words: Any, place: Any, turn: Any) -> Any:
    """The limit of Algorithm 1 for many shots, drawn exactly: a uniform block plus a block by weight."""
    a, b = pair(words, place, turn)
    first = law.first_class[item]
    last = len(law.starts) - 1
    if first == last:
        return any_item(law, a), turn + 1
    start = np.int32(0)
    stop = law.starts[first]
    level = np.float64(law.level[item])
    point = unit(b) * (stop + (law.mass[last] - law.mass[first]) / level)
    if point >= stop:
        k = class_at(law, law.mass[first] + (point - stop) * level)
        start = law.starts[k]
        stop = law.starts[k + 1]
    return np.int64(law.ranked[start + below(a, stop - start)]), turn + 1


@njit(inline="always", cache=True, **LEAN)
def class_at(law: Any, point: Any) -> Any:
    """The class in which a point of the mass lies."""
    last = len(law.starts) - 2
    k = law.guide[min(np.int64(point / law.mass[last + 1] * len(law.guide)), len(law.guide) - 1)]
    while k < last and law.mass[k + 1] <= point:
        k += 1
    return k


@njit(cache=True, **LEAN)
def _power(base: Any, exponent: Any) -> Any:
    result = 1.0
    for _ in range(exponent):
        result *= base
    return result


@njit(cache=True, **LEAN)
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
    found = -1
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
                    found = candidate
    return total, found


@njit(cache=True)
def law_mass(law: Any, seen: Any, item: Any) -> Any:
    """Probability of every item, given the positive item, before seen items are left out."""
    mass = np.zeros(len(law.level), np.float64)  # (n,)
    _spread(law, seen, -1, item, np.inf, mass)
    return mass


@njit(cache=True, **LEAN)
def rescue(law: Any, seen: Any, user: Any, item: Any, place: Any, turn: Any) -> Any:
    """One draw from the law over the open items alone, in O(items): for users who have seen nearly all."""
    seed, step, row, stream = place
    a, b, _, _ = philox(seed, step, row, turn, stream + RESCUE)
    nowhere = law.mass[:0]
    total, _ = _spread(law, seen, user, item, np.inf, nowhere)
    _, candidate = _spread(law, seen, user, item, total * fine_unit(a, b), nowhere)
    return np.int64(candidate)


@njit(inline="always", cache=True, **LEAN)
def propose(law: Any, seen: Any, user: Any, item: Any, words: Any, place: Any, turn: Any) -> Any:
    """An item the user has not seen, and the next turn; the user must have an open item."""
    for _ in range(PATIENCE):
        if law.shots > 0:
            candidate, turn = reject_sample(law, item, words, place, turn)
        else:
            candidate, turn = limit_sample(law, item, words, place, turn)
        if not is_seen(seen, user, candidate):
            return candidate, turn
    return rescue(law, seen, user, item, place, turn), turn


@njit(inline="always", cache=True, **LEAN)
def place_of(counter: Any, row: Any, purpose: Any, index: Any) -> Any:
    """Where the words of a row's ``index``-th negative begin."""
    return counter.seed, counter.step, counter.rows[row], purpose + STREAMS * index
