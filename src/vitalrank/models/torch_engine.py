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

from vitalrank.devices import enough_memory
from vitalrank.interactions import Interactions
from vitalrank.kernels.cpu.orders import shuffled_order
from vitalrank.kernels.cpu.rows import fill_rows
from vitalrank.models.contexts import Histories
from vitalrank.models.networks import Network, device_of
from vitalrank.models.torch_optimizer import new_optimizer
from vitalrank.models.torch_totals import Sums, TorchTotals
from vitalrank.training.history import Totals
from vitalrank.training.settings import TrainConfig

Array = NDArray[Any]
_VANISHED = 0.01  # a positive whose pairs all pull less than this no longer teaches
_OWN_SLOPE = ("cross_entropy", "softmax")  # losses in which a positive's slope stands for itself
_READ_EVERY = {"cpu": 1, "cuda": 50}  # steps between two looks at the sums, for each of which the host waits
_PREFIX = "network."  # of the network's arrays among those of a saved folder


@dataclass
class Batch:
    """Positives of one batch that are trained on."""

    users: Tensor  # (B,)
    positives: Tensor  # (B,)
    context: Tensor | None  # (B, length)


class TorchEngine:
    """Trains a network with a bound sampler, on the device that the network lies on.

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
        self._device = device_of(network)
        self._optimizer = new_optimizer(network, config.optimizer)
        self.histories = Histories(train, self._device)
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

    def copy(self) -> dict[str, Tensor]:
        """The values as they are now, on the device."""
        return {_PREFIX + name: value.detach().clone() for name, value in self._network.state_dict().items()}

    def plain(self, copy: Mapping[str, Any]) -> dict[str, Array]:
        return {name: torch.as_tensor(value).cpu().numpy() for name, value in copy.items()}

    def is_finite(self) -> bool:
        found = [value.isfinite().all() for value in self._network.state_dict().values()]
        return not found or bool(torch.stack(found).all())

    def load(self, values: Mapping[str, Any], state: Mapping[str, Array] | None = None) -> None:
        load_network(self._network, values)
        if state is not None:
            self._optimizer.load(state)

    def run_epoch(self, epoch: int, rate: Callable[[float], float], pulse: Callable[[Totals], None]) -> Totals:
        self._sampler.reset()
        size = len(self._train)
        batch = self._config.batch_of(size)
        order = shuffled_order(size, self._config.seed, epoch)
        totals, sums = TorchTotals(), Sums(self._device)
        device = str(self._device)
        with _training(self._network, self._config.threads), enough_memory(device, 0, "use a smaller batch or dim"):
            for start in range(0, size, batch):
                rows = np.empty(min(batch, size - start), np.int64)
                fill_rows(order, start, rows)
                self._train_batch(self._load(rows, totals), rate(start / size), sums)
                if self.step % _READ_EVERY[self._device.type] and start + batch < size:
                    continue
                sums.move_to(totals)
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
        return self._batch_of(torch.from_numpy(rows[usable]).to(self._device))

    def _batch_of(self, rows: Tensor) -> Batch:
        length = self._network.length
        context = self.histories.before(rows, length) if length else None
        return Batch(self.histories.users[rows].long(), self.histories.items[rows].long(), context)

    def _train_batch(self, batch: Batch, rate: float, sums: Sums) -> None:
        count = len(batch.users)
        step = self.step
        self.step += 1
        if count == 0:
            return
        _seed(self._device, _mixed(self._config.seed, step))
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._config.precision == "bfloat16"):
            encoded = self._network.encode(batch.users, batch.context)
            asked = self._network.for_sampler(encoded) if self._asks else {}
            k = self._config.negatives
            draw = self._sampler(users=batch.users, positives=batch.positives, step=step, k=k, **asked)
            ids = torch.cat([batch.positives[:, None], draw.ids.clamp(min=0)], 1)  # (B, 1 + k)
            scores = self._network.score(encoded, ids).float()
            extra = self._network.extra()
        loss = self._loss(scores[:, 0], scores[:, 1:], self._weights(draw, scores[:, 1:])) * count
        (loss if extra is None else loss + extra).backward()  # type: ignore[no-untyped-call]
        self._network.finish(self._optimizer.move(rate, self.step, count, self._network.clip))
        self._count(sums, draw, scores.detach(), loss.detach())

    def _weights(self, draw: Any, negatives: Tensor) -> Tensor:
        """The sampler's weights; computed again where the gradient is to flow through them."""  # (B, k)
        if not self._flows:
            weights: Tensor = draw.weights
            return weights
        logits = self._sampler.settings.logits(negatives, draw.log_q)
        return torch.softmax(logits.masked_fill(draw.ids < 0, -math.inf), 1)

    def _count(self, sums: Sums, draw: Any, scores: Tensor, loss: Tensor) -> None:
        level = torch.zeros_like(scores)
        parts = {
            "loss": loss,
            "start_loss": self._loss(level[:, 0], level[:, 1:], draw.weights) * len(scores),
            "vanished": (self._strongest(scores) < _VANISHED).sum(),
            "tries": draw.tries.sum(),
        }
        sums.add(parts if draw.violated is None else {**parts, "violated": draw.violated.sum()})

    def _strongest(self, scores: Tensor) -> Tensor:
        """The steepest slope of the loss by any score of a row, weights aside."""  # (B,)
        scores.requires_grad_()
        loss = self._loss(scores[:, 0], scores[:, 1:], None) * len(scores)
        slopes = torch.autograd.grad(loss, scores)[0].abs()
        # In a loss of pairs the positive's slope is the sum over its pairs, not one of them.
        return (slopes if self._config.loss in _OWN_SLOPE else slopes[:, 1:]).amax(1)


def network_arrays(network: nn.Module) -> dict[str, Array]:
    """Parameters and buffers as arrays by the names of a saved folder; on the CPU, on the same memory."""
    return {_PREFIX + name: value.detach().cpu().numpy() for name, value in network.state_dict().items()}


def load_network(network: nn.Module, arrays: Mapping[str, Any]) -> None:
    """Copy what :func:`network_arrays` gave, arrays or tensors, back into a network of the same shapes."""
    state = network.state_dict()
    given = {name.removeprefix(_PREFIX): array for name, array in arrays.items() if name.startswith(_PREFIX)}
    if state.keys() != given.keys():
        odd = ", ".join(sorted(state.keys() ^ given.keys()))
        raise ValueError(f"the network has other parameters than were saved: {odd}")
    for name, value in state.items():
        saved = given[name] if isinstance(given[name], Tensor) else torch.from_numpy(np.array(given[name]))
        saved = (
            saved.reshape(value.shape) if saved.numel() == value.numel() == 1 else saved
        )  # files know no 0 dimensions
        if saved.shape != value.shape or saved.dtype != value.dtype:
            raise ValueError(f"{name} is {saved.dtype} {tuple(saved.shape)}, not {value.dtype} {tuple(value.shape)}")
        with torch.no_grad():
            value.copy_(saved)


def _mixed(seed: int, step: int) -> int:
    """One number for the dropout of a step."""
    return int(np.random.SeedSequence([seed, step]).generate_state(1, np.uint64)[0])


def _seed(device: torch.device, seed: int) -> None:
    """Seed the random numbers of the step, on the CPU and on the device."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.default_generators[device.index].manual_seed(seed)


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
        with torch.random.fork_rng(devices=[device for device in (device_of(network),) if device.type == "cuda"]):
            yield
    finally:
        torch.set_num_threads(before)
        network.eval()
