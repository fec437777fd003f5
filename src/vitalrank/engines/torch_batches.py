"""The positives of an epoch, a batch at a time; where an epoch stands lies on the device, so that a graph can go on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vitalrank.kernels.cpu.training.permutation import epoch_permutation, fill_rows

Array = NDArray[Any]


class Feed:
    """Rows of the log in each epoch's order, and the size of each step.

    Parameters
    ----------
    rows
        The rows to visit, (M,).
    batch
        How many of them make a batch; the last one of an epoch may be smaller.
    device
        Where they are wanted.

    Examples
    --------
    >>> feed = Feed(np.array([3, 5, 8]), batch=2, device=torch.device("cpu"))
    >>> feed.counts
    [2, 1]
    >>> feed.begin(seed=0, epoch=1, sizes=[0.1, 0.2])
    >>> first, size = feed.rows(2), feed.size().item()
    >>> feed.advance(2)
    >>> sorted([*first.tolist(), *feed.rows(1).tolist()]), round(size, 3), round(feed.size().item(), 3)
    ([3, 5, 8], 0.1, 0.2)
    """

    def __init__(self, rows: Array, batch: int, device: torch.device) -> None:
        self._rows = rows
        self._batch = batch
        self.counts = [min(batch, len(rows) - start) for start in range(0, len(rows), batch)]
        self._numbers = torch.arange(min(batch, len(rows)), device=device)
        self._order = torch.zeros(len(rows), dtype=torch.int64, device=device)
        self._sizes = torch.zeros(len(self.counts), device=device)
        self._cursor = torch.zeros(1, dtype=torch.int64, device=device)

    def begin(self, seed: int, epoch: int, sizes: Sequence[float]) -> None:
        """Stand before the first batch of an epoch whose steps have these sizes."""
        places = np.empty(len(self._rows), np.int64)
        fill_rows(epoch_permutation(len(places), seed, epoch), 0, places)
        self._order.copy_(torch.from_numpy(self._rows[places]))
        self._sizes.copy_(torch.tensor(sizes, dtype=torch.float32))
        self._cursor.zero_()

    def rows(self, count: int) -> Tensor:
        """The next rows."""  # (count,)
        return self._order.index_select(0, self._cursor + self._numbers[:count])

    def size(self) -> Tensor:
        """The size of the next step."""  # (1,)
        return self._sizes.index_select(0, self._cursor // self._batch)

    def advance(self, count: int) -> None:
        """Stand behind these rows."""
        self._cursor += count
