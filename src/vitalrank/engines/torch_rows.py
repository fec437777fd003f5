"""What a training row of the torch engine is: one positive, or a window of a user's sequence with all its positives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from vitalrank._util.typing import Array
from vitalrank.engines.network import Network
from vitalrank.engines.torch_totals import TorchTotals
from vitalrank.interactions import Interactions
from vitalrank.interactions.histories import Histories


@dataclass(frozen=True)
class TorchBatch:
    """The positives of a step, and the queries that they are scored for."""

    rows: Tensor  # of the log, (P,)
    users: Tensor  # (P,)
    positives: Tensor  # (P,)
    encoded: Tensor  # (P, ...)

    def __len__(self) -> int:
        return len(self.rows)


class TrainingRows(ABC):
    """The rows that an epoch visits, and what a batch of them holds.

    Attributes
    ----------
    numbers
        The rows to visit, (M,).
    most_positives
        Positives of one row, at most.
    left_out
        The sums that every epoch begins with: positives that are not trained on.
    """

    numbers: Array
    most_positives: int
    left_out: TorchTotals

    @abstractmethod
    def batch(self, network: Network, numbers: Tensor) -> TorchBatch:
        """The positives of these rows, encoded."""

    @abstractmethod
    def positives_of(self, numbers: Tensor) -> Tensor:
        """Rows of the log of their positives, in the order of a batch."""  # (P,)


class PositiveRows(TrainingRows):
    """A row is a positive.

    Not of users who have nothing left to draw; nor, where a network needs a history, anyone's first item.
    """

    most_positives = 1

    def __init__(self, train: Interactions, network: Network, histories: Histories) -> None:
        self._histories = histories
        usable = np.repeat(train.user_degree < train.n_items, train.user_degree)  # (N,)
        first = np.zeros(len(train), np.bool_)
        first[train.indptr[:-1][train.user_degree > 0]] = True
        without_history = int(np.count_nonzero(usable & first)) if network.length else None
        self.numbers = np.flatnonzero(usable & ~first if network.needs_history else usable)
        left_out = len(train) - len(self.numbers)
        self.left_out = TorchTotals(
            left_out, left_out, without_history=without_history, are_left_out=network.needs_history
        )

    def batch(self, network: Network, numbers: Tensor) -> TorchBatch:
        users, positives = self._histories.users[numbers].long(), self._histories.items[numbers].long()
        context = self._histories.before(numbers, network.length) if network.length else None
        return TorchBatch(numbers, users, positives, network.encode(users, context))

    def positives_of(self, numbers: Tensor) -> Tensor:
        return numbers


class SequenceRows(TrainingRows):
    """A row is a window: up to ``length`` successive positives of a user, each predicted from the items before it.

    Windows do not overlap and are aligned with the end of the history, so that an epoch visits every positive once.
    A user's first item has no history and is no positive; users who have nothing left to draw are left out.

    Examples
    --------
    >>> windows_of(np.array([0, 6, 7, 9]), np.array([True, True, True]), length=2)
    (array([1, 2, 4, 8]), array([2, 4, 6, 9]))
    """

    def __init__(self, train: Interactions, network: Network, histories: Histories) -> None:
        self._histories = histories
        usable = train.user_degree < train.n_items
        first, end = windows_of(train.indptr, usable, network.length)
        device = histories.items.device
        self._first, self._end = torch.from_numpy(first).to(device), torch.from_numpy(end).to(device)
        self.numbers = np.arange(len(first))
        self.most_positives = network.length
        left_out = len(train) - int((end - first).sum())
        without_history = int(np.count_nonzero(usable & (train.user_degree > 0)))
        self.left_out = TorchTotals(left_out, left_out, without_history=without_history, are_left_out=True)

    def batch(self, network: Network, numbers: Tensor) -> TorchBatch:
        first, end = self._first[numbers], self._end[numbers]  # (S,)
        steps = torch.arange(int((end - first).max()), device=first.device)
        rows = first[:, None] + steps  # (S, L): no longer than the longest of these windows
        inside = rows < end[:, None]
        items = self._histories.items
        context = torch.where(inside, items[torch.where(inside, rows - 1, 0)], -1).long()
        users = self._histories.users[first].long()
        queries = network.encode_positions(users, context)[inside]  # (P, d)
        kept = rows[inside]
        return TorchBatch(kept, self._histories.users[kept].long(), items[kept].long(), queries)

    def positives_of(self, numbers: Tensor) -> Tensor:
        first, end = self._first[numbers], self._end[numbers]  # (S,)
        rows = first[:, None] + torch.arange(self.most_positives, device=first.device)
        return rows[rows < end[:, None]]


def windows_of(indptr: Array, usable: Array, length: int) -> tuple[Array, Array]:
    """First and past-the-last row of the log of every window of at most ``length`` positives."""  # (W,), (W,)
    begin, end = indptr[:-1][usable] + 1, indptr[1:][usable]
    counts = np.maximum(-(-(end - begin) // length), 0)  # windows of each user
    number = (
        np.repeat(np.cumsum(counts), counts) - 1 - np.arange(counts.sum())
    )  # from the end of the history: 0 is last
    ends = np.repeat(end, counts) - number * length
    return np.maximum(np.repeat(begin, counts), ends - length), ends


def training_rows(train: Interactions, network: Network, histories: Histories) -> TrainingRows:
    """The rows that the network is trained on."""
    return (SequenceRows if network.all_positions else PositiveRows)(train, network, histories)
