"""The engine of matrix factorization on a GPU: tables, log and loop stay on the device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vitalrank._util.devices import enough_memory
from vitalrank.config import TrainConfig
from vitalrank.engines.base import Engine, Totals
from vitalrank.engines.cuda_graphs import capture, new_stream
from vitalrank.engines.mf_cpu import new_tables, step_config_of
from vitalrank.interactions import Interactions
from vitalrank.kernels.gpu import Counter, new_counter
from vitalrank.kernels.gpu.training.accumulators import Sums, new_sums
from vitalrank.kernels.gpu.training.batches import Batch, Log, Now, load_batch, new_batch
from vitalrank.kernels.gpu.training.optimizers import Tables
from vitalrank.kernels.gpu.training.permutation import new_permutation, write_permutation
from vitalrank.kernels.gpu.training.stats import Felt, totals_of
from vitalrank.kernels.gpu.training.step import train_step
from vitalrank.kernels.optimizers import OPTIMIZERS
from vitalrank.kernels.step_config import StepConfig
from vitalrank.losses import find_loss
from vitalrank.samplers.adapter import as_bound
from vitalrank.samplers.base import BoundSampler, Draw, SampleRequest

Array = NDArray[Any]
_GRAPH_STEPS = 64  # of one captured graph: long enough to hide its launch, short enough to capture quickly
_AHEAD = 8  # negatives a positive: with more of them, what is drawn ahead takes much room and a draw saves little
_ADVICE = "use a smaller dim, a smaller log, or device='cpu'"


class GpuEngine(Engine):
    """Trains user and item vectors with a bound sampler.

    Steps are captured once as a graph and replayed, so that no Python runs between them; the cursor, the epoch's order
    and the learning rates lie on the device and are renewed each epoch.

    Parameters
    ----------
    train, sampler, config
        The log, the sampler bound to it, the settings.
    dim, bias
        Columns of a vector; whether one more holds the item's bias, with the constant 1 on the user's side.
    device
        A GPU; or the CPU, where Triton interprets the kernels.
    """

    def __init__(
        self, train: Interactions, sampler: Any, config: TrainConfig, dim: int, bias: bool, device: str
    ) -> None:
        self.step = 0
        self._train = train
        self._sampler = as_bound(sampler, train, config.seed)
        self._config = config
        self._loss = find_loss(config.loss)
        self._step_config: StepConfig = step_config_of(config, self._sampler, bias)
        self._stride = min(config.batch_of(len(train)), len(train))
        self._device = device
        self._graph: torch.cuda.CUDAGraph | None = None
        self._item_sums: Sums | None = None
        with enough_memory(device, _bytes_needed(train, dim + bias, config), _ADVICE):
            self._place(train, dim, bias)

    def _place(self, train: Interactions, dim: int, bias: bool) -> None:
        device, size, width = self._device, len(train), dim + bias
        slots = self._step_config.optimizer.slots
        host = new_tables(train, dim, bias, 0, self._config.seed)
        self._tables = Tables(
            torch.from_numpy(np.ascontiguousarray(host.users[:, 0])).to(device),
            torch.from_numpy(host.items).to(device),
            torch.zeros((train.n_users, slots, width), device=device),
            torch.zeros((train.n_items, slots, width), device=device),
        )
        self._log = Log(_put(train.users, device), _put(train.items, device), self._stride)
        self._permutation = new_permutation(torch.device(device))
        self._steps = -(-size // self._stride)
        self._now = Now(
            torch.zeros(2, dtype=torch.int64, device=device),
            torch.zeros(self._steps, device=device),
            torch.zeros(_GRAPH_STEPS, dtype=torch.int64, device=device),
        )
        self._felt = Felt(
            torch.zeros(size, device=device),
            torch.zeros(size, device=device),
            torch.zeros(size, dtype=torch.int32, device=device),
            torch.zeros(size, dtype=torch.uint8, device=device),
        )
        self._user_sums = new_sums(train.n_users, width, self._stride, device)
        rows = torch.arange(self._stride, dtype=torch.int32, device=device)
        self._counter = new_counter(int(self._sampler.seed), 0, rows)

    @property
    def users(self) -> Tensor:
        """The users' vectors, live."""  # (U, d)
        return self._tables.users

    @property
    def items(self) -> Tensor:
        """The items' vectors, live."""  # (I, d)
        return self._tables.items

    def values(self) -> dict[str, Array]:
        return {name: table.cpu().numpy() for name, table in self._live().items()}

    def state(self) -> dict[str, Array]:
        return {"users": self._tables.user_state.cpu().numpy(), "items": self._tables.item_state.cpu().numpy()}

    def load(self, values: Mapping[str, Any], state: Mapping[str, Array] | None = None) -> None:
        for name, table in self._live().items():
            table.copy_(torch.as_tensor(values[name]))
        if state is not None:
            self._tables.user_state.copy_(torch.from_numpy(np.array(state["users"])))
            self._tables.item_state.copy_(torch.from_numpy(np.array(state["items"])))

    def copy(self) -> dict[str, Tensor]:
        return {name: table.clone() for name, table in self._live().items()}

    def to_numpy(self, copy: Mapping[str, Any]) -> dict[str, Array]:
        return {name: np.asarray(torch.as_tensor(array).cpu()) for name, array in copy.items()}

    def is_finite(self) -> bool:
        # The ends of each table tell it without another table of answers; NaN shows in both.
        ends = torch.stack([end for table in (self.users, self.items) for end in torch.aminmax(table)])
        return bool(torch.isfinite(ends).all())

    def _live(self) -> dict[str, Tensor]:
        return {"users": self.users, "items": self.items}

    # ---------------------------------------------------------------------------------------------- an epoch

    def run_epoch(self, epoch: int, rate: Callable[[float], float], on_progress: Callable[[Totals], None]) -> Totals:
        self._sampler.reset()
        size = len(self._train)
        write_permutation(self._permutation, size, self._config.seed, epoch)
        sizes = self._step_config.optimizer.step_sizes(rate, size, self._stride, self.step)
        self._now.rates.copy_(torch.tensor(sizes, dtype=torch.float32))
        self._now.cursor.copy_(torch.tensor([0, self.step]))
        self._run_steps(size // self._stride)
        if size % self._stride:
            self._take_step(0, size % self._stride, self.step + self._steps - 1)
        self.step += self._steps
        totals = self._totals()
        on_progress(totals)
        return totals

    def _run_steps(self, full: int) -> None:
        """Train the epoch's full batches, by graph where there are enough of them."""
        length = 1 if self._sampler.needs_refresh else _even_share(full, _GRAPH_STEPS)
        done = 0
        while done < full:
            self._renew(self.step + done)
            if self._graph is None and self._can_capture() and full - done >= length:
                self._graph = self._captured(length, self.step + done)
            if self._graph is not None and full - done >= length:
                self._graph.replay()
                done += length
            else:
                self._take_step(0, self._stride, self.step + done)
                self._now.cursor[:1].add_(1)
                done += 1

    def _renew(self, step: int) -> None:
        """Let the sampler build what a replayed step only reads; each graph is one step long then."""
        if self._sampler.needs_refresh:
            draws = self._stride * self._config.negatives
            self._sampler.refresh(self._sampler.device_backend(self._device), self.items, step, draws)

    def _can_capture(self) -> bool:
        """A first step has compiled the kernels."""
        return self._device != "cpu" and self._item_sums is not None and self._sampler.graph_capturable

    def _captured(self, length: int, step: int) -> torch.cuda.CUDAGraph:
        """So many steps as one graph; draws that look at no vectors run ahead of the steps, beside them."""
        kept = []  # what was drawn ahead may not lie where a step still reads

        def steps(stream: Any) -> None:
            is_ahead = not self._sampler.needs_scores and self._config.negatives <= _AHEAD
            ahead = new_stream(self._device) if is_ahead else stream
            ahead.wait_stream(stream)
            for offset in range(length):
                with torch.cuda.stream(ahead):
                    drawn = self._draw(offset, self._stride, step + offset)
                stream.wait_stream(ahead)
                self._move(offset, *drawn)
                if ahead is not stream:
                    kept.append(drawn)
            self._now.cursor[:1].add_(length)

        return capture(self._device, steps)

    def _take_step(self, offset: int, size: int, step: int) -> None:
        self._move(offset, *self._draw(offset, size, step))

    def _draw(self, offset: int, size: int, step: int) -> tuple[Batch, Draw]:
        """The batch ``offset`` after the cursor, and its negatives."""
        batch = new_batch(size, self.users.shape[1] if self._sampler.needs_scores else 0, self._device)
        load_batch(self._permutation, offset, self._now, self._log, self.users, batch)
        if not isinstance(self._sampler, BoundSampler):
            return batch, self._foreign_draw(batch, step)
        number = self._now.steps[offset : offset + 1]
        counter: Counter = self._counter._replace(step=number, rows=self._counter.rows[:size])
        request = SampleRequest(
            self._sampler.device_backend(self._device), batch.users, batch.positives, counter, step,
            self._config.negatives, batch.queries, self.items, with_log_q=False,
        )  # fmt: skip
        return batch, self._sampler.draw(request)

    def _foreign_draw(self, batch: Batch, step: int) -> Draw:
        """What a sampler of the caller's own draws, as the kernels read it."""
        users, positives = batch.users.long(), batch.positives.long()
        draw = self._sampler(batch.queries, self.items, users, positives, step=step, k=self._config.negatives)

        def held(array: Any, kind: torch.dtype) -> Tensor:
            return torch.as_tensor(array, dtype=kind, device=self._device).contiguous()

        violated = None if draw.violated is None else held(draw.violated, torch.bool)
        return Draw(
            held(draw.ids, torch.int64), held(draw.weights, torch.float32), held(draw.tries, torch.int32),
            violated=violated,
        )  # fmt: skip

    def _move(self, offset: int, batch: Batch, draw: Draw) -> None:
        if self._item_sums is None:  # some samplers choose the number of negatives themselves
            places = self._stride * (1 + draw.ids.shape[1])
            self._item_sums = new_sums(self._train.n_items, self.items.shape[1], places, self._device)
        train_step(
            self._step_config, offset, self._now, draw.ids, draw.weights, draw.tries, draw.violated, self._log, batch,
            self._tables, self._felt, self._user_sums, self._item_sums,
        )  # fmt: skip

    def _totals(self) -> Totals:
        """The epoch's sums, in one look at the device."""
        loss, weight, tries, trained, vanished, violated = totals_of(self._felt, len(self._train))
        if self._sampler.counts is not None:
            self._sampler.counts.gather()
        return Totals(
            positives=len(self._train),
            skipped=len(self._train) - int(trained),
            loss=loss,
            start_loss=self._loss.at_start(self._config.margin, weight, trained),
            tries=int(tries),
            vanished=int(vanished),
            violated=int(violated) if self._sampler.has_margin else None,
        )


def _put(array: Array, device: str) -> Tensor:
    return torch.from_numpy(np.array(array, np.int32)).to(device)


def _even_share(whole: int, most: int) -> int:
    """A length near ``most`` that leaves little over.

    Examples
    --------
    >>> _even_share(311, 64), _even_share(59, 64)
    (62, 59)
    """
    parts = -(-whole // most)
    return whole // parts if parts else 1


def _bytes_needed(train: Interactions, width: int, config: TrainConfig) -> int:
    """What the engine keeps on the device."""
    slots = OPTIMIZERS[config.optimizer].slots
    a_row = 4 * width * (1 + slots) + 12  # values and moments, who touched it last
    a_positive = 8 + 13 + 4 + 4  # user and item, what was seen of it, the sampler's sorted row and sieve
    a_user = 8 + 64 + 4  # the sampler's row start, sieve and number of open items
    return (train.n_users + train.n_items) * a_row + len(train) * a_positive + train.n_users * a_user
