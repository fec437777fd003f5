"""Torch models over the ranks of a group: each rank takes a range of every batch, gradients are summed over all.

Every rank has the whole network and makes the same update. Sums of floats depend on where a batch is cut, so the bits
are those of a run with the same number of ranks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vitalrank._util.typing import Array
from vitalrank.config import TrainConfig
from vitalrank.distributed.group import Group
from vitalrank.distributed.joining import local_threads
from vitalrank.engines.base import Totals
from vitalrank.engines.gradient_sums import sum_gradients
from vitalrank.engines.network import Network
from vitalrank.engines.network_state import live_state
from vitalrank.engines.row_shards import add_counts, check_rows_known, check_same
from vitalrank.engines.torch_engine import TorchEngine
from vitalrank.engines.torch_totals import TorchTotals
from vitalrank.engines.training_mode import step_seed
from vitalrank.errors import SettingError
from vitalrank.interactions import Interactions
from vitalrank.samplers.base import BoundSampler
from vitalrank.samplers.draws import WholeBatch
from vitalrank.samplers.settings import CallableSampler

_READ_EVERY = 50  # steps between two sums of the totals over the ranks


class RankedTorchEngine(TorchEngine):
    """One rank's part of the training of a network."""

    def __init__(
        self, network: Network, train: Interactions, sampler: CallableSampler, config: TrainConfig, group: Group
    ) -> None:
        if network.couples_batch:
            raise SettingError(
                f"{type(network).__name__} has a loss of the whole batch, which ranks cannot share; leave that term "
                "out (covariance=0 of CML), or train in one process."
            )
        super().__init__(network, train, sampler, config)
        check_rows_known(self._sampler)
        self._group = group
        self._threads = config.threads or local_threads()
        self._read_every = _READ_EVERY
        self._broadcast()  # a caller's modules may have other values on each rank

    @property
    def run_identity(self) -> dict[str, Any]:
        return {**super().run_identity, "ranks": self._group.size}

    def load(self, values: Mapping[str, Any], state: Mapping[str, Array] | None = None) -> None:
        super().load(values, state)
        self._group.barrier()  # rank 0 may have read them from a slow disk
        self._broadcast()

    def _broadcast(self) -> None:
        """Take the values and the optimizer's state of rank 0."""
        self._broadcast_values(list(live_state(self._network).values()))
        state = self._optimizer.state
        for array in state.values():
            self._group.broadcast(array)
        self._optimizer.load(state)

    def _broadcast_values(self, values: list[Tensor]) -> None:
        for value in values:
            array = value.cpu().numpy().reshape(-1)
            self._group.broadcast(array)
            value.copy_(torch.from_numpy(array).view(value.shape))

    def run_epoch(self, *given: Any) -> Totals:
        counts = self._sampler.counts
        before = None if counts is None else counts.sums()
        self._group.barrier()
        totals = super().run_epoch(*given)
        if counts is not None and before is not None:
            add_counts(self._group, counts, before)
        with torch.no_grad():
            buffers = dict(self._network.named_buffers())
            kept = self._network.state_dict()
            self._broadcast_values([buffers[name] for name in kept if name in buffers])  # statistics of own batches
        for name, parameter in self._network.named_parameters():
            check_same(self._group, parameter.detach().cpu().numpy(), name)
        return totals

    def _seed(self) -> int:
        """Other random numbers on each rank, for other rows."""
        return step_seed(step_seed(self._config.seed, self.step), self._group.rank)

    def _can_capture(self) -> bool:
        return False  # messages are no part of a graph

    def _gradients(self, numbers: Tensor) -> int:
        """The gradients of a batch, of which this rank computes those of its range."""
        begin, end = (len(numbers) * rank // self._group.size for rank in (self._group.rank, self._group.rank + 1))
        rows = self._rows.positives_of(numbers)
        if end > begin:
            first = len(self._rows.positives_of(numbers[:begin]))
            own = len(self._rows.positives_of(numbers[begin:end]))
            self._part = self._part_of(rows, first, own)
            self._backward(numbers[begin:end])
        parameters = [parameter for parameter in self._network.parameters() if parameter.requires_grad]
        sum_gradients(self._group, parameters)
        return len(rows)

    def _part_of(self, rows: Tensor, first: int, own: int) -> WholeBatch:
        """What a sampler should know of the batch."""
        numbers: Any = torch.arange(first, first + own, device=self._device)
        positives: Any = None
        if isinstance(self._sampler, BoundSampler) and self._sampler.follows_batch:
            positives = self.histories.items[rows].long()
        if self._device.type == "cpu":
            numbers = numbers.numpy().astype(np.uint32)
            positives = None if positives is None else positives.numpy()
        return WholeBatch(len(rows), numbers, positives)

    def _flush(self, totals: TorchTotals) -> None:
        """Add the sums of all ranks, in their order."""
        own = self._running.take()
        for of_rank in self._group.all_gather_objects(own):
            totals.add(of_rank)
