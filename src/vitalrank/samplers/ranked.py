"""AOBPR: oversampling of items that rank high for the user, along one factor at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.checks import check_bool, check_count, check_positive, to_builtin_scalars
from vitalrank.errors import SettingError
from vitalrank.kernels import cpu
from vitalrank.samplers.backends import Arrays
from vitalrank.samplers.base import Batch, BoundSampler, Draw, Sampler
from vitalrank.samplers.refreshing import RefreshedByEpoch, copy_in_place
from vitalrank.samplers.whole_pool import drawn_of_all, scored_blocks


@dataclass(frozen=True)
class AOBPR(Sampler):
    """Adaptive oversampling (AOBPR): an item by its rank, ``p(r) ~ exp(-r / (rho n))``.

    The rank is taken along one factor f, drawn with ``p(f | u) ~ |q_uf| sigma_f`` (sigma: the standard deviation of
    the factor over the items), descending where ``q_uf > 0`` and ascending otherwise. Seen items are redrawn.

    Parameters
    ----------
    rho
        Expected rank as a share of the catalogue.
    refresh
        Steps between two sortings of the factors; None sorts every ``n ln n`` draws, as published.
        Not with ``exact``.
    exact
        Rank by the user's full scores instead of one factor: O(n) a row. A ``score=`` without vectors does so too.

    References
    ----------
    Rendle and Freudenthaler, "Improving pairwise learning for item recommendation from implicit feedback", WSDM 2014.

    Examples
    --------
    >>> import numpy as np, vitalrank as vr
    >>> log = vr.Interactions.from_arrays([0, 1, 1], [0, 1, 2])
    >>> table = np.array([[0.0], [1.0], [9.0]])
    >>> vr.AOBPR(rho=0.01).bind(log, seed=0)([[1.0]], table, [0], [0]).ids.tolist()
    [[2]]
    """

    rho: float = 0.1
    refresh: int | None = None
    exact: bool = False

    def __post_init__(self) -> None:
        to_builtin_scalars(self)
        check_positive("rho", self.rho)
        if self.refresh is not None:
            check_count("refresh", self.refresh)
        check_bool("exact", self.exact)
        if self.exact and self.refresh is not None:
            raise SettingError(f"refresh is {self.refresh}, but exact=True sorts no factors; leave out one of them.")

    def _bound(self) -> type[BoundSampler]:
        return BoundExactRank if self.exact else BoundRanked


class BoundExactRank(BoundSampler):
    """Ranks by the full scores of the user's open items."""

    graph_capturable = False  # all scores of a batch, block by block, are too much to hold ready for a replay

    @property
    def scale(self) -> float:
        """``rho n``, the expected rank."""
        return float(self.settings.rho * max(len(self.pool), 1))

    def _draw(self, batch: Batch) -> Draw:
        arrays = batch.arrays
        ids = arrays.full((len(batch), batch.k), -1, np.int64)
        pool, seen = arrays.hold(self.pool), arrays.hold(self.seen)
        for part, counter, scores in scored_blocks(batch, self.pool):
            arrays.kernels.pick_open_rank(scores, pool, self.scale, seen, counter, batch.users[part], ids[part])
        return Draw(ids, *drawn_of_all(batch, self.pool, ids))


class BoundRanked(RefreshedByEpoch, BoundExactRank):
    """Ranks along single factors, from a sorting that is renewed now and then; a scorer alone is ranked in full."""

    graph_capturable = True

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._order: Any = np.zeros((0, 0), np.int32)  # (d, m)
        self._spread: Any = np.zeros(0)  # (d,)

    def _draw(self, batch: Batch) -> Draw:
        if not batch.has_vectors:
            return super()._draw(batch)
        arrays = batch.arrays
        ids = arrays.full((len(batch), batch.k), -1, np.int64)
        if len(self.pool):
            seen = arrays.hold(self.seen)
            arrays.kernels.draw_ranked(
                self._order, self._spread, self.scale, seen, batch.counter, batch.queries, batch.users, ids
            )
        return Draw(ids, *arrays.drawn(ids, each=1))

    def _every(self, draws: int) -> int:
        size = max(len(self.pool), 2)
        return self.settings.refresh or max(1, round(size * math.log(size) / max(draws, 1)))

    def _build(self, arrays: Arrays, table: Any, step: int) -> None:
        pool = arrays.hold(self.pool)
        columns = table[pool].T  # (d, m)
        self._order = copy_in_place(self._order, arrays.cast(pool[arrays.ascending(-columns)], np.int32))
        apart = arrays.cast(columns, np.float64)
        self._spread = copy_in_place(self._spread, ((apart - apart.mean(1)[:, None]) ** 2).mean(1) ** 0.5)

    def law(self, query: NDArray[np.float32], table: NDArray[np.float32]) -> NDArray[np.float64]:
        """Probability of every item for one query, before seen items are left out."""  # (n,)
        columns = table[self.pool].T
        order = self.pool[np.argsort(-columns, axis=1, kind="stable")].astype(np.int32)
        spread = columns.std(axis=1, dtype=np.float64)
        mass = cpu.ranked_mass(order, np.asarray(query, np.float32)[None], 0, spread, self.scale, self.train.n_items)
        return np.asarray(mass)
