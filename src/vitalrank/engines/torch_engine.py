"""The engine of everything in torch: autograd for the network, the samplers on its vectors, one step per batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from vitalrank._util.devices import enough_memory
from vitalrank._util.threads import check_not_forked
from vitalrank._util.typing import Array
from vitalrank.config import TrainConfig
from vitalrank.engines.base import Engine, Totals
from vitalrank.engines.correcting import corrected
from vitalrank.engines.cuda_graphs import capture
from vitalrank.engines.network import Network, RandomModule, device_of
from vitalrank.engines.network_state import live_state, load_network, network_arrays
from vitalrank.engines.torch_batches import EpochBatches
from vitalrank.engines.torch_loss import BatchLoss
from vitalrank.engines.torch_optimizer import new_optimizer
from vitalrank.engines.torch_rows import training_rows
from vitalrank.engines.torch_totals import DeviceTotals, TorchTotals
from vitalrank.engines.training_mode import decay_lookups, step_seed, training_mode, training_modes
from vitalrank.interactions import Interactions
from vitalrank.interactions.histories import Histories
from vitalrank.kernels.optimizers import OPTIMIZERS
from vitalrank.samplers.adapter import as_bound
from vitalrank.samplers.base import BoundSampler
from vitalrank.samplers.draws import Draw, SampleRequest, WholeBatch
from vitalrank.samplers.settings import CallableSampler

if TYPE_CHECKING:
    from vitalrank.kernels.gpu import Counter

_READ_EVERY = {"cpu": 1, "cuda": 50}  # steps between two reads of the totals, for each of which the host waits
_WARM_UP_STEPS = 3


class TorchEngine(Engine):
    """Trains a network with a bound sampler, on the device that the network lies on.

    A step sums the gradients of its batch: rows of embeddings are updated by the sum, as in matrix factorization, and
    only those of the batch; everything else by the mean, clipped. Dropout depends on the seed and the step alone. On a
    GPU the step is captured once and replayed, where network and sampler allow it.

    Parameters
    ----------
    network
        What to train, in place.
    train, sampler, config
        The log, the sampler bound to it, the settings.
    """

    def __init__(self, network: Network, train: Interactions, sampler: CallableSampler, config: TrainConfig) -> None:
        check_not_forked()
        self.step = 0
        self._network = network
        self._modes = training_modes(network)
        self._sampler = as_bound(sampler, train, config.seed)
        self._config = config
        self._loss = BatchLoss(network.loss(config), self._sampler, config, train.n_items)
        self._device = device_of(network)
        self._optimizer = new_optimizer(network, config.optimizer)
        self.histories = Histories(train, self._device)
        self._lookups = [
            decay_lookups(module, config.reg) for module in network.modules() if isinstance(module, nn.Embedding)
        ]
        self._rows = training_rows(train, network, self.histories)
        self._batch = config.batch_of(len(train))
        self._batches = EpochBatches(self._rows.numbers, self._batch, self._device)
        self._running = DeviceTotals(self._device)
        self._log_weights = None if train.weights is None else torch.tensor(train.weights, device=self._device)  # (N,)
        self._threads = config.threads
        self._read_every = _READ_EVERY[self._device.type]
        self._part: WholeBatch | None = None  # of the batch that is drawn for, where ranks share it
        self._graph: torch.cuda.CUDAGraph | None = None
        self._steps_to_warm_up = _WARM_UP_STEPS
        self._counter = self._new_counter() if self._device.type == "cuda" else None

    def _new_counter(self) -> Counter:
        """The random counter of the steps, on the device, for the sampler and every random layer."""
        from vitalrank.kernels.gpu import new_counter

        most = self._batch * self._rows.most_positives
        rows = torch.arange(most, dtype=torch.int32, device=self._device)
        counter = new_counter(int(self._sampler.seed), 0, rows)
        random = (module for module in self._network.modules() if isinstance(module, RandomModule))
        for layer, module in enumerate(random):
            module.counter, module.layer = counter, layer
        return counter

    def close(self) -> None:
        """Remove what the engine has attached to the network."""
        for lookup in self._lookups:
            lookup.remove()
        for module in self._network.modules():
            if isinstance(module, RandomModule):
                module.counter = None
        for parameter in self._network.parameters():
            parameter.grad = None
        self._network.sample_weight = None

    @property
    def run_identity(self) -> dict[str, Any]:
        free = self._device.type != "cpu" or not self._network.depends_on_threads
        threads = {} if free else {"threads": self._threads or torch.get_num_threads()}
        return {**threads, "ranks": 1}

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
        counts = self._batches.counts
        sizes = OPTIMIZERS[self._config.optimizer].step_sizes(rate, sum(counts), self._batch, self.step)
        self._batches.begin_epoch(self._config.seed, epoch, sizes)
        if self._counter is not None:
            self._counter.step.fill_(self.step)
        totals = replace(self._rows.left_out)
        device = str(self._device)
        with (
            training_mode(self._network, self._modes, self._threads),
            enough_memory(device, 0, "use a smaller batch or dim"),
        ):
            for number, count in enumerate(counts, start=1):
                # Otherwise all random numbers come from the counter.
                if self._counter is None or not self._network.graph_capturable:
                    self._network.reseed(self._seed())
                totals.positives += self._train_batch(count)
                self.step += 1
                if self.step % self._read_every and number < len(counts):
                    continue
                self._flush(totals)
                on_progress(totals)
                if not math.isfinite(totals.loss):
                    break
        if self._sampler.counts is not None:
            self._sampler.counts.gather()
        return totals

    def _seed(self) -> int:
        """The seed of the random numbers of this step."""
        return step_seed(self._config.seed, self.step)

    def _flush(self, totals: TorchTotals) -> None:
        """Add what the last steps have counted."""
        totals.add(self._running.take())

    def _train_batch(self, count: int) -> int:
        """One step on the next rows, by the graph if there is one for so many; returns the number of positives."""
        if count < self._batch or not self._can_capture():
            return self._step_on(count)
        if self._graph is None and self._steps_to_warm_up:  # kernels are compiled, libraries set up
            self._steps_to_warm_up -= 1
            return self._step_on(count)
        if self._graph is None:
            self._graph = capture(self._device, lambda stream: self._step_on(count))
        self._graph.replay()
        return count  # a row is one positive: windows of sequences have different sizes and are not captured

    def _can_capture(self) -> bool:
        capturable = self._network.graph_capturable and self._sampler.graph_capturable
        return self._device.type == "cuda" and capturable and not self._sampler.needs_refresh

    def _step_on(self, count: int) -> int:
        positives = self._gradients(self._batches.rows(count))
        self._network.after_step(self._optimizer.step(self._batches.step_size(), positives, self._network.clip))
        self._batches.advance(count)
        if self._counter is not None:
            self._counter.step.add_(1)
        return positives

    def _gradients(self, numbers: Tensor) -> int:
        """Leave the gradients of a batch in the parameters; returns the number of positives."""
        return self._backward(numbers)

    def _backward(self, numbers: Tensor) -> int:
        reduced = self._config.precision == "bfloat16"
        with torch.autocast(self._device.type, torch.bfloat16, enabled=reduced, cache_enabled=False):
            batch = self._rows.batch(self._network, numbers)
            self._network.sample_weight = None if self._log_weights is None else self._log_weights[batch.rows]
            inputs = self._network.sampler_inputs(batch.encoded) if self._sampler.needs_scores else {}
            draw = corrected(self._draw(batch.users, batch.positives, inputs), self._config, torch)
            ids = torch.cat([batch.positives[:, None], draw.ids.clamp(min=0)], 1)  # (P, 1 + k)
            scores = self._loss.scores(self._network.score(batch.encoded, ids).float(), draw)
            auxiliary = self._network.auxiliary_loss()
        of_positives = self._network.sample_weight
        loss = self._loss.mean(scores, self._loss.weights(draw, scores[:, 1:]), of_positives) * len(batch)
        (loss if auxiliary is None else loss + auxiliary).backward()  # type: ignore[no-untyped-call]
        self._running.add(self._loss.sums(draw, scores.detach(), loss.detach(), of_positives))
        return len(batch)

    def _draw(self, users: Tensor, positives: Tensor, inputs: Mapping[str, Any]) -> Draw:
        """Draw negatives; on a GPU without checks of the arguments, for which the host would have to wait."""
        k, part = self._config.negatives, self._part
        of_part: dict[str, Any] = {} if part is None else {"rows": part.rows}
        if not isinstance(self._sampler, BoundSampler):
            return self._sampler(users=users, positives=positives, step=self.step, k=k, **of_part, **inputs)
        if self._counter is None or "score" in inputs:
            return self._sampler(
                users=users, positives=positives, step=self.step, k=k, check_finite=False, whole=part, **of_part,
                **inputs,
            )  # fmt: skip
        rows: Any = self._counter.rows
        counter = self._counter._replace(rows=rows[: len(users)] if part is None else rows[part.rows])
        vectors = inputs.get("queries"), inputs.get("item_table")
        backend = self._sampler.device_backend(str(self._device))
        request = SampleRequest(
            backend,
            users.int(),
            positives.int(),
            counter,
            self.step,
            k,
            *vectors,
            with_log_q=self._sampler.differentiable_weights or self._config.correct != "none",
            whole=part,
        )
        return self._sampler.draw(request)
