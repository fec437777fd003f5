"""Matrix factorization in blocks of items, for item tables that fit no single machine.

A rank has its users' rows and as many blocks as shards of users; see ``mf_blocks_layout`` for the order of training.
What comes out depends on the number of blocks and the seed, not on the number of ranks: buckets that are trained at the
same time share no row, and the numbers of their steps, which the random draws follow, are those of one process.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import astuple, replace
from functools import partial
from typing import Any

import numpy as np

from vitalrank._util.devices import enough_memory
from vitalrank._util.memory import absent, large_zeros
from vitalrank._util.typing import Array
from vitalrank.config import TrainConfig
from vitalrank.distributed.process_group import ProcessGroup
from vitalrank.engines.base import TakesWhole, Totals, VectorShape
from vitalrank.engines.mf import DEVIATION, MFEngine, check_shapes, to_unit_length
from vitalrank.engines.mf_blocks_items import STATE, VECTORS, ItemBlocks, whole_table
from vitalrank.engines.mf_blocks_layout import BlockLayout, block_logs, bucket_of, bucket_sizes, check_blocks
from vitalrank.engines.mf_blocks_samplers import BlockSamplers
from vitalrank.engines.mf_cpu import ADVICE, CpuEngine, StepMemory
from vitalrank.engines.row_shards import RowShards
from vitalrank.interactions import Interactions
from vitalrank.kernels.cpu.training.batches import Batch
from vitalrank.kernels.cpu.training.initial import fill_normal
from vitalrank.kernels.cpu.training.permutation import epoch_permutation
from vitalrank.kernels.cpu.training.step import Tables
from vitalrank.samplers.backends import ArrayBackend
from vitalrank.samplers.draws import Draw
from vitalrank.samplers.settings import BindableSampler


class BlockEngine(CpuEngine):
    """Trains one bucket after another with the steps of ``CpuEngine``; ``sampler`` is bound here, to each block.

    Between epochs the values are spread over the ranks: whole tables are made where they are asked for.
    """

    takes_views = True

    def __init__(
        self,
        train: Interactions,
        sampler: BindableSampler,
        config: TrainConfig,
        shape: VectorShape,
        group: ProcessGroup,
    ) -> None:
        self._group = group
        self._samplers = BlockSamplers(sampler, config.blocks or 1, config.seed)
        check_blocks(train, config.blocks or 1, group.size)
        self._take_layout(train, config, epoch=1)
        layout = self._layout
        self._shards = layout.shards_of(group.rank)
        first = self._shards[0]
        bound = self._samplers.bound_to(first, self._logs[first])
        MFEngine.__init__(self, train, bound, config, shape)
        self._backend = ArrayBackend()
        bounds = [layout.users[shard] for shard in layout.shards]
        self._own = slice(bounds[group.rank], bounds[group.rank + 1])
        self._user_rows = RowShards(group, bounds)
        with enough_memory("cpu", 0, ADVICE):
            self._make_tables(shape.dim, shape.width)
            sizes = len(self._user_table), max(map(len, layout.items)), len(train)
            self._buffers = StepMemory(
                sizes, self._batch, shape.width, self._sampler.needs_scores, train.weights is not None
            )

    def _take_layout(self, train: Interactions, config: TrainConfig, epoch: int) -> None:
        """The blocks of an epoch: their logs, and the sizes of the buckets."""
        self._epoch = epoch
        self._layout = BlockLayout.of(train, config.blocks or 1, self._group.size, config.seed, epoch)
        self._logs = block_logs(train, self._layout, self._group.rank)
        self._sizes = bucket_sizes(self._logs, self._layout, self._group)  # (P, P)
        self._samplers.keep()  # none: those of other blocks of these numbers

    def _make_tables(self, columns: int, width: int) -> None:
        slots, seed = self._step_config.optimizer.slots, self._config.seed
        users = large_zeros((self._own.stop - self._own.start, 1 + slots, width), np.float32)
        fill_normal(users, columns, seed, 0, DEVIATION, first=self._own.start)
        if width > columns:
            users[:, 0, columns] = 1.0
        self._user_table = users
        self._blocks = ItemBlocks(self._layout, self._group, width, slots)
        self._blocks.fill_normal(columns, seed, DEVIATION)
        if self._normalize:
            to_unit_length(users[:, 0])
            for block in self._blocks.resident.values():
                to_unit_length(block.items)

    # --------------------------------------------------------------------------------------- whole and own values

    @property
    def users(self) -> Array:
        """Zeros in the shape of the users' vectors, which are spread over the ranks."""  # (U, d)
        return absent((self._train.n_users, self._user_table.shape[2]), np.float32)

    @property
    def items(self) -> Array:
        """Zeros in the shape of the items' vectors, likewise."""  # (I, d)
        return absent((self._train.n_items, self._user_table.shape[2]), np.float32)

    def values(self) -> dict[str, Array]:
        return {"users": self.users, "items": self.items}

    def state(self) -> dict[str, Array]:
        _, more, width = self._user_table.shape
        sizes = {"users": self._train.n_users, "items": self._train.n_items}
        return {name: absent((size, more - 1, width), np.float32) for name, size in sizes.items()}

    def whole_values(self) -> dict[str, Array]:
        return self._whole(to_all=False)

    def complete(self) -> dict[str, Array]:
        return self._whole(to_all=True)

    def _whole(self, to_all: bool) -> dict[str, Array]:
        users = self._whole_users(self._user_table[:, 0], self.users.shape, to_all)
        return {"users": users, "items": self._blocks.gather(VECTORS, to_all=to_all)}

    def whole_state(self) -> dict[str, Array]:
        users = self._whole_users(self._user_table[:, 1:], self.state()["users"].shape)
        return {"users": users, "items": self._blocks.gather(STATE)}

    def _whole_users(self, own: Array, shape: tuple[int, ...], to_all: bool = False) -> Array:
        return self._user_rows.gather(own, shape, to_all, whole_table(self._group))

    @contextmanager
    def serving(self, model: TakesWhole) -> Iterator[None]:
        self._group.barrier()
        model.take_whole(self.complete())
        try:
            yield
        finally:
            model.take_whole(self.values())  # lets go of them

    def copy(self) -> Mapping[str, Any]:
        return OwnBlocks(users=self._user_table[:, 0].copy(), items=self._blocks.copy())

    def to_numpy(self, copy: Mapping[str, Any]) -> Mapping[str, Array]:
        if not isinstance(copy, OwnBlocks):
            return copy
        users = self._whole_users(copy["users"], self.users.shape)
        return {"users": users, "items": self._blocks.gather(VECTORS, copy["items"])}

    def load(self, values: Mapping[str, Any], state: Mapping[str, Array] | None = None) -> None:
        if isinstance(values, OwnBlocks):
            self._user_table[:, 0] = values["users"]
            self._blocks.restore(values["items"])
            self._epoch = 0  # the blocks are no longer those of the logs
            return
        self._group.barrier()  # rank 0 may have read them from a slow disk
        self._scatter(VECTORS, values, self.values())
        if state is not None:
            self._scatter(STATE, state, self.state())

    def _scatter(self, field: int, arrays: Mapping[str, Array], like: Mapping[str, Array]) -> None:
        """Whole tables of rank 0 to the ranks that have their rows."""
        check_shapes(arrays, like)
        own = self._user_table[:, 0] if field == VECTORS else self._user_table[:, 1:]
        self._user_rows.scatter(arrays["users"], own)
        self._blocks.scatter(field, arrays["items"])

    def is_finite(self) -> bool:
        tables = [self._user_table[:, 0], *(block.items for block in self._blocks.resident.values())]
        return self._group.all_ranks(all(bool(np.isfinite(table).all()) for table in tables))

    # -------------------------------------------------------------------------------------------------- training

    def run_epoch(self, epoch: int, rate: Callable[[float], float], on_progress: Callable[[Totals], None]) -> Totals:
        blocks, begin, before = self._layout.blocks, self.step, 0
        totals = Totals()
        self._group.barrier()
        if epoch != self._epoch and blocks > 1:
            self._take_layout(self._train, self._config, epoch)
            self._blocks.redistribute(self._layout)
        for turn in range(blocks):
            sizes = [int(self._sizes[shard, self._layout.block_at(shard, turn)]) for shard in range(blocks)]
            steps = [-(-size // self._batch) for size in sizes]
            own = []
            for shard in self._shards if math.isfinite(totals.loss) else ():
                self.step = begin + sum(steps[:shard])
                start = before + sum(sizes[:shard])
                rates = [rate((start + first) / len(self._train)) for first in range(0, sizes[shard], self._batch)]
                own.append(self._train_bucket(epoch, shard, turn, rates, partial(_report, on_progress, totals)))
            self._group.barrier()  # a bucket may take others longer than a message may
            for found in self._group.all_gather_objects([astuple(one) for one in own]):
                for one in found:
                    totals += Totals(*one)
            begin, before = begin + sum(steps), before + sum(sizes)
            self._rotate(turn)
            on_progress(totals)
        self.step = begin
        return totals

    def _rotate(self, turn: int) -> None:
        """The blocks to where they are trained next; what draws from a block that left goes, too."""
        self._blocks.rotate(turn)
        self._samplers.keep(self._blocks.resident)

    def _train_bucket(
        self, epoch: int, shard: int, turn: int, rates: list[float], on_progress: Callable[[Totals], None]
    ) -> Totals:
        layout, totals = self._layout, Totals()
        block = layout.block_at(shard, turn)
        first, last = (layout.users[one] - self._own.start for one in (shard, shard + 1))
        rows = bucket_of(self._logs[block], first, last)
        size = len(rows.items)
        if size == 0:
            return totals
        tables = self._blocks.resident[block]
        self._tables = Tables(self._user_table, tables.items, tables.state)
        self._sampler = self._samplers.bound_to(block, self._logs[block])
        self._sampler.reset()  # its index is of other vectors: the block was with other users since
        permutation = epoch_permutation(size, self._config.seed, epoch, bucket=shard * layout.blocks + block)
        optimizer = self._step_config.optimizer
        step_sizes = [optimizer.step_size(rate, step) for step, rate in enumerate(rates, start=self.step + 1)]
        self._run_batches(rows, permutation, step_sizes, totals, on_progress)
        del self._tables  # the block may go to another rank
        return totals

    def _draw(self, batch: Batch) -> Draw:
        draw = super()._draw(batch)
        if self._config.correct == "none" or draw.log_q is None or self._layout.blocks == 1:
            return draw
        # Among the items of all blocks a negative is drawn with a P-th of its probability in this one.
        return replace(draw, log_q=draw.log_q - np.float32(math.log(self._layout.blocks)))


class OwnBlocks(dict[str, Any]):
    """A copy of the values of one rank: its own users, and its blocks of items."""


def _report(on_progress: Callable[[Totals], None], before: Totals, found: Totals) -> None:
    on_progress(before + found)
