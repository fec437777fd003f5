"""The engine of matrix factorization on the CPU: two tables, and a loop over batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.memory import large_zeros
from vitalrank.config import TrainConfig
from vitalrank.engines.base import HostEngine, Totals
from vitalrank.interactions import Interactions
from vitalrank.kernels.cpu.training.batches import Batch, load_batch
from vitalrank.kernels.cpu.training.initial import fill_normal
from vitalrank.kernels.cpu.training.permutation import Permutation, epoch_permutation
from vitalrank.kernels.cpu.training.step import Scratch, Tables, new_scratch, train_step
from vitalrank.kernels.optimizers import OPTIMIZERS
from vitalrank.kernels.step_config import SoftmaxStepConfig, StepConfig
from vitalrank.losses import find_loss
from vitalrank.samplers.adapter import as_bound
from vitalrank.samplers.backends import ArrayBackend
from vitalrank.samplers.base import BoundSampler, SampleRequest

Array = NDArray[Any]
_DEVIATION = 0.01
_SEVERAL = 8  # batches loaded at once: to ask the threads is a quarter of the time that loading one takes


class CpuEngine(HostEngine):
    """Trains user and item vectors with a bound sampler.

    Parameters
    ----------
    train, sampler, config
        The log, the sampler bound to it, the settings.
    dim, bias
        Columns of a vector; whether one more holds the item's bias, with the constant 1 on the user's side.
    """

    def __init__(self, train: Interactions, sampler: Any, config: TrainConfig, dim: int, bias: bool) -> None:
        self.step = 0
        self._train = train
        self._sampler = as_bound(sampler, train, config.seed)
        self._backend = ArrayBackend()
        self._config = config
        self._loss = find_loss(config.loss)
        self._step_config = step_config_of(config, self._sampler, bias)
        self._tables = new_tables(train, dim, bias, self._step_config.optimizer.slots, config.seed)
        self._batch = config.batch_of(len(train))
        self._buffers = _Buffers(train, min(self._batch, len(train)), dim + bias, self._sampler.needs_scores)

    @property
    def users(self) -> Array:
        """The users' vectors, live."""  # (U, d)
        return self._tables.users[:, 0]

    @property
    def items(self) -> Array:
        """The items' vectors, live."""  # (I, d)
        return self._tables.items

    def values(self) -> dict[str, Array]:
        return {"users": self.users, "items": self.items}

    def state(self) -> dict[str, Array]:
        return {"users": self._tables.users[:, 1:], "items": self._tables.item_state}

    def load(self, values: Mapping[str, Array], state: Mapping[str, Array] | None = None) -> None:
        _copy(values, self.values())
        if state is not None:
            _copy(state, self.state())

    def run_epoch(self, epoch: int, rate: Callable[[float], float], on_progress: Callable[[Totals], None]) -> Totals:
        self._sampler.reset()
        size = len(self._train)
        permutation = epoch_permutation(size, self._config.seed, epoch)
        sizes = self._step_config.optimizer.step_sizes(rate, size, self._batch, self.step)
        totals = Totals()
        for batch, step_size in zip(self._batches(permutation), sizes, strict=True):
            self._train_batch(batch, step_size, totals)
            on_progress(totals)
            if not math.isfinite(totals.loss):
                break
        return totals

    def _batches(self, permutation: Permutation) -> Iterator[Batch]:
        """The batches of an epoch: each loaded when it is its turn, or several at once where no query must wait."""
        size, tables = len(self._train), self._tables
        for first in range(0, size, self._buffers.room):
            several = self._buffers.batch(0, min(self._buffers.room, size - first))
            load_batch(permutation, first, self._train.users, self._train.items, tables.users, several)
            for start in range(0, len(several.users), self._batch):
                yield self._buffers.batch(start, min(self._batch, len(several.users) - start))

    def _train_batch(self, batch: Batch, step_size: float, totals: Totals) -> None:
        draw = self._draw(batch)
        self.step += 1
        ids, weights = np.ascontiguousarray(draw.ids, np.int64), np.ascontiguousarray(draw.weights, np.float32)
        scratch = self._buffers.scratch(ids.shape[1])
        loss, vanished, skipped = train_step(self._step_config, step_size, ids, weights, batch, self._tables, *scratch)
        count = len(ids)
        totals.positives += count
        totals.skipped += skipped
        totals.loss += loss
        totals.vanished += vanished
        totals.tries += int(draw.tries.sum())
        totals.start_loss += self._loss.at_start(self._config.margin, float(weights.sum()), count - skipped)
        if draw.violated is not None:
            totals.violated = (totals.violated or 0) + int(np.count_nonzero(draw.violated))

    def _draw(self, batch: Batch) -> Any:
        """Negatives; ours need no look at arguments that are right, and no densities that nobody reads."""
        k = self._config.negatives
        if not isinstance(self._sampler, BoundSampler):
            return self._sampler(batch.queries, self.items, batch.users, batch.positives, step=self.step, k=k)
        counter = self._backend.counter(self._sampler.seed, self.step, self._buffers.rows[: len(batch.users)])
        request = SampleRequest(
            self._backend, batch.users, batch.positives, counter, self.step, k, batch.queries, self.items,
            with_log_q=False,
        )  # fmt: skip
        return self._sampler.draw(request)


def _copy(given: Mapping[str, Array], into: Mapping[str, Array]) -> None:
    for name, array in into.items():
        if given[name].shape != array.shape:  # else a single row would be spread over all
            raise ValueError(f"{name} is {given[name].shape}, not {array.shape}")
        array[...] = given[name]


class _Buffers:
    """Memory for one batch, used again for each."""

    def __init__(self, train: Interactions, size: int, width: int, eager_queries: bool) -> None:
        self._train = train
        self._size = size
        self.room = size if eager_queries else min(_SEVERAL * size, len(train))
        users, positives = np.zeros((2, self.room), np.int32)
        self._batch = Batch(users, positives, large_zeros((size, width), np.float32), eager_queries)
        self.rows = np.arange(size, dtype=np.uint32)  # (B,) numbers of the rows in the random counter
        self._scratch: Scratch | None = None

    def batch(self, start: int, count: int) -> Batch:
        """So many positives from a start on."""
        whole, end = self._batch, start + count
        return whole._replace(
            users=whole.users[start:end], positives=whole.positives[start:end], queries=whole.queries[:count]
        )

    def scratch(self, negatives: int) -> Scratch:
        """Some samplers choose the number of negatives themselves, so it is known only now."""
        if self._scratch is None or self._scratch[0].score_grads.shape[1] != 1 + negatives:
            self._scratch = new_scratch(self._train.n_users, self._train.n_items, self._size, negatives)
        return self._scratch


def step_config_of(config: TrainConfig, sampler: Any, bias: bool) -> StepConfig:
    """How a batch moves the tables, by the settings and the sampler's weights."""
    optimizer = OPTIMIZERS[config.optimizer]
    loss = find_loss(config.loss)
    kind = SoftmaxStepConfig if loss.shares_softmax else StepConfig
    return kind(
        loss.code, float(config.margin), sampler.differentiable_weights, optimizer, int(bias), float(config.reg)
    )


def new_tables(train: Interactions, dim: int, bias: bool, slots: int, seed: int) -> Tables:
    """Tables at their initial values, with room for so many optimizer values per weight."""
    users = large_zeros((train.n_users, 1 + slots, dim + bias), np.float32)
    items = large_zeros((train.n_items, dim + bias), np.float32)
    fill_normal(users, dim, seed, 0, _DEVIATION)
    fill_normal(items[:, None], dim, seed, 1, _DEVIATION)  # (I, 1, d), as the kernel is compiled for the users
    if bias:
        users[:, 0, dim] = 1.0
    return Tables(users, items, large_zeros((train.n_items, slots, dim + bias), np.float32))
