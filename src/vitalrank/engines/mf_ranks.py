"""Matrix factorization over the ranks of a group, with the bits of one process.

Users and their rows are spread over the ranks; every rank has all items. In each step a rank samples and computes for
its own positives of the batch; then all ranks get what each positive contributes to the items (query, score gradients,
ids, loss) and make the same update of the items in the same order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from vitalrank._util.devices import enough_memory
from vitalrank._util.typing import Array
from vitalrank.config import TrainConfig
from vitalrank.distributed.group import Group
from vitalrank.distributed.ranges import rank_bounds
from vitalrank.engines.base import Totals, VectorShape
from vitalrank.engines.correcting import corrected
from vitalrank.engines.mf import HostMFEngine, check_shapes, new_tables
from vitalrank.engines.mf_cpu import ADVICE, UNMIXED
from vitalrank.engines.rank_buffers import Contribution, RankBuffers
from vitalrank.engines.row_shards import RowShards, add_counts, check_rows_known, check_same
from vitalrank.errors import SettingError
from vitalrank.interactions import Interactions, check_rows
from vitalrank.kernels.cpu.training.permutation import Permutation, epoch_permutation
from vitalrank.kernels.cpu.training.sharded import all_positives, load_own
from vitalrank.kernels.cpu.training.step import ITEMS, USERS, train_step
from vitalrank.samplers.backends import ArrayBackend
from vitalrank.samplers.base import BoundSampler
from vitalrank.samplers.draws import Draw, SampleRequest, WholeBatch
from vitalrank.samplers.settings import CallableSampler


class RankedEngine(HostMFEngine):
    """One rank's part of a training in compiled steps; tables, moments and history are those of ``CpuEngine``.

    The users' tables have the size of the whole, but memory only for the rows of this rank; the others are 0.
    """

    takes_views = True

    def __init__(
        self,
        train: Interactions,
        sampler: CallableSampler,
        config: TrainConfig,
        shape: VectorShape,
        group: Group,
    ) -> None:
        super().__init__(train, sampler, config, shape)
        self._group = group
        self._backend = ArrayBackend()
        self._rows_of_log, users = rank_bounds(train.indptr, group.size)
        self._own = slice(users[group.rank], users[group.rank + 1])
        self._check_view()
        self._users = RowShards(group, users)
        with enough_memory("cpu", 0, ADVICE):
            slots = self._step_config.optimizer.slots
            self._tables = new_tables(train, shape, slots, config.seed, self._own)
            self._buffers = RankBuffers(train, self._batch, shape.width, self._sampler.needs_scores, group)
        check_rows_known(self._sampler)
        self._compiled = 0  # steps that may still have to compile something

    def _check_view(self) -> None:
        """Of a view of a prepared log, this rank's users must be those that were verified."""
        view = self._train.own_users
        if view == (0, self._train.n_users):
            return
        if view != (self._own.start, self._own.stop):
            raise SettingError(
                f"train is the view of another rank: it has users {view[0]} to {view[1]}, and this rank trains "
                f"{self._own.start} to {self._own.stop}; give Prepared.part(rank=, ranks=) the numbers of this one."
            )
        if isinstance(self._sampler, BoundSampler) and self._sampler.follows_batch:  # reads the items of all users
            check_rows(self._train.indptr, self._train.items, self._train.n_users, self._train.n_items)

    # ------------------------------------------------------------------------------------- whole and own values

    def whole_values(self) -> dict[str, Array]:
        return {"users": self._users.gather(self.users), "items": self.items}

    def whole_state(self) -> dict[str, Array]:
        return {"users": self._users.gather(self._live_state()["users"]), "items": self._tables.item_state}

    def copy(self) -> Mapping[str, Any]:
        return OwnValues(users=self.users[self._own].copy(), items=self.items.copy())

    def to_numpy(self, copy: Mapping[str, Any]) -> Mapping[str, Array]:
        if not isinstance(copy, OwnValues):
            return copy
        return {"users": self._users.gather(copy["users"], self.users.shape), "items": copy["items"]}

    def complete(self) -> dict[str, Array]:
        return {"users": self._users.gather(self.users, to_all=True), "items": self.items}

    def _restore(self, tables: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        """Set the tables to this rank's own values, or to the whole ones that rank 0 has."""
        if isinstance(arrays, OwnValues):
            tables["users"][self._own], tables["items"][...] = arrays["users"], arrays["items"]
            return
        check_shapes(arrays, tables)
        self._group.barrier()  # rank 0 may have read them from a slow disk
        self._users.scatter(arrays["users"], tables["users"][self._own])
        if self._group.is_rank_zero:
            tables["items"][...] = arrays["items"]
        self._group.broadcast(tables["items"])

    def is_finite(self) -> bool:
        own = bool(np.isfinite(self._tables.users[self._own, 0]).all()) and bool(np.isfinite(self.items).all())
        return self._group.all_ranks(own)

    # ------------------------------------------------------------------------------------------------- training

    def run_epoch(self, epoch: int, rate: Callable[[float], float], on_progress: Callable[[Totals], None]) -> Totals:
        self._sampler.reset()
        permutation = epoch_permutation(len(self._train), self._config.seed, epoch)
        totals, counts = Totals(), self._sampler.counts
        before = None if counts is None else counts.sums()
        starts = range(0, len(self._train), self._batch)
        self._group.barrier()
        for start, step_size in zip(starts, self._step_sizes(rate), strict=True):
            with enough_memory("cpu", 0, ADVICE):
                self._train_batch(permutation, start, step_size, totals)
            on_progress(totals)
            if not math.isfinite(totals.loss):
                break
        if counts is not None and before is not None:
            add_counts(self._group, counts, before)
        check_same(self._group, self.items, "item vectors")
        return totals

    def _train_batch(self, permutation: Permutation, start: int, step_size: float, totals: Totals) -> None:
        buffers, group = self._buffers, self._group
        buffers.begin(min(self._batch, len(self._train) - start))
        own = load_own(
            permutation, start, self._rows_of_log, group.rank, self._train, self._tables.users, buffers.own,
            buffers.positions, buffers.owners,
        )  # fmt: skip
        draw = corrected(self._draw(permutation, start, own), self._config, np)
        self.step += 1
        ids, weights = np.ascontiguousarray(draw.ids, np.int64), np.ascontiguousarray(draw.weights, np.float32)
        mix = UNMIXED if draw.mix is None else np.ascontiguousarray(draw.mix, np.float32)
        config = self._config_for(ids.shape[1])
        message = buffers.message(own, ids)
        batch, step = message.batch, message.buffers
        train_step(config, step_size, ids, weights, mix, batch, self._tables, step, *message.coalesced, halves=USERS)
        message.write(Contribution.of(draw, ids, weights, batch.weights, step.vanished))
        self._wait_while_compiling()
        buffers.exchange(message)
        whole = buffers.whole(message)
        loss, _, skipped = train_step(
            config, step_size, whole.ids, weights, mix, whole.batch, self._tables, whole.buffers, *message.coalesced,
            halves=ITEMS,
        )  # fmt: skip
        self._wait_while_compiling()
        found = message.contributions()
        totals.positives += buffers.size
        totals.skipped += skipped
        totals.loss += loss
        totals.vanished += found.vanished
        totals.tries += found.tries
        totals.start_loss += self._loss.at_start(
            self._config.margin, found.weight, found.trained * config.positive_weight
        )
        if found.violated is not None:
            totals.violated = (totals.violated or 0) + found.violated

    def _wait_while_compiling(self) -> None:
        """Wait for ranks that still compile: that takes longer than a message may."""
        if self._compiled < 2:
            self._compiled += 1
            self._group.barrier()

    def _draw(self, permutation: Permutation, start: int, own: int) -> Draw:
        """Draw negatives for this rank's positives, as they are drawn in the whole batch."""
        k, buffers = self._config.negatives, self._buffers
        rows = buffers.positions[:own]
        users, positives, queries = (part[:own] for part in buffers.own[:3])
        if not isinstance(self._sampler, BoundSampler):
            return self._sampler(queries, self.items, users, positives, step=self.step, k=k, rows=rows)
        everybody = None
        if self._sampler.follows_batch:
            everybody = buffers.all_positives()
            all_positives(permutation, start, self._train.items, everybody)
        request = SampleRequest(
            self._backend, users, positives, self._backend.counter(self._sampler.seed, self.step, rows), self.step, k,
            queries, self.items, with_log_q=self._config.correct != "none",
            whole=WholeBatch(buffers.size, rows, everybody),
        )  # fmt: skip
        return self._sampler.draw(request)


class OwnValues(dict[str, Array]):
    """A copy of the values of one rank: its own users, all items."""
