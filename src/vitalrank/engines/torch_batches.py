"""The training rows of an epoch, in batches; the cursor lies on the device, so a captured graph advances it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from vitalrank._util.typing import Array
from vitalrank.kernels.cpu.training.permutation import epoch_permutation, fill_rows


class EpochBatches:
    """Batches of rows of the log in each epoch's permutation, and the step size of each.

    Parameters
    ----------
    rows
        The rows to visit, (M,).
    batch
        How many of them make a batch; the last one of an epoch may be smaller.
    device
        The device of the batches.

    Examples
    --------
    >>> batches = EpochBatches(np.array([3, 5, 8]), batch=2, device=torch.device("cpu"))
    >>> batches.counts
    [2, 1]
    >>> batches.begin_epoch(seed=0, epoch=1, step_sizes=[0.1, 0.2])
    >>> first, size = batches.rows(2), batches.step_size().item()
    >>> batches.advance(2)
    >>> sorted([*first.tolist(), *batches.rows(1).tolist()]), round(size, 3), round(batches.step_size().item(), 3)
    ([3, 5, 8], 0.1, 0.2)
    """

    def __init__(self, rows: Array, batch: int, device: torch.device) -> None:
        self._rows = rows
        self._batch = batch
        self.counts = [min(batch, len(rows) - start) for start in range(0, len(rows), batch)]
        self._offsets = torch.arange(min(batch, len(rows)), device=device)
        self._permuted = torch.zeros(len(rows), dtype=torch.int64, device=device)
        self._step_sizes = torch.zeros(len(self.counts), device=device)
        self._cursor = torch.zeros(1, dtype=torch.int64, device=device)

    def begin_epoch(self, seed: int, epoch: int, step_sizes: Sequence[float]) -> None:
        """Move the cursor to the first batch of an epoch whose steps have these sizes."""
        positions = np.empty(len(self._rows), np.int64)
        fill_rows(epoch_permutation(len(positions), seed, epoch), 0, positions)
        self._permuted.copy_(torch.from_numpy(self._rows[positions]))
        self._step_sizes.copy_(torch.tensor(step_sizes, dtype=torch.float32))
        self._cursor.zero_()

    def rows(self, count: int) -> Tensor:
        """The next rows."""  # (count,)
        return self._permuted.index_select(0, self._cursor + self._offsets[:count])

    def step_size(self) -> Tensor:
        """The size of the next step."""  # (1,)
        return self._step_sizes.index_select(0, self._cursor // self._batch)

    def advance(self, count: int) -> None:
        """Move the cursor past these rows."""
        self._cursor += count
