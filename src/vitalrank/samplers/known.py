"""Negatives that are given: dislikes, skips, items that were shown and not taken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vitalrank._util.typing import DeviceArray
from vitalrank.errors import SettingError
from vitalrank.interactions import Interactions
from vitalrank.kernels.rng import PROPOSE
from vitalrank.samplers.base import BoundSampler
from vitalrank.samplers.draws import Draw, SampleRequest
from vitalrank.samplers.settings import Sampler


@dataclass(frozen=True, repr=False, eq=False)
class Known(Sampler):
    """Known negatives: ``q(j | u) = 1 / (number of known negatives of u)``.

    A user without any gets none; ``Mixed(Known(), "uni")`` draws others for them.

    Read the plain definition first: ``tests/reference/given.py``.

    Parameters
    ----------
    log
        The known negatives, by the original ids of the training log; None: those of the training log itself
        (:meth:`vitalrank.Interactions.with_negatives`). A pair that is also a row of the training log is a positive.

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.Interactions.from_arrays(["ann", "bob"], [7, 9])
    >>> disliked = vr.Interactions.from_arrays(["ann"], [9])
    >>> vr.Known(disliked).bind(log)(users=[0, 1], positives=[0, 1]).ids.tolist()
    [[1], [-1]]
    """

    log: Interactions | None = None

    def __repr__(self) -> str:
        # Runs know their sampler by this text, so it tells logs apart.
        return "Known()" if self.log is None else f"Known(log={self.log.fingerprint!r})"

    def _bound(self) -> type[BoundSampler]:
        return BoundKnown


class BoundKnown(BoundSampler):
    """A uniform draw from the user's known negatives in the pool."""

    settings: Known

    needs_scores = False
    fits_blocks = False

    def __init__(self, settings: Known, train: Interactions, *args: Any) -> None:
        super().__init__(settings, train, *args)
        found = (train if settings.log is None else train.with_negatives(settings.log)).negatives.tocoo()
        inside = np.isin(found.col, self.pool)
        users, items = found.row[inside].astype(np.int64), found.col[inside].astype(np.int64)
        if not len(users):
            raise SettingError(
                "no known negative can be drawn: give Known(log), or a training log with_negatives(...), whose users "
                "and items are those of the training log."
            )
        self._keys = np.sort(users * train.n_items + items)  # (M,) sorted pairs
        self._items = self._keys % train.n_items  # (M,)
        self._counts = np.bincount(users, minlength=train.n_users)  # (U,)
        self._starts = np.cumsum(self._counts) - self._counts  # (U,)

    def keep_to_available(self) -> None:
        super().keep_to_available()
        assert self._available is not None
        self._items, self._until = self._available.in_order(self._keys)

    def _of(self, request: SampleRequest, values: DeviceArray) -> DeviceArray:
        """A value of each row's user."""  # (B, 1)
        backend = request.backend
        result: DeviceArray = backend.gather(backend.cached_to_device(values), backend.cast(request.users, np.int64))[
            :, None
        ]
        return result

    def _counts_of(self, request: SampleRequest) -> DeviceArray:
        """How many known negatives each row has, of those that existed then."""  # (B, 1)
        if request.seen is None:
            return self._of(request, self._counts)
        users: Any = request.users
        result: DeviceArray = self._until(users, request.seen.before)[:, None] - self._of(request, self._starts)
        return result

    def _draw(self, request: SampleRequest) -> Draw:
        backend, xp = request.backend, request.backend.xp
        units = backend.empty((len(request), request.k), np.float64)
        backend.kernels.draw_units(request.counter, PROPOSE, units)
        counts, starts = self._counts_of(request), self._of(request, self._starts)
        place = backend.cast(units * counts, np.int64)
        place = xp.where(place < counts, place, counts - 1) + starts
        drawn = (counts > 0) & (units >= 0)  # (B, k)
        ids = xp.where(drawn, backend.gather(backend.cached_to_device(self._items), xp.where(drawn, place, 0)), -1)
        weights, tries = backend.unit_weights(ids, each=1)
        return Draw(ids, weights, tries, self.log_density(request, ids) if request.with_log_q else None)

    def log_density(self, request: SampleRequest, ids: DeviceArray) -> DeviceArray:
        backend, xp = request.backend, request.backend.xp
        keys = backend.cached_to_device(self._keys)
        wanted = backend.cast(request.users, np.int64)[:, None] * self.train.n_items + ids
        place = xp.searchsorted(keys, wanted).clip(0, len(self._keys) - 1)
        counts = backend.cast(self._counts_of(request).clip(1), np.float64)
        known = (backend.gather(keys, place) == wanted) & (ids >= 0)
        if request.seen is not None:
            first_seen: Any = request.seen.first_seen
            known = known & (first_seen[ids] < request.seen.before[:, None])
        log_q = xp.where(known, -xp.log(counts), xp.where(ids >= 0, -np.inf, 0.0))
        result: DeviceArray = backend.cast(log_q, np.float32)
        return result
