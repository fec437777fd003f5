"""Matrix factorization on the CPU: two tables, and a loop over batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np

from vitalrank._util.devices import enough_memory
from vitalrank._util.memory import large_zeros
from vitalrank._util.typing import Array
from vitalrank.config import TrainConfig
from vitalrank.engines.base import Totals, VectorShape
from vitalrank.engines.correcting import corrected
from vitalrank.engines.mf import HostMFEngine, new_tables
from vitalrank.engines.shared_negatives import SharedNegatives
from vitalrank.interactions import Interactions
from vitalrank.kernels.cpu.training.batches import Batch, load_batch
from vitalrank.kernels.cpu.training.permutation import Permutation, epoch_permutation
from vitalrank.kernels.cpu.training.step import Scratch, new_scratch, train_step
from vitalrank.samplers.backends import ArrayBackend
from vitalrank.samplers.base import BoundSampler
from vitalrank.samplers.draws import Draw, SampleRequest
from vitalrank.samplers.settings import CallableSampler

ADVICE = "use a smaller dim, batch or number of negatives"
UNMIXED = np.zeros((0, 0), np.float32)
_PRELOADED = 8  # batches loaded by one parallel call: starting the threads takes a quarter of the time of loading one


class LogRows(Protocol):
    """Rows of a log, as a batch is loaded from them."""

    @property
    def users(self) -> Array:
        """Row of each positive's user in the users' table."""  # (N,)

    @property
    def items(self) -> Array:
        """Row of the positive in the items' table."""  # (N,)

    @property
    def weights(self) -> Array | None:
        """Of the positives."""  # (N,)


class CpuEngine(HostMFEngine):
    """Trains in compiled steps, one per batch, on NumPy arrays; the bits do not depend on the number of threads."""

    _shared: SharedNegatives | None = None  # an engine of blocks has another sampler for each

    def __init__(self, train: Interactions, sampler: CallableSampler, config: TrainConfig, shape: VectorShape) -> None:
        super().__init__(train, sampler, config, shape)
        self._backend = ArrayBackend()
        with enough_memory("cpu", 0, ADVICE):
            self._tables = new_tables(train, shape, self._step_config.optimizer.slots, config.seed)
            sizes = train.n_users, train.n_items, len(train)
            self._buffers = StepMemory(
                sizes, self._batch, shape.width, self._sampler.needs_scores, train.weights is not None
            )
        self._shared = SharedNegatives.of(self._sampler, config, self._batch)

    def run_epoch(self, epoch: int, rate: Callable[[float], float], on_progress: Callable[[Totals], None]) -> Totals:
        self._sampler.reset()
        permutation = epoch_permutation(len(self._train), self._config.seed, epoch)
        totals = Totals()
        self._run_batches(self._train, permutation, self._step_sizes(rate), totals, on_progress)
        return totals

    def _run_batches(
        self,
        rows: LogRows,
        permutation: Permutation,
        step_sizes: Sequence[float],
        totals: Totals,
        on_progress: Callable[[Totals], None],
    ) -> None:
        """Train on some rows of the log, in the order of the permutation."""
        for batch, step_size in zip(self._batches(rows, permutation), step_sizes, strict=True):
            with enough_memory("cpu", 0, ADVICE):
                self._train_batch(batch, step_size, totals)
            on_progress(totals)
            if not math.isfinite(totals.loss):
                break

    def _batches(self, rows: LogRows, permutation: Permutation) -> Iterator[Batch]:
        """Their batches: loaded one by one where queries must be current, else several at a time."""
        size = permutation.size
        for first in range(0, size, self._buffers.capacity):
            several = self._buffers.batch(0, min(self._buffers.capacity, size - first))
            load_batch(permutation, first, rows.users, rows.items, rows.weights, self._tables.users, several)
            for start in range(0, len(several.users), self._batch):
                yield self._buffers.batch(start, min(self._batch, len(several.users) - start))

    def _train_batch(self, batch: Batch, step_size: float, totals: Totals) -> None:
        if self._shared is not None and len(batch.users) > 1:
            self.step += 1
            self._shared.train(self._step_config, step_size, batch, self._tables, totals)
            return
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
            return self._sampler(batch.queries, self._tables.items, batch.users, batch.positives, step=self.step, k=k)
        counter = self._backend.counter(self._sampler.seed, self.step, self._buffers.rows[: len(batch.users)])
        request = SampleRequest(
            self._backend, batch.users, batch.positives, counter, self.step, k, batch.queries, self._tables.items,
            with_log_q=self._config.correct != "none",
        )  # fmt: skip
        return self._sampler.draw(request)


class StepMemory:
    """Memory for one batch, or for several without queries, used again for each.

    ``sizes`` are the rows of the users' table, of the items', and of the log, or the most that there may be.
    """

    def __init__(self, sizes: tuple[int, int, int], size: int, width: int, eager_queries: bool, weighted: bool) -> None:
        self._n_users, self._n_items, rows = sizes
        self._size = size
        self.capacity = size if eager_queries else min(_PRELOADED * size, rows)
        users, positives = np.zeros((2, self.capacity), np.int32)
        weights = np.zeros(self.capacity, np.float32) if weighted else None
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
            self._scratch = new_scratch(self._n_users, self._n_items, self._size, negatives)
        return self._scratch
