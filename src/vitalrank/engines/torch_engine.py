"""The engine of everything in torch: autograd for the network, the samplers on its vectors, one step per batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from vitalrank._util.devices import enough_memory
from vitalrank._util.memory import kept_for_reuse
from vitalrank._util.threads import check_not_forked
from vitalrank.config import TrainConfig
from vitalrank.engines.base import Engine, Totals
from vitalrank.engines.cuda_graphs import capture
from vitalrank.engines.network import Network, device_of, modes_of, set_modes
from vitalrank.engines.network_state import live_state, load_network, network_arrays
from vitalrank.engines.torch_batches import Feed
from vitalrank.engines.torch_optimizer import new_optimizer
from vitalrank.engines.torch_totals import Sums, TorchTotals
from vitalrank.interactions import Interactions
from vitalrank.interactions.histories import Histories
from vitalrank.kernels.optimizers import OPTIMIZERS
from vitalrank.losses import VANISHED, find_loss
from vitalrank.models.networks import Dropout
from vitalrank.samplers.adapter import as_bound
from vitalrank.samplers.base import BoundSampler, SampleRequest

Array = NDArray[Any]
_READ_EVERY = {"cpu": 1, "cuda": 50}  # steps between two looks at the sums, for each of which the host waits
_STEPS_BEFORE_CAPTURE = 3


class TorchEngine(Engine):
    """Trains a network with a bound sampler, on the device that the network lies on.

    A step sums the gradients of its batch: rows of embeddings move by the sum, as in matrix factorization, and only
    when touched; everything else moves by the mean, clipped. Dropout depends on the seed and the step alone. On a GPU
    the step is captured once and replayed, where network and sampler allow it.

    Parameters
    ----------
    network
        What to train, in place.
    train, sampler, config
        The log, the sampler bound to it, the settings.
    """

    def __init__(self, network: Network, train: Interactions, sampler: Any, config: TrainConfig) -> None:
        check_not_forked()
        self.step = 0
        self._network = network
        self._modes = _training_modes(network)
        self._sampler = as_bound(sampler, train, config.seed)
        self._config = config
        self._loss = network.loss(config)
        self._device = device_of(network)
        self._optimizer = new_optimizer(network, config.optimizer)
        self.histories = Histories(train, self._device)
        self._lookups = [
            _decayed(module, config.reg) for module in network.modules() if isinstance(module, nn.Embedding)
        ]
        usable, self._left_out = _usable(train, network)
        self._batch = config.batch_of(len(train))
        self._feed = Feed(usable, self._batch, self._device)
        self._sums = Sums(self._device)
        self._graph: torch.cuda.CUDAGraph | None = None
        self._waits = _STEPS_BEFORE_CAPTURE
        self._counter = self._new_counter() if self._device.type == "cuda" else None

    def _new_counter(self) -> Any:
        """The random counter of the steps, on the device, for the sampler and every dropout."""
        from vitalrank.kernels.gpu import new_counter

        rows = torch.arange(self._batch, dtype=torch.int32, device=self._device)
        counter = new_counter(int(self._sampler.seed), 0, rows)
        drops = (module for module in self._network.modules() if isinstance(module, Dropout))
        for layer, module in enumerate(drops):
            module.counter, module.layer = counter, layer
        return counter

    def close(self) -> None:
        """Let go of the network."""
        for lookup in self._lookups:
            lookup.remove()
        for module in self._network.modules():
            if isinstance(module, Dropout):
                module.counter = None
        for parameter in self._network.parameters():
            parameter.grad = None

    @property
    def run_identity(self) -> dict[str, Any]:
        free = self._device.type != "cpu" or not self._network.depends_on_threads
        return {} if free else {"threads": self._config.threads or torch.get_num_threads()}

    def values(self) -> dict[str, Array]:
        return network_arrays(self._network)

    def state(self) -> dict[str, Array]:
        return self._optimizer.state

    def copy(self) -> dict[str, Tensor]:
        """The values as they are now, on the device."""
        return {name: value.clone() for name, value in live_state(self._network).items()}

    def to_numpy(self, copy: Mapping[str, Any]) -> dict[str, Array]:
        return {name: torch.as_tensor(value).cpu().numpy() for name, value in copy.items()}

    def is_finite(self) -> bool:
        found = [value.isfinite().all() for value in self._network.state_dict().values()]
        return not found or bool(torch.stack(found).all())

    def load(self, values: Mapping[str, Any], state: Mapping[str, Array] | None = None) -> None:
        load_network(self._network, values)
        if state is not None:
            self._optimizer.load(state)

    def run_epoch(self, epoch: int, rate: Callable[[float], float], on_progress: Callable[[Totals], None]) -> Totals:
        self._sampler.reset()
        counts = self._feed.counts
        sizes = OPTIMIZERS[self._config.optimizer].step_sizes(rate, sum(counts), self._batch, self.step)
        self._feed.begin(self._config.seed, epoch, sizes)
        if self._counter is not None:
            self._counter.step.fill_(self.step)
        totals = replace(self._left_out)
        device = str(self._device)
        with (
            _training(self._network, self._modes, self._config.threads),
            enough_memory(device, 0, "use a smaller batch or dim"),
        ):
            for number, count in enumerate(counts, start=1):
                if (
                    self._counter is None or not self._network.graph_capturable
                ):  # else all that is random goes by the counter
                    self._network.reseed(_mixed(self._config.seed, self.step))
                self._train_batch(count)
                self.step += 1
                totals.positives += count
                if self.step % _READ_EVERY[self._device.type] and number < len(counts):
                    continue
                self._sums.move_to(totals)
                on_progress(totals)
                if not math.isfinite(totals.loss):
                    break
        if self._sampler.counts is not None:
            self._sampler.counts.gather()
        return totals

    def _train_batch(self, count: int) -> None:
        """One step on the next positives, by the graph if there is one for so many."""
        if count < self._batch or not self._can_capture():
            self._take_step(count)
            return
        if self._graph is None and self._waits:  # for kernels to be compiled and libraries to be set up
            self._waits -= 1
            self._take_step(count)
            return
        if self._graph is None:
            self._graph = capture(self._device, lambda stream: self._take_step(count))
        self._graph.replay()

    def _can_capture(self) -> bool:
        steady = self._network.graph_capturable and self._sampler.graph_capturable and not self._sampler.needs_refresh
        return self._device.type == "cuda" and steady

    def _take_step(self, count: int) -> None:
        rows = self._feed.rows(count)
        users, positives = self.histories.users[rows].long(), self.histories.items[rows].long()
        context = self.histories.before(rows, self._network.length) if self._network.length else None
        reduced = self._config.precision == "bfloat16"
        with torch.autocast(self._device.type, torch.bfloat16, enabled=reduced, cache_enabled=False):
            encoded = self._network.encode(users, context)
            asked = self._network.sampler_inputs(encoded) if self._sampler.needs_scores else {}
            draw = self._draw(users, positives, asked)
            ids = torch.cat([positives[:, None], draw.ids.clamp(min=0)], 1)  # (B, 1 + k)
            scores = self._network.score(encoded, ids).float()
            extra = self._network.auxiliary_loss()
        loss = self._loss(scores[:, 0], scores[:, 1:], self._weights(draw, scores[:, 1:])) * count
        (loss if extra is None else loss + extra).backward()  # type: ignore[no-untyped-call]
        self._network.after_step(self._optimizer.move(self._feed.size(), count, self._network.clip))
        self._count(draw, scores.detach(), loss.detach())
        self._feed.advance(count)
        if self._counter is not None:
            self._counter.step.add_(1)

    def _draw(self, users: Tensor, positives: Tensor, asked: Mapping[str, Any]) -> Any:
        """Negatives; on a GPU without a look at the arguments, for which the host would have to wait."""
        k = self._config.negatives
        if not isinstance(self._sampler, BoundSampler):
            return self._sampler(users=users, positives=positives, step=self.step, k=k, **asked)
        if self._counter is None or "score" in asked:
            return self._sampler(users=users, positives=positives, step=self.step, k=k, check_finite=False, **asked)
        counter = self._counter._replace(rows=self._counter.rows[: len(users)])
        vectors = asked.get("queries"), asked.get("item_table")
        backend = self._sampler.device_backend(str(self._device))
        request = SampleRequest(
            backend,
            users.int(),
            positives.int(),
            counter,
            self.step,
            k,
            *vectors,
            with_log_q=self._sampler.differentiable_weights,
        )
        return self._sampler.draw(request)

    def _weights(self, draw: Any, negatives: Tensor) -> Tensor:
        """The sampler's weights; computed again where the gradient is to flow through them."""  # (B, k)
        if not self._sampler.differentiable_weights:
            weights: Tensor = draw.weights
            return weights
        logits = self._sampler.logits(negatives, draw.log_q)
        return torch.softmax(logits.masked_fill(draw.ids < 0, -math.inf), 1)

    def _count(self, draw: Any, scores: Tensor, loss: Tensor) -> None:
        level = torch.zeros_like(scores)
        parts = {
            "loss": loss,
            "start_loss": self._loss(level[:, 0], level[:, 1:], draw.weights) * len(scores),
            "vanished": (self._strongest(scores) < VANISHED).sum(),
            "tries": draw.tries.sum(),
        }
        self._sums.add(parts if draw.violated is None else {**parts, "violated": draw.violated.sum()})

    def _strongest(self, scores: Tensor) -> Tensor:
        """The steepest slope of the loss by any score of a row, weights aside."""  # (B,)
        scores.requires_grad_()
        loss = self._loss(scores[:, 0], scores[:, 1:], None) * len(scores)
        slopes = torch.autograd.grad(loss, scores)[0].abs()
        # In a loss of pairs the positive's slope is the sum over its pairs, not one of them.
        return (slopes[:, 1:] if find_loss(self._config.loss).is_pairwise else slopes).amax(1)


def _usable(train: Interactions, network: Network) -> tuple[Array, TorchTotals]:
    """Rows to train on, and the sums that every epoch begins with.

    Not users who have nothing left to draw; nor, where a network needs a history, anyone's first item.
    """
    usable = np.repeat(train.user_degree < train.n_items, train.user_degree)  # (N,)
    first = np.zeros(len(train), np.bool_)
    first[train.indptr[:-1][train.user_degree > 0]] = True
    without_history = int(np.count_nonzero(usable & first)) if network.length else None
    rows = np.flatnonzero(usable & ~first if network.needs_history else usable)
    left_out = len(train) - len(rows)
    return rows, TorchTotals(left_out, left_out, without_history=without_history, are_left_out=network.needs_history)


def _mixed(seed: int, step: int) -> int:
    """One number for all that is random in a step."""
    return int(np.random.SeedSequence([seed, step]).generate_state(1, np.uint64)[0])


def _decayed(table: nn.Embedding, reg: float) -> Any:
    """Add ``reg`` times its value to the gradient of every row looked up in ``table``, until removed."""

    def looked_up(module: nn.Module, ids: Any, rows: Tensor) -> None:
        if reg and rows.requires_grad:
            value = rows.detach()
            rows.register_hook(lambda gradient: torch.add(gradient, value, alpha=reg))  # type: ignore[no-untyped-call]

    return table.register_forward_hook(looked_up)


def _training_modes(network: Network) -> dict[nn.Module, bool]:
    """What trains: all, but not a part that its owner has set to rest while others are not."""
    modes = modes_of(network)
    owned = [training for part, training in modes.items() if part is not network]
    return modes if any(owned) else dict.fromkeys(modes, True)


@contextmanager
def _training(network: Network, modes: Mapping[nn.Module, bool], threads: int | None) -> Iterator[None]:
    """Dropout and gradients on, at most so many threads, the random numbers of the process left as they were."""
    before = torch.get_num_threads()
    devices = [device for device in (device_of(network),) if device.type == "cuda"]
    set_modes(modes)
    try:
        torch.set_num_threads(threads or before)
        with kept_for_reuse(), torch.enable_grad(), torch.random.fork_rng(devices, enabled=network.uses_global_rng):
            yield
    finally:
        torch.set_num_threads(before)
        network.eval()
