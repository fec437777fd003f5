"""Softmax over negatives that a batch shares, on the CPU: products of blocks of rows, no draw for each row."""

from __future__ import annotations

import numpy as np

from vitalrank.config import TrainConfig
from vitalrank.engines.base import Totals
from vitalrank.kernels.cpu.training.batches import Batch
from vitalrank.kernels.cpu.training.shared import train_shared
from vitalrank.kernels.cpu.training.shared_scratch import SharedScratch, new_shared_scratch
from vitalrank.kernels.cpu.training.step import Tables
from vitalrank.kernels.step_config import StepConfig
from vitalrank.losses import find_loss
from vitalrank.samplers.in_batch import BoundInBatch


class SharedNegatives:
    """Steps of matrix factorization with in-batch negatives under the softmax loss."""

    def __init__(self, sampler: BoundInBatch, config: TrainConfig, size: int) -> None:
        self._sampler = sampler
        self._config = config
        self._loss = find_loss(config.loss)
        self._size = size
        self._scratch: SharedScratch | None = None

    @classmethod
    def of(cls, sampler: object, config: TrainConfig, size: int) -> SharedNegatives | None:
        """For batches of up to ``size`` positives; None where the sampler or the loss is another."""
        if config.loss == "softmax" and isinstance(sampler, BoundInBatch) and sampler.is_by_rows:
            return cls(sampler, config, size)
        return None

    def train(self, config: StepConfig, rate: float, batch: Batch, tables: Tables, totals: Totals) -> None:
        """Update the tables by one batch, and add what it had to the totals."""
        size = len(batch.users)
        s = self._scratch_for(tables, self._sampler.many(size))
        weights = self._sampler.weights_of(batch.positives, self._config.correct != "none")
        train_shared(config, rate, weights, batch, tables, self._sampler.seen, s)
        drawn = s.found[:size] > 0  # (B,)
        totals.positives += size
        totals.skipped += size - int(drawn.sum())
        totals.loss += float(s.losses[:size].sum(where=drawn, dtype=np.float64))
        totals.vanished += int(s.vanished[:size].sum(where=drawn))
        totals.tries += int(s.found[:size].sum(dtype=np.int64))
        weight = float(s.weight_sums[:size] @ s.row_weights[:size])
        totals.start_loss += self._loss.at_start(self._config.margin, weight)

    def _scratch_for(self, tables: Tables, negatives: int) -> SharedScratch:
        """Memory for so many negatives; the last batch of an epoch may have fewer."""
        if self._scratch is None or self._scratch.negatives != negatives:
            rows, width = tables.items.shape
            self._scratch = new_shared_scratch(len(tables.users), rows, width, self._size, negatives)
        return self._scratch
