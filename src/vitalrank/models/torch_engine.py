"""The engine of everything in torch: autograd for the network, the samplers on its vectors, one step per batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from vitalrank.errors import SettingError
from vitalrank.interactions import Interactions
from vitalrank.kernels.cpu.orders import shuffled_order
from vitalrank.kernels.cpu.rows import fill_rows
from vitalrank.models.contexts import context_before
from vitalrank.models.networks import Network
from vitalrank.models.torch_optimizer import TableOptimizer
from vitalrank.training.history import Record, Totals
from vitalrank.training.settings import TrainConfig

Array = NDArray[Any]
_VANISHED = 0.01  # a positive whose pairs all pull less than this no longer teaches
_PREFIX = "network."  # of the network's arrays among those of a saved folder


@dataclass
class TorchTotals(Totals):
    """Sums of an epoch, with the positives that a network leaves out because nothing came before them."""

    without_history: int = 0  # counted in ``skipped`` too

    def means(self) -> Record:
        record = super().means()
        if self.without_history:
            record["skipped"] -= self.without_history
            record["without_history"] = self.without_history
        return record


@dataclass
class Batch:
    """Positives of one batch that are trained on."""

    users: Tensor  # (B,)
    positives: Tensor  # (B,)
    context: Tensor | None  # (B, length)


class TorchEngine:
    """Trains a network with a bound sampler.

    A step sums the gradients of its batch: rows of embeddings move by the sum, as in matrix factorization, and only
    when touched; everything else moves by the mean, clipped. Dropout depends on the seed and the step alone.

    Parameters
    ----------
    network
        What to train, in place.
    train, sampler, config
        The log, the sampler bound to it, the settings.
    """

    def __init__(self, network: Network, train: Interactions, sampler: Any, config: TrainConfig) -> None:
        self.step = 0
        self._network = network
        self._train = train
        self._sampler = sampler
        self._config = config
        self._loss = network.loss(config)
        self._optimizer = TableOptimizer(network, config.optimizer)
        self._flows = not getattr(getattr(sampler, "settings", None), "detach", True)
        self._asks = getattr(sampler, "needs_scores", True)
        self._open = train.user_degree < train.n_items  # (U,) users who have something left to draw
        self._lookups = [
            _decayed(module, config.reg) for module in network.modules() if isinstance(module, nn.Embedding)
        ]

    def close(self) -> None:
        """Let go of the network."""
        for lookup in self._lookups:
            lookup.remove()
        for parameter in self._network.parameters():
            parameter.grad = None

    def values(self) -> dict[str, Array]:
        return network_arrays(self._network)

    def state(self) -> dict[str, Array]:
        return self._optimizer.state

    def load(self, values: Mapping[str, Array], state: Mapping[str, Array] | None = None) -> None:
        load_network(self._network, values)
        for name, array in self.state().items() if state is not None else ():
            array[...] = state[name]  # type: ignore[index]

    def run_epoch(self, epoch: int, rate: Callable[[float], float], pulse: Callable[[Totals], None]) -> Totals:
        self._sampler.reset()
        size = len(self._train)
        batch = self._config.batch_of(size)
        order = shuffled_order(size, self._config.seed, epoch)
        totals = TorchTotals()
        with _training(self._network, self._config.threads):
            for start in range(0, size, batch):
                rows = np.empty(min(batch, size - start), np.int64)
                fill_rows(order, start, rows)
                self._train_batch(self._load(rows, totals), rate(start / size), totals)
                pulse(totals)
                if not math.isfinite(totals.loss):
                    break
        return totals

    def _load(self, rows: Array, totals: TorchTotals) -> Batch:
        """The positives at these rows of the log, without those that cannot be trained on."""
        users = self._train.users[rows]
        usable = self._open[users]
        if self._network.needs_history:
            first = rows == self._train.indptr[users]
            totals.without_history += int(np.count_nonzero(usable & first))
            usable &= ~first
        totals.positives += len(rows)
        totals.skipped += len(rows) - int(np.count_nonzero(usable))
        rows, users = rows[usable], users[usable]
        length = self._network.length
        context = torch.from_numpy(context_before(self._train, rows, users, length)) if length else None
        return Batch(_ids(users), _ids(self._train.items[rows]), context)

    def _train_batch(self, batch: Batch, rate: float, totals: TorchTotals) -> None:
        count = len(batch.users)
        step = self.step
        self.step += 1
        if count == 0:
            return
        torch.default_generator.manual_seed(_mixed(self._config.seed, step))
        encoded = self._network.encode(batch.users, batch.context)
        asked = self._network.for_sampler(encoded) if self._asks else {}
        k = self._config.negatives
        draw = self._sampler(users=batch.users, positives=batch.positives, step=step, k=k, **asked)
        ids = torch.cat([batch.positives[:, None], draw.ids.clamp(min=0)], 1)  # (B, 1 + k)
        scores = self._network.score(encoded, ids)
        weights = self._weights(draw, scores[:, 1:])
        loss = self._loss(scores[:, 0], scores[:, 1:], weights) * count
        extra = self._network.extra()
        (loss if extra is None else loss + extra).backward()  # type: ignore[no-untyped-call]
        self._network.finish(self._optimizer.move(rate, self.step, count, self._network.clip))
        self._count(totals, draw, scores.detach(), float(loss.detach()))

    def _weights(self, draw: Any, negatives: Tensor) -> Tensor:
        """The sampler's weights; computed again where the gradient is to flow through them."""  # (B, k)
        if not self._flows:
            weights: Tensor = draw.weights
            return weights
        logits = self._sampler.settings.logits(negatives, draw.log_q)
        return torch.softmax(logits.masked_fill(draw.ids < 0, -math.inf), 1)

    def _count(self, totals: TorchTotals, draw: Any, scores: Tensor, loss: float) -> None:
        level = torch.zeros_like(scores)
        totals.loss += loss
        totals.start_loss += float(self._loss(level[:, 0], level[:, 1:], draw.weights)) * len(scores)
        totals.vanished += int((self._strongest(scores) < _VANISHED).sum())
        totals.tries += int(draw.tries.sum())
        if draw.violated is not None:
            totals.violated = (totals.violated or 0) + int(draw.violated.sum())

    def _strongest(self, scores: Tensor) -> Tensor:
        """The steepest slope of the loss by any score of a row, weights aside."""  # (B,)
        scores.requires_grad_()
        loss = self._loss(scores[:, 0], scores[:, 1:], None) * len(scores)
        slopes = torch.autograd.grad(loss, scores)[0].abs()
        # In a loss of pairs the positive's slope is the sum over its pairs, not one of them.
        return (slopes if self._config.loss == "cross_entropy" else slopes[:, 1:]).amax(1)


def network_arrays(network: nn.Module) -> dict[str, Array]:
    """Parameters and buffers as arrays on the same memory, by the names of a saved folder."""
    return {_PREFIX + name: value.detach().numpy() for name, value in network.state_dict().items()}


def load_network(network: nn.Module, arrays: Mapping[str, Array]) -> None:
    """Copy what :func:`network_arrays` gave back into a network of the same shapes."""
    state = network.state_dict()
    given = {name.removeprefix(_PREFIX): array for name, array in arrays.items() if name.startswith(_PREFIX)}
    if state.keys() != given.keys():
        odd = ", ".join(sorted(state.keys() ^ given.keys()))
        raise ValueError(f"the network has other parameters than were saved: {odd}")
    for name, value in state.items():
        array = np.asarray(given[name])
        array = array.reshape(value.shape) if array.size == value.numel() == 1 else array  # files know no 0 dimensions
        if array.shape != tuple(value.shape) or array.dtype != value.numpy().dtype:
            raise ValueError(f"{name} is {array.dtype} {array.shape}, not {value.dtype} {tuple(value.shape)}")
        with torch.no_grad():
            value.copy_(torch.from_numpy(np.array(array)))


def check_device(device: str) -> None:
    """Refuse a device that the engine cannot train on."""
    if device != "cpu":
        raise SettingError(f"unknown device {device!r}; choose one of cpu.")


def _ids(ids: Array) -> Tensor:
    return torch.from_numpy(ids.astype(np.int64))


def _mixed(seed: int, step: int) -> int:
    """One number for the dropout of a step."""
    return int(np.random.SeedSequence([seed, step]).generate_state(1, np.uint64)[0])


def _decayed(table: nn.Embedding, reg: float) -> Any:
    """Add ``reg`` times its value to the gradient of every row looked up in ``table``, until removed."""

    def looked_up(module: nn.Module, ids: Any, rows: Tensor) -> None:
        if reg and rows.requires_grad:
            value = rows.detach()
            rows.register_hook(lambda gradient: torch.add(gradient, value, alpha=reg))  # type: ignore[no-untyped-call]

    return table.register_forward_hook(looked_up)


@contextmanager
def _training(network: nn.Module, threads: int | None) -> Iterator[None]:
    """Dropout on, at most so many threads, and torch's own random numbers left as they were."""
    before = torch.get_num_threads()
    network.train()
    try:
        torch.set_num_threads(threads or before)
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        torch.set_num_threads(before)
        network.eval()
