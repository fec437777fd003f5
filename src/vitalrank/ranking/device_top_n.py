"""The best unseen items of many users, found on a GPU a block of users at a time."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from vitalrank._util.typing import Array
from vitalrank.errors import TrainingError
from vitalrank.kernels.gpu.ranking.top_n import SeenRows, top_by_dot
from vitalrank.ranking.scorers import DotScorer

_CELLS = 1 << 28  # scores held at a time: a gibibyte


class DeviceRanker:
    """Ranks the catalogue of a dot-product model on a device.

    Parameters
    ----------
    model
        Its vectors are read in place if they lie on the device, else copied there.
    indptr, seen
        What to leave out for each user, as rows of a sparse matrix.
    device
        A resolved name.
    """

    def __init__(self, model: DotScorer, indptr: Array, seen: Array, device: str) -> None:
        self._queries, self._table = model.vectors_on(device)
        self._seen = SeenRows(torch.from_numpy(indptr).to(device), torch.from_numpy(seen).to(device))
        self._device = device
        self._name = type(model).__name__
        if not torch.isfinite(self._table).all():
            raise TrainingError(f"the item table of {self._name} holds values that are not finite; fit it again.")
        self.block = max(1, _CELLS // max(1, len(self._table)))

    def best(self, users: Array, n: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Ids and scores of the n best items of each user."""
        asked = torch.from_numpy(np.ascontiguousarray(users, np.int64)).to(self._device)
        scores, ids = top_by_dot(self._queries(asked), self._table, asked, self._seen, min(n, len(self._table)))
        return ids.cpu().numpy(), scores.cpu().numpy()
