"""AOBPR: oversampling of items that rank high for the user, along one factor at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.checks import check_bool, check_count, check_positive, to_builtin_scalars
from vitalrank._util.typing import DeviceArray
from vitalrank.errors import SettingError
from vitalrank.kernels import cpu
from vitalrank.samplers.backends import ArrayBackend
from vitalrank.samplers.base import BoundSampler
from vitalrank.samplers.draws import Draw, SampleRequest
from vitalrank.samplers.full_scores import full_scan_weights, score_blocks
from vitalrank.samplers.refreshing import RefreshedByEpoch, copy_in_place
from vitalrank.samplers.settings import Sampler


@dataclass(frozen=True)
class AOBPR(Sampler):
    """Adaptive oversampling (AOBPR): an item by its rank, ``p(r) ~ exp(-r / (rho n))``.

    The rank is taken along one factor f, drawn with ``p(f | u) ~ |q_uf| sigma_f`` (sigma: the standard deviation of
    the factor over the items), descending where ``q_uf > 0`` and ascending otherwise. Seen items are redrawn.

    Read the plain definition first: ``tests/reference/ranked.py``.

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
        return BoundExactRank if self.exact else BoundFactorRank


class BoundExactRank(BoundSampler):
    """Ranks by the full scores of the user's unseen items."""

    settings: AOBPR

    graph_capturable = False  # all scores of a request, block by block, are too much to hold ready for a replay

    @property
    def scale(self) -> float:
        """``rho n``, the expected rank."""
        return float(self.settings.rho * max(len(self.pool), 1))

    def _draw(self, request: SampleRequest) -> Draw:
        backend = request.backend
        ids = backend.full((len(request), request.k), -1, np.int64)
        (seen, users), pool = self._seen(request), backend.cached_to_device(self.pool)
        for part, counter, scores in score_blocks(request, self.pool):
            backend.kernels.pick_unseen_rank(scores, pool, self.scale, seen, counter, users[part], ids[part])
        return Draw(ids, *full_scan_weights(request, self.pool, ids))


class BoundFactorRank(RefreshedByEpoch, BoundExactRank):
    """Ranks along single factors, from a sorting that is renewed now and then; a scorer alone is ranked in full."""

    graph_capturable = True

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._order: Any = np.zeros((0, 0), np.int32)  # (d, m)
        self._spread: Any = np.zeros(0)  # (d,)

    def _draw(self, request: SampleRequest) -> Draw:
        if not request.has_vectors:
            return super()._draw(request)
        backend = request.backend
        ids = backend.full((len(request), request.k), -1, np.int64)
        if len(self.pool):
            seen, users = self._seen(request)
            backend.kernels.draw_ranked(
                self._order, self._spread, self.scale, seen, request.counter, request.queries, users, ids
            )
        return Draw(ids, *backend.unit_weights(ids, each=1))

    def _refresh_interval(self, draws: int) -> int:
        size = max(len(self.pool), 2)
        return self.settings.refresh or max(1, round(size * math.log(size) / max(draws, 1)))

    def _rebuild(self, backend: ArrayBackend, table: DeviceArray, step: int) -> None:
        pool = backend.cached_to_device(self.pool)
        columns = table[pool].T  # (d, m)
        self._order = copy_in_place(self._order, backend.cast(pool[backend.argsort_rows(-columns)], np.int32))
        apart = backend.cast(columns, np.float64)
        self._spread = copy_in_place(self._spread, ((apart - apart.mean(1)[:, None]) ** 2).mean(1) ** 0.5)

    def probabilities(self, query: NDArray[np.float32], table: NDArray[np.float32]) -> NDArray[np.float64]:
        """Probability of every item for one query, before seen items are left out."""  # (n,)
        columns = table[self.pool].T
        order = self.pool[np.argsort(-columns, axis=1, kind="stable")].astype(np.int32)
        spread = columns.std(axis=1, dtype=np.float64)
        mass = cpu.ranked_mass(order, np.asarray(query, np.float32)[None], 0, spread, self.scale, self.train.n_items)
        return np.asarray(mass)
