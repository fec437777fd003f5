"""A synthetic log with known structure: long tails, latent tastes that drift, trends, and optional item sequences."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.checks import MOST_SEED, to_int
from vitalrank.errors import SettingError
from vitalrank.interactions import Interactions

TASTES = 16
PERIODS = 6
YEAR = 365 * 86_400
START = 1_600_000_000  # unix seconds


def synthetic(
    users: int = 2000, items: int = 1500, interactions: int = 60_000, seed: int = 0, sequence: float = 0.0
) -> Interactions:
    """Make a log in which there is something to learn.

    Each item has a long-tailed popularity and belongs mostly to a few of 16 latent tastes; each user mixes a few
    tastes, drifts from one mixture to another, and follows the trends of the period. Popular items of the wrong taste
    are then easy negatives, those of a half-liked taste hard ones, and a sampler that finds the hard ones gains.

    Parameters
    ----------
    users, items, interactions
        The exact size of the log; interactions are distinct pairs.
    seed
        The same seed gives the same log.
    sequence
        Share of steps in which a user goes on to the fixed successor of the item before.

    Examples
    --------
    >>> synthetic(users=50, items=40, interactions=500, seed=1)
    Interactions(50 users, 40 items, 500 rows)
    """
    _check(users, items, interactions, sequence)
    rng = np.random.default_rng(to_int("seed", seed, least=0, most=MOST_SEED))
    degree = _degrees(rng, users, items, interactions)  # (U,)
    user = np.repeat(np.arange(users), degree)  # (N,)
    when = _moments(rng, user, users)  # (N,) in [0, 1), rising within a user
    item = _choices(rng, user, when, users, items)
    if sequence:
        item = _follow(rng, item, degree, items, sequence)
    _give_every_item_a_row(rng, item, items)
    return Interactions.from_arrays(user, item, times=(START + 3 * YEAR * when).astype(np.int64))


def _check(users: int, items: int, interactions: int, sequence: float) -> None:
    if min(users, items, interactions) < 1:
        raise SettingError("synthetic: users, items and interactions must be at least 1.")
    if interactions < max(users, items):
        raise SettingError(f"synthetic: {interactions:,} interactions cannot reach every user and item; ask for more.")
    if interactions > users * items // 2:
        raise SettingError(f"synthetic: {interactions:,} interactions fill over half of the table; ask for fewer.")
    if not 0 <= sequence <= 1:
        raise SettingError(f"synthetic(sequence={sequence!r}): give a number from 0 to 1.")


def _degrees(rng: np.random.Generator, users: int, items: int, interactions: int) -> NDArray[np.int64]:
    """Log-normal shares over a floor, none above three quarters of the items, summing exactly."""
    least, most = min(5, interactions // users), max(items * 3 // 4, 1)
    share = rng.lognormal(0.0, 0.9, users)
    degree = np.full(users, min(least, most), np.int64)
    while (left := interactions - int(degree.sum())) > 0:
        is_below = degree < most
        degree += rng.multinomial(left, share * is_below / (share * is_below).sum())
        np.minimum(degree, most, out=degree)
    return degree


def _moments(rng: np.random.Generator, user: NDArray[np.int64], users: int) -> NDArray[np.float64]:
    """Users join at different moments and stay for different spans."""
    joined = rng.uniform(0.0, 0.6, users)
    span = rng.uniform(0.3, 1.0, users) * (1.0 - joined)
    when = joined[user] + span[user] * rng.random(len(user))
    return np.asarray(np.sort(user + when) - user)


def _choices(
    rng: np.random.Generator, user: NDArray[np.int64], when: NDArray[np.float64], users: int, items: int
) -> NDArray[np.int64]:
    """One item for every row, never twice for one user."""
    early = rng.dirichlet(np.full(TASTES, 0.05), users)
    late = 0.7 * early + 0.3 * rng.dirichlet(np.full(TASTES, 0.05), users)
    choice = _ItemDistributions(rng, items)
    period = (when * PERIODS).astype(np.int64)
    item = np.full(len(user), -1)
    open_rows = np.arange(len(user))
    for attempt in range(1000):
        who, at = user[open_rows], when[open_rows]
        mixture = np.where((rng.random(len(who)) < at)[:, None], late[who], early[who])  # (rows, T)
        taste = (mixture.cumsum(1) < rng.random((len(who), 1))).sum(1).clip(max=TASTES - 1)
        # A user who has run through the favourites takes what is left.
        by_taste = attempt < 12
        item[open_rows] = choice.draw(rng, period[open_rows], taste) if by_taste else rng.integers(items, size=len(who))
        repeated = np.ones(len(user), np.bool_)
        repeated[np.unique(user * items + item, return_index=True)[1]] = False
        open_rows = np.flatnonzero(repeated)
        if not len(open_rows):
            break
    return item


class _ItemDistributions:
    """For each period and taste, a distribution over items."""

    def __init__(self, rng: np.random.Generator, items: int) -> None:
        self.items = items
        self.popularity = -np.log(8.0 + rng.permutation(items))  # (I,)
        belongs = rng.dirichlet(np.full(TASTES, 0.05), items).T  # (T, I) mostly one or two tastes an item
        self.affinity = np.log(0.001 + belongs) + 1.2 * rng.standard_normal((TASTES, items))
        fashion = rng.normal(0.0, 0.2, (PERIODS, items)).cumsum(0)
        born = rng.integers(-2 * PERIODS, PERIODS, items)
        self.fashion = np.where(np.arange(PERIODS)[:, None] < born, fashion - 4.0, fashion)

    def draw(self, rng: np.random.Generator, period: NDArray[np.int64], taste: NDArray[np.int64]) -> NDArray[np.int64]:
        chosen = np.empty(len(taste), np.int64)
        for now in range(PERIODS):
            rows = np.flatnonzero(period == now)
            weight = np.exp(self.popularity + self.affinity + self.fashion[now])  # (T, I)
            ends = (weight / weight.sum(1, keepdims=True)).cumsum(1) + np.arange(TASTES)[:, None]
            flat = np.searchsorted(ends.ravel(), taste[rows] + rng.random(len(rows)))
            chosen[rows] = (flat - taste[rows] * self.items).clip(0, self.items - 1)
        return chosen


def _follow(
    rng: np.random.Generator, item: NDArray[np.int64], degree: NDArray[np.int64], items: int, share: float
) -> NDArray[np.int64]:
    """Put the successor of the item before in its place, in the given share of steps, never twice for one user."""
    cycle = rng.permutation(items)
    successor = np.empty(items, np.int64)
    successor[cycle] = np.roll(cycle, -1)
    starts = np.concatenate([[0], np.cumsum(degree)[:-1]])
    out = item.copy()
    for users in np.array_split(np.argsort(degree, kind="stable"), -(-len(degree) // 512)):
        width = degree[users].max()
        inside = np.arange(width) < degree[users, None]
        flat = (starts[users, None] + np.arange(width))[inside]
        rows = np.full(inside.shape, -1)
        rows[inside] = item[flat]
        for step in range(1, width):
            self_chosen = rng.random(len(users)) >= share
            wanted = np.where(self_chosen | ~inside[:, step], -2, successor[rows[:, step - 1]])
            _place(rows, wanted, step)
        out[flat] = rows[inside]
    return out


def _place(rows: NDArray[np.int64], wanted: NDArray[np.int64], step: int) -> None:
    """Set ``rows[:, step]`` to the wanted item, unless it lies behind (kept as is) or ahead (swapped)."""
    hits = rows == wanted[:, None]  # (users, width)
    held, place = hits.any(1), hits.argmax(1)
    ahead = np.flatnonzero(held & (place > step))
    rows[ahead, place[ahead]] = rows[ahead, step]
    fresh = np.concatenate([ahead, np.flatnonzero(~held & (wanted >= 0))])
    rows[fresh, step] = wanted[fresh]


def _give_every_item_a_row(rng: np.random.Generator, item: NDArray[np.int64], items: int) -> None:
    """Items that nobody drew take over rows of items that have others."""
    first = np.unique(item, return_index=True)[1]
    absent = np.setdiff1d(np.arange(items), item[first])
    spare = np.setdiff1d(np.arange(len(item)), first)
    item[rng.choice(spare, len(absent), replace=False)] = absent
