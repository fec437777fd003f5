"""Matrix factorization on a GPU: tables, log and loop stay on the device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vitalrank._util.devices import enough_memory
from vitalrank._util.typing import Array, DeviceArray
from vitalrank.config import TrainConfig
from vitalrank.engines.base import Totals, VectorShape
from vitalrank.engines.correcting import corrected
from vitalrank.engines.cuda_graphs import capture, new_stream
from vitalrank.engines.mf import MFEngine
from vitalrank.engines.mf_gpu_arrays import GRAPH_STEPS, bytes_needed, new_device_arrays
from vitalrank.interactions import Interactions
from vitalrank.kernels.gpu.training.accumulators import Accumulators, new_accumulators
from vitalrank.kernels.gpu.training.batches import Batch, load_batch, new_batch
from vitalrank.kernels.gpu.training.permutation import write_permutation
from vitalrank.kernels.gpu.training.stats import totals_of
from vitalrank.kernels.gpu.training.step import train_step
from vitalrank.samplers.base import BoundSampler
from vitalrank.samplers.draws import Draw, SampleRequest
from vitalrank.samplers.settings import CallableSampler

_PREFETCH = 8  # most negatives per positive drawn ahead: more of them take much memory, and drawing ahead saves little
_ADVICE = "use a smaller dim, a smaller log, or device='cpu'"


class GpuEngine(MFEngine):
    """Trains by Triton kernels; steps are captured once as a CUDA graph and replayed, so no Python runs between them.

    The cursor, the epoch's permutation and the learning rates lie on the device and are rewritten each epoch.

    ``device`` is a GPU; or the CPU, where Triton interprets the kernels.
    """

    def __init__(
        self, train: Interactions, sampler: CallableSampler, config: TrainConfig, shape: VectorShape, device: str
    ) -> None:
        super().__init__(train, sampler, config, shape)
        self._device = device
        self._graph: torch.cuda.CUDAGraph | None = None
        self._positive_weight = 1.0  # in the loss, by the number of negatives
        self._item_acc: Accumulators | None = None
        with enough_memory(device, bytes_needed(train, shape.width, config), _ADVICE):
            self._arrays = new_device_arrays(train, config, shape, int(self._sampler.seed), device)

    @property
    def users(self) -> Tensor:
        """The users' vectors, live."""  # (U, d)
        return self._arrays.tables.users

    @property
    def items(self) -> Tensor:
        """The items' vectors, live."""  # (I, d)
        return self._arrays.tables.items

    def values(self) -> dict[str, Array]:
        return {name: table.cpu().numpy() for name, table in self._live().items()}

    def state(self) -> dict[str, Array]:
        return {name: table.cpu().numpy() for name, table in self._live_state().items()}

    def _live_state(self) -> dict[str, Tensor]:
        return {"users": self._arrays.tables.user_state, "items": self._arrays.tables.item_state}

    def _assign(self, into: Tensor, array: DeviceArray) -> None:
        into.copy_(array if isinstance(array, Tensor) else torch.from_numpy(np.array(array)))

    def copy(self) -> dict[str, Tensor]:
        return {name: table.clone() for name, table in self._live().items()}

    def to_numpy(self, copy: Mapping[str, Any]) -> dict[str, Array]:
        return {name: np.asarray(torch.as_tensor(array).cpu()) for name, array in copy.items()}

    def is_finite(self) -> bool:
        # The extremes of each table suffice, without a table of flags; NaN shows in both.
        extremes = torch.stack([end for table in (self.users, self.items) for end in torch.aminmax(table)])
        return bool(torch.isfinite(extremes).all())

    # ---------------------------------------------------------------------------------------------- an epoch

    def run_epoch(self, epoch: int, rate: Callable[[float], float], on_progress: Callable[[Totals], None]) -> Totals:
        self._sampler.reset()
        size = len(self._train)
        write_permutation(self._arrays.permutation, size, self._config.seed, epoch)
        sizes = self._step_sizes(rate)
        self._arrays.step_state.rates.copy_(torch.tensor(sizes, dtype=torch.float32))
        self._arrays.step_state.cursor.copy_(torch.tensor([0, self.step]))
        with enough_memory(self._device, 0, _ADVICE):
            self._run_steps(size // self._batch)
            if size % self._batch:
                self._train_batch(0, size % self._batch, self.step + len(sizes) - 1)
            totals = self._totals()
        self.step += len(sizes)
        on_progress(totals)
        return totals

    def _run_steps(self, full: int) -> None:
        """Train the epoch's full batches, by graph where there are enough of them."""
        length = 1 if self._sampler.needs_refresh else _even_share(full, GRAPH_STEPS)
        done = 0
        while done < full:
            self._refresh(self.step + done)
            if self._graph is None and self._can_capture() and full - done >= length:
                self._graph = self._captured(length, self.step + done)
            if self._graph is not None and full - done >= length:
                self._graph.replay()
                done += length
            else:
                self._train_batch(0, self._batch, self.step + done)
                self._arrays.step_state.cursor[:1].add_(1)
                done += 1

    def _refresh(self, step: int) -> None:
        """Rebuild the sampler's index, which a replayed step only reads; such a graph is one step long."""
        if isinstance(self._sampler, BoundSampler) and self._sampler.needs_refresh:
            draws = self._batch * self._config.negatives
            self._sampler.refresh(self._sampler.device_backend(self._device), self.items, step, draws)

    def _can_capture(self) -> bool:
        """Whether the kernels have been compiled, by a first step, and the sampler allows a graph."""
        return self._device != "cpu" and self._item_acc is not None and self._sampler.graph_capturable

    def _captured(self, length: int, step: int) -> torch.cuda.CUDAGraph:
        """``length`` steps as one graph; draws that read no vectors run ahead of them, on a stream of their own."""
        alive = []  # a batch drawn ahead must not reuse memory that an earlier step still reads

        def steps(stream: torch.cuda.Stream) -> None:
            ahead = not self._sampler.needs_scores and self._config.negatives <= _PREFETCH
            draws = new_stream(self._device) if ahead else stream
            draws.wait_stream(stream)
            for offset in range(length):
                with torch.cuda.stream(draws):
                    drawn = self._draw(offset, self._batch, step + offset)
                stream.wait_stream(draws)
                self._update(offset, *drawn)
                if ahead:
                    alive.append(drawn)
            self._arrays.step_state.cursor[:1].add_(length)

        return capture(self._device, steps)

    def _train_batch(self, offset: int, size: int, step: int) -> None:
        self._update(offset, *self._draw(offset, size, step))

    def _draw(self, offset: int, size: int, step: int) -> tuple[Batch, Draw]:
        """The batch ``offset`` after the cursor, and its negatives."""
        arrays = self._arrays
        width = self.users.shape[1] if self._sampler.needs_scores else 0
        batch = new_batch(size, width, self._device, weighted=arrays.positives.weights is not None)
        load_batch(arrays.permutation, offset, arrays.step_state, arrays.positives, self.users, batch)
        if not isinstance(self._sampler, BoundSampler):
            return batch, corrected(self._adapted_draw(batch, step), self._config, torch)
        number = arrays.step_state.steps[offset : offset + 1]
        counter = arrays.counter._replace(step=number, rows=arrays.counter.rows[:size])
        request = SampleRequest(
            self._sampler.device_backend(self._device), batch.users, batch.positives, counter, step,
            self._config.negatives, batch.queries, self.items, with_log_q=self._config.correct != "none",
        )  # fmt: skip
        return batch, corrected(self._sampler.draw(request), self._config, torch)

    def _adapted_draw(self, batch: Batch, step: int) -> Draw:
        """A custom sampler's draw, in the types that the kernels read."""
        users, positives = batch.users.long(), batch.positives.long()
        draw = self._sampler(batch.queries, self.items, users, positives, step=step, k=self._config.negatives)

        def cast(array: object, kind: torch.dtype) -> Tensor:
            return torch.as_tensor(array, dtype=kind, device=self._device).contiguous()

        violated = None if draw.violated is None else cast(draw.violated, torch.bool)
        log_q, mix = (None if part is None else cast(part, torch.float32) for part in (draw.log_q, draw.mix))
        return Draw(
            cast(draw.ids, torch.int64), cast(draw.weights, torch.float32), cast(draw.tries, torch.int32),
            log_q, violated, mix,
        )  # fmt: skip

    def _update(self, offset: int, batch: Batch, draw: Draw) -> None:
        arrays = self._arrays
        if self._item_acc is None:  # some samplers choose the number of negatives themselves
            occurrences = self._batch * (1 + draw.ids.shape[1])
            self._item_acc = new_accumulators(self._train.n_items, self.items.shape[1], occurrences, self._device)
        config = self._config_for(draw.ids.shape[1])
        self._positive_weight = config.positive_weight
        train_step(
            config, offset, arrays.step_state, draw.ids, draw.weights, draw.mix, draw.tries,
            draw.violated, arrays.positives, batch, arrays.tables, arrays.stats, arrays.user_acc, self._item_acc,
        )  # fmt: skip

    def _totals(self) -> Totals:
        """The epoch's sums, in one read of the device."""
        positives = len(self._train)
        loss, weight, tries, trained, vanished, violated = totals_of(self._arrays.stats, positives)
        if self._sampler.counts is not None:
            self._sampler.counts.gather()
        return Totals(
            positives=positives,
            skipped=positives - int(trained),
            loss=loss,
            start_loss=self._loss.at_start(self._config.margin, weight, trained * self._positive_weight),
            tries=int(tries),
            vanished=int(vanished),
            violated=int(violated) if self._sampler.has_margin else None,
        )


def _even_share(steps: int, most: int) -> int:
    """A length near ``most`` that leaves few steps over.

    Examples
    --------
    >>> _even_share(311, 64), _even_share(59, 64)
    (62, 59)
    """
    graphs = -(-steps // most)
    return steps // graphs if graphs else 1
