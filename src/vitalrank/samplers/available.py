"""Items that existed at the time of a positive: those that the log had seen before it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.typing import Array
from vitalrank.errors import SettingError
from vitalrank.interactions import Interactions
from vitalrank.kernels.cpu.sampling.available import find_before, sum_unseen
from vitalrank.kernels.proposals import Seen
from vitalrank.samplers.backends import ArrayBackend

if TYPE_CHECKING:
    from vitalrank.samplers.draws import SampleRequest


class Available:
    """When each item was first seen, and which items each pair of the log may have as negatives.

    Times are numbered by how many items were first seen before them. A pair that is not in the log comes after all.

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.Interactions.from_arrays([0, 0, 1], [0, 1, 2], times=[5, 7, 6])
    >>> bound = vr.Uniform().bind(log, available=True)
    >>> bound(users=[0, 0, 1], positives=[0, 1, 2]).ids.tolist()  # before time 5 nothing, before 7 and 6: 2, and 0
    [[-1], [2], [0]]
    """

    def __init__(self, train: Interactions, seen: Seen, pool: NDArray[np.int64]) -> None:
        if train.times is None:
            raise SettingError("available=True needs times, and the log has none; read it with its time column.")
        n = train.n_items
        by_item = np.lexsort((train.times, train.items))  # (N,) an item's first row comes first
        present, first = np.unique(train.items[by_item], return_index=True)
        born = train.times[by_item[first]]  # (m,) aligned with the items present
        order = np.argsort(born, kind="stable")
        self._born = np.sort(born)  # (m,)
        self._after_all = n + 1
        self._seen = seen
        self._first_seen = np.full(n, len(present), np.int32)  # (n,) absent items: after all that are present
        self._first_seen[present] = np.searchsorted(self._born, born, side="left")
        self._order = np.concatenate([present[order], np.setdiff1d(np.arange(n), present)])  # (n,) by first time
        along = np.lexsort((train.items, train.users))  # rows as ``seen.items``
        self._before = np.searchsorted(self._born, train.times[along], side="left").astype(np.int32)  # (N,)
        self._inside = np.zeros(n)
        self._inside[pool] = 1.0
        self._existing = self.running(self._inside)

    def apply(self, request: SampleRequest) -> SampleRequest:
        """The request with the seen items of its rows, to which those that came later belong."""
        if type(request.backend).kernels is not ArrayBackend.kernels:
            raise SettingError("available=True draws on the CPU, and this engine on the GPU; leave it out.")
        users: Any = request.users
        before = np.empty(len(users), np.int32)
        find_before(self._seen, users, request.positives, self._before, self._after_all, before)
        seen = self._seen._replace(owner=users, before=before, first_seen=self._first_seen, any_exhausted=True)
        unseen = self.mass_unseen(seen, self._inside, self._existing)
        return replace(request, seen=seen._replace(unseen=unseen.astype(np.int32)))

    def in_order(self, pairs: NDArray[np.int64]) -> tuple[NDArray[np.int64], Callable[[Array, Array], Array]]:
        """The items of sorted pairs ``user * n + item``, each user's by first time, and where those before one end."""
        users, items = np.divmod(pairs, len(self._first_seen))
        times = self._first_seen[items]
        order = np.lexsort((times, users))
        stride = self._after_all + 1
        keys = (users * stride + times)[order]

        def until(users: Array, before: Array) -> Array:
            return np.searchsorted(keys, users.astype(np.int64) * stride + before)

        return items[order], until

    def running(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sums of the weights (n,) of the first items, by first time."""  # (n + 1,)
        return np.concatenate([[0.0], np.cumsum(weights[self._order])])

    def mass_unseen(
        self, seen: Seen, weights: NDArray[np.float64], running: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Sum of the weights (n,) of what each row has not seen."""  # (B,)
        left = running[np.minimum(seen.before, len(weights))]
        sum_unseen(seen, weights, left)
        return left
