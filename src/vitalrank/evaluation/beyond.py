"""Metrics beyond accuracy, accumulated over blocks of lists, so that the lists need not be kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.typing import Array
from vitalrank.distributed.process_group import ProcessGroup
from vitalrank.errors import SettingError
from vitalrank.evaluation.grouping import popularity_band
from vitalrank.interactions import Interactions
from vitalrank.interactions.stats import gini
from vitalrank.metrics import calibration, novelty, serendipity
from vitalrank.metrics.beyond import pair_distances, unit_rows
from vitalrank.ranking.scorers import Scorer
from vitalrank.ranking.top_n import top_items

NO_LISTS = np.empty((0, 0), np.int32)


class BeyondAccuracy:
    """What the metrics of ``metrics.BEYOND`` need, gathered from blocks of lists.

    Parameters
    ----------
    names
        Names out of ``metrics.BEYOND``; others are ignored.
    lengths
        Lengths of the lists.
    train, exclude
        The training log, and more logs whose items are left out of the lists.
    users
        Internal ids of the users whose lists will come.
    categories
        One label, or a list of labels, for each item; None takes the three bands of popularity.
    """

    def __init__(
        self,
        names: Sequence[str],
        lengths: Sequence[int],
        train: Interactions,
        exclude: Sequence[Interactions],
        users: Array,
        categories: Sequence[Any] | None = None,
    ) -> None:
        self._train, self._users = train, users
        wanted = [name for name in names if name in _PER_USER]
        self.per_user = {f"{name}@{n}": np.zeros(len(users)) for n in lengths for name in wanted}
        self._shown = {n: np.zeros(train.n_items, np.int64) for n in lengths} if "gini" in names else {}
        self._unit: Any = unit_rows(train.csr) if "diversity" in names else None
        self._shares: Any = category_shares(categories, train) if "calibration" in names else None
        self._expected = NO_LISTS
        if "serendipity" in names:
            longest = min(max(lengths), train.n_items)
            self._expected = top_items(_Popular(train), users, longest, exclude=exclude)[0].astype(np.int32)

    def add(self, rows: slice, items: Array, hits: Array) -> None:
        """Take a block of lists (B, N) of internal ids, -1 where empty, and which of their places hit."""
        for n, counts in self._shown.items():
            top = items[:, :n]
            counts += np.bincount(top[top >= 0], minlength=len(counts))
        for name in self.per_user:
            metric, _, length = name.partition("@")
            n = int(length)
            self.per_user[name][rows] = _PER_USER[metric](self, rows, items[:, :n], hits[:, :n], n)

    def join(self, group: ProcessGroup) -> None:
        """Bring together what the ranks of a group have gathered, each of its own users."""
        self.per_user = {name: group.all_gather_rows(values) for name, values in self.per_user.items()}
        self._shown = {n: group.all_gather_rows(counts[None]).sum(0) for n, counts in self._shown.items()}

    @property
    def together(self) -> dict[str, float]:
        """Values of the lists together, by name."""
        return {f"gini@{n}": gini(counts) for n, counts in self._shown.items()}

    def _novelty(self, rows: slice, items: Array, hits: Array, length: int) -> Array:
        return novelty(items, self._train.item_degree, self._train.n_users)

    def _diversity(self, rows: slice, items: Array, hits: Array, length: int) -> Array:
        return pair_distances(items, self._unit)

    def _calibration(self, rows: slice, items: Array, hits: Array, length: int) -> Array:
        return calibration(items, self._train.csr[self._users[rows]], self._shares)

    def _serendipity(self, rows: slice, items: Array, hits: Array, length: int) -> Array:
        top = self._expected[rows, :length]
        first = np.arange(len(items))[:, None] * self._train.n_items  # each user's items get numbers of their own
        return serendipity(hits, np.isin(items + first, (top + first)[top >= 0]), length)


_PER_USER = {
    "novelty": BeyondAccuracy._novelty,
    "diversity": BeyondAccuracy._diversity,
    "serendipity": BeyondAccuracy._serendipity,
    "calibration": BeyondAccuracy._calibration,
}


def category_shares(categories: Sequence[Any] | None, train: Interactions) -> NDArray[np.float64]:
    """The share of each category in each item, as ``(I, G)``; a row of zeros where an item has none.

    Examples
    --------
    >>> log = Interactions.from_arrays([1, 1, 2], ["x", "y", "z"])
    >>> category_shares(["tea", ["tea", "mugs"], ""], log).tolist()
    [[0.0, 1.0], [0.5, 0.5], [0.0, 0.0]]
    """
    if categories is None:
        return np.asarray(np.eye(3)[popularity_band(train)], np.float64)
    if isinstance(categories, str) or len(categories) != train.n_items:
        given = repr(categories) if isinstance(categories, str) else f"{len(categories)} labels"
        raise SettingError(
            f"categories is {given} for {train.n_items} items; give one label per item of train.item_ids, '' for none."
        )
    labels = [[one] if isinstance(one, str) or not np.iterable(one) else list(one) for one in categories]
    labels = [sorted({str(label) for label in one if label is not None and label != ""}) for one in labels]
    names = {name: place for place, name in enumerate(sorted({name for one in labels for name in one}))}
    if not names:
        raise SettingError("categories names no category; give one label per item of train.item_ids.")
    shares = np.zeros((train.n_items, len(names)))
    for row, one in enumerate(labels):
        shares[row, [names[name] for name in one]] = 1 / max(1, len(one))
    return shares


class _Popular(Scorer):
    """The primitive method: the items with the most training interactions."""

    def __init__(self, train: Interactions) -> None:
        self._train = train
        self._degree = train.item_degree.astype(np.float32)

    @property
    def train(self) -> Interactions:
        return self._train

    def scores(self, users: Array, start: int, stop: int) -> NDArray[np.float32]:
        return np.tile(self._degree[start:stop], (len(users), 1))

    def history_scores(self, items: Array) -> NDArray[np.float32]:
        return self._degree

    def similarities(self, item: int) -> NDArray[np.float32]:
        return self._degree

    def contributions(self, items: Array, item: int) -> NDArray[np.float64]:
        return np.zeros(len(items))
