"""Samplers whose proposal is a fixed weight of each item."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.typing import DeviceArray
from vitalrank.samplers.base import BoundSampler
from vitalrank.samplers.draws import SampleRequest
from vitalrank.samplers.proposals import row_sums, weighted_proposal
from vitalrank.samplers.settings import Sampler


class BoundItemProposal(BoundSampler):
    """Proposes unseen items with probability proportional to a fixed weight."""

    def __init__(self, settings: Sampler, *args: Any) -> None:
        super().__init__(settings, *args)
        self.weights = self._item_weights()
        self.proposal = weighted_proposal(self.weights, self.pool)

    @abstractmethod
    def _item_weights(self) -> NDArray[np.float32]: ...  # (n,)

    def _log_q(self, request: SampleRequest, ids: DeviceArray) -> DeviceArray:
        """Log of each id's share of the weight of its user's unseen items; 0 where there was none to draw."""  # (B, k)
        backend = request.backend
        log_weights = backend.cached_to_device(self._log_weights)
        if self._available is not None and request.seen is not None:
            left = self._available.mass_unseen(request.seen, self._pool_weights, self._existing_weights)
            log_unseen = np.log(left.clip(1e-300))
        else:
            log_unseen = backend.cached_to_device(self._log_unseen)[request.users]
        share = log_weights[ids] - log_unseen[:, None]
        result: DeviceArray = backend.xp.where(ids >= 0, backend.cast(share, np.float32), 0.0)
        return result

    # Both are computed on first use: training with Uniform never needs them.

    @cached_property
    def _log_weights(self) -> NDArray[np.float32]:
        return np.log(self.weights)  # (n,)

    @cached_property
    def _pool_weights(self) -> NDArray[np.float64]:
        """Weights of the items of the pool, 0 outside."""  # (n,)
        inside = np.zeros(self.train.n_items, np.float64)
        inside[self.pool] = self.weights[self.pool]
        return inside

    @cached_property
    def _existing_weights(self) -> NDArray[np.float64]:
        assert self._available is not None
        return self._available.running(self._pool_weights)

    @cached_property
    def _log_unseen(self) -> NDArray[np.float64]:
        """Log of the weight of the pool that each user has not seen."""  # (U,)
        inside = self._pool_weights
        left = inside.sum() - row_sums(self.seen.indptr, inside[self.seen.items])
        return np.log(np.where(self.seen.unseen > 0, np.maximum(left, 1e-300), 1.0))
