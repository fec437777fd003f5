"""Matrix factorization on the CPU: two tables, and a loop over batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.devices import enough_memory
from vitalrank._util.memory import large_zeros
from vitalrank.config import TrainConfig
from vitalrank.engines.base import HostEngine, Totals
from vitalrank.engines.correcting import corrected
from vitalrank.engines.mf import MFEngine, new_tables
from vitalrank.interactions import Interactions
from vitalrank.kernels.cpu.training.batches import Batch, load_batch
from vitalrank.kernels.cpu.training.permutation import Permutation, epoch_permutation
from vitalrank.kernels.cpu.training.step import Scratch, new_scratch, train_step
from vitalrank.samplers.backends import ArrayBackend
from vitalrank.samplers.base import BoundSampler
from vitalrank.samplers.draws import Draw, SampleRequest
from vitalrank.samplers.settings import CallableSampler

Array = NDArray[Any]
ADVICE = "use a smaller dim, batch or number of negatives"
UNMIXED = np.zeros((0, 0), np.float32)
_PRELOADED = 8  # batches loaded by one parallel call: starting the threads takes a quarter of the time of loading one


class CpuEngine(MFEngine, HostEngine):
    """Trains in compiled steps, one per batch, on NumPy arrays; the bits do not depend on the number of threads."""

    def __init__(
        self,
        train: Interactions,
        sampler: CallableSampler,
        config: TrainConfig,
        dim: int,
        bias: bool,
        normalize: bool = False,
    ) -> None:
        super().__init__(train, sampler, config, dim, bias, normalize)
        self._backend = ArrayBackend()
        with enough_memory("cpu", 0, ADVICE):
            self._tables = new_tables(train, dim, bias, self._step_config.optimizer.slots, config.seed, normalize)
            self._buffers = _Buffers(train, self._batch, dim + bias, self._sampler.needs_scores)

    @property
    def users(self) -> Array:
        """The users' vectors, live."""  # (U, d)
        return self._tables.users[:, 0]

    @property
    def items(self) -> Array:
        """The items' vectors, live."""  # (I, d)
        return self._tables.items

    def values(self) -> dict[str, Array]:
        return self._live()

    def state(self) -> dict[str, Array]:
        return self._live_state()

    def _live_state(self) -> dict[str, Array]:
        return {"users": self._tables.users[:, 1:], "items": self._tables.item_state}

    def _assign(self, into: Array, array: NDArray[Any]) -> None:
        into[...] = array

    def run_epoch(self, epoch: int, rate: Callable[[float], float], on_progress: Callable[[Totals], None]) -> Totals:
        self._sampler.reset()
        permutation = epoch_permutation(len(self._train), self._config.seed, epoch)
        totals = Totals()
        for batch, step_size in zip(self._batches(permutation), self._step_sizes(rate), strict=True):
            with enough_memory("cpu", 0, ADVICE):
                self._train_batch(batch, step_size, totals)
            on_progress(totals)
            if not math.isfinite(totals.loss):
                break
        return totals

    def _batches(self, permutation: Permutation) -> Iterator[Batch]:
        """The batches of an epoch: loaded one by one where queries must be current, else several at a time."""
        train, tables = self._train, self._tables
        size = len(train)
        for first in range(0, size, self._buffers.capacity):
            several = self._buffers.batch(0, min(self._buffers.capacity, size - first))
            load_batch(permutation, first, train.users, train.items, train.weights, tables.users, several)
            for start in range(0, len(several.users), self._batch):
                yield self._buffers.batch(start, min(self._batch, len(several.users) - start))

    def _train_batch(self, batch: Batch, step_size: float, totals: Totals) -> None:
        draw = corrected(self._draw(batch), self._config, np)
        self.step += 1
        ids, weights = np.ascontiguousarray(draw.ids, np.int64), np.ascontiguousarray(draw.weights, np.float32)
        scratch = self._buffers.scratch(ids.shape[1])
        mix = UNMIXED if draw.mix is None else np.ascontiguousarray(draw.mix, np.float32)
        config = self._config_for(ids.shape[1])
        loss, vanished, skipped = train_step(config, step_size, ids, weights, mix, batch, self._tables, *scratch)
        count = len(ids)
        totals.positives += count
        totals.skipped += skipped
        totals.loss += loss
        totals.vanished += vanished
        totals.tries += int(draw.tries.sum())
        if batch.weights is None:
            weight, trained = float(weights.sum()), float(count - skipped)
        else:
            weight = float(batch.weights @ weights.sum(1))
            trained = float(batch.weights @ (ids >= 0).any(1))
        totals.start_loss += self._loss.at_start(self._config.margin, weight, trained * config.positive_weight)
        if draw.violated is not None:
            totals.violated = (totals.violated or 0) + int(np.count_nonzero(draw.violated))

    def _draw(self, batch: Batch) -> Draw:
        """Draw negatives. Built-in samplers skip argument checks, and log_q unless the loss is corrected by it."""
        k = self._config.negatives
        if not isinstance(self._sampler, BoundSampler):
            return self._sampler(batch.queries, self.items, batch.users, batch.positives, step=self.step, k=k)
        counter = self._backend.counter(self._sampler.seed, self.step, self._buffers.rows[: len(batch.users)])
        request = SampleRequest(
            self._backend, batch.users, batch.positives, counter, self.step, k, batch.queries, self.items,
            with_log_q=self._config.correct != "none",
        )  # fmt: skip
        return self._sampler.draw(request)


class _Buffers:
    """Memory for one batch, or for several without queries, used again for each."""

    def __init__(self, train: Interactions, size: int, width: int, eager_queries: bool) -> None:
        self._train = train
        self._size = size
        self.capacity = size if eager_queries else min(_PRELOADED * size, len(train))
        users, positives = np.zeros((2, self.capacity), np.int32)
        weights = None if train.weights is None else np.zeros(self.capacity, np.float32)
        self._batch = Batch(users, positives, large_zeros((size, width), np.float32), eager_queries, weights)
        self.rows = np.arange(size, dtype=np.uint32)  # (B,) row numbers of the random counter
        self._scratch: Scratch | None = None

    def batch(self, start: int, count: int) -> Batch:
        """A view of ``count`` positives from ``start`` on."""
        whole, end = self._batch, start + count
        return whole._replace(
            users=whole.users[start:end],
            positives=whole.positives[start:end],
            queries=whole.queries[:count],
            weights=None if whole.weights is None else whole.weights[start:end],
        )

    def scratch(self, negatives: int) -> Scratch:
        """Buffers of a step; some samplers choose the number of negatives themselves, so it is known only now."""
        if self._scratch is None or self._scratch[0].score_grads.shape[1] != 1 + negatives:
            self._scratch = new_scratch(self._train.n_users, self._train.n_items, self._size, negatives)
        return self._scratch
