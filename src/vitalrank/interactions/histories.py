"""Item histories of users for sequence models: slices of the time-sorted log."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vitalrank.interactions import Interactions


class Histories:
    """The items of every user, oldest first, as tensors on a device; contexts are gathered from them.

    Parameters
    ----------
    log
        The log; on the CPU its memory is shared.
    device
        The device of the tensors.

    Examples
    --------
    >>> log = Interactions.from_arrays([7, 7, 7, 8], [3, 1, 2, 3], times=[1, 2, 3, 1])
    >>> histories = Histories(log)
    >>> histories.before(torch.arange(4), length=2).tolist()
    [[-1, -1], [2, -1], [2, 0], [-1, -1]]
    >>> histories.last(torch.tensor([1, 0]), length=2).tolist()
    [[2, -1], [0, 1]]
    """

    def __init__(self, log: Interactions, device: torch.device | str = "cpu") -> None:
        self._log = log
        self.users = _to_device(log.users, device)  # (N,)
        self.items = _to_device(log.items, device)  # (N,)
        self._starts = _to_device(log.indptr, device)  # (U + 1,)

    def of(self, log: Interactions, device: torch.device) -> bool:
        """Whether these are the histories of that log on that device."""
        return self._log is log and self.items.device == device

    def before(self, rows: Tensor, length: int) -> Tensor:
        """The ``length`` items before each row of the log, oldest first; padded with -1 on the right."""  # (B, L)
        return self._between(self._starts[self.users[rows].long()], rows, length)

    def last(self, users: Tensor, length: int) -> Tensor:
        """The last ``length`` items of each user, oldest first; padded with -1 on the right."""  # (B, L)
        return self._between(self._starts[users], self._starts[users + 1], length)

    def _between(self, begin: Tensor, end: Tensor, length: int) -> Tensor:
        """Items at positions ``max(begin, end - length) .. end - 1`` of the log."""
        at = torch.maximum(begin, end - length)[:, None] + torch.arange(length, device=begin.device)
        inside = at < end[:, None]
        return torch.where(inside, self.items[torch.where(inside, at, 0)], -1).long()


def repeat_last(context: Tensor) -> Tensor:
    """The same with each -1 replaced by the history's last item; rows without history stay -1.

    Examples
    --------
    >>> repeat_last(torch.tensor([[4, 2, -1], [-1, -1, -1]])).tolist()
    [[4, 2, 2], [-1, -1, -1]]
    """
    last = (context >= 0).sum(1, keepdim=True) - 1  # (B, 1), -1 without history: that row is -1 throughout
    steps = torch.arange(context.shape[1], device=context.device)
    return context.gather(1, torch.minimum(steps, last.clamp(min=0)))


def _to_device(array: NDArray[Any], device: torch.device | str) -> Tensor:
    writable = array if array.flags.writeable else np.array(array)  # torch has no read-only memory
    return torch.from_numpy(writable).to(device)
