"""The memory of a step that ranks share: this rank's positives, the messages of all, and the batch laid out."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.memory import large_zeros
from vitalrank._util.typing import Array
from vitalrank.distributed.group import Group
from vitalrank.distributed.shared_memory import shared_zeros
from vitalrank.errors import SettingError
from vitalrank.interactions import Interactions
from vitalrank.kernels.cpu.training.batches import Batch
from vitalrank.kernels.cpu.training.coalescing import Coalesced, new_coalesced
from vitalrank.kernels.cpu.training.sharded import HEADER, Owners, words_of
from vitalrank.kernels.cpu.training.step import StepBuffers
from vitalrank.samplers.draws import Draw


class Contribution(NamedTuple):
    """What a rank adds to the sums of a batch."""

    vanished: int
    tries: int
    weight: float
    trained: float
    violated: int | None
    k: int

    @classmethod
    def of(cls, draw: Draw, ids: Array, weights: Array, own_weights: Array | None, vanished: Array) -> Self:
        """The sums over the positives of one rank."""
        drawn = (ids >= 0).any(1)
        if own_weights is None:
            weight, trained = float(weights.sum()), float(np.count_nonzero(drawn))
        else:
            weight, trained = float(own_weights @ weights.sum(1)), float(own_weights @ drawn)
        violated = None if draw.violated is None else int(np.count_nonzero(draw.violated))
        return cls(
            int(np.count_nonzero(vanished & drawn)), int(draw.tries.sum()), weight, trained, violated, ids.shape[1]
        )


class Message(NamedTuple):
    """A rank's positives in the memory that is sent, and where all messages lie."""

    memory: NDArray[np.float32]
    own: int
    batch: Batch
    buffers: StepBuffers
    coalesced: tuple[Coalesced, Coalesced]
    starts: NDArray[np.int64]  # (R,) words
    sizes: NDArray[np.int64]  # (R,) words

    def write(self, own: Contribution) -> None:
        """Put the header in front."""
        values = [*own[:4], -1.0 if own.violated is None else float(own.violated), float(own.k)]
        self._header(self.own)[: len(values)] = values

    def contributions(self) -> Contribution:
        """The sums over all ranks, in their order."""
        found = np.stack([self._header(rank)[: len(Contribution._fields)] for rank in range(len(self.starts))])
        ks = found[:, 5]
        if (ks != ks[0]).any():
            raise SettingError(f"the sampler gave {ks.tolist()} negatives on the ranks; it must give as many on each.")
        violated = found[:, 4]
        return Contribution(
            int(found[:, 0].sum()), int(found[:, 1].sum()), float(found[:, 2].sum()), float(found[:, 3].sum()),
            None if violated.min() < 0 else int(violated.sum()), int(ks[0]),
        )  # fmt: skip

    def _header(self, rank: int) -> NDArray[np.float64]:
        start = self.starts[rank]
        return self.memory[start : start + HEADER].view(np.float64)


class Whole(NamedTuple):
    """The positives of all ranks in the order of the batch."""

    batch: Batch
    ids: NDArray[np.int64]  # (B, k)
    buffers: StepBuffers


class RankBuffers:
    """Memory for the steps, used again for each."""

    def __init__(self, train: Interactions, size: int, width: int, eager_queries: bool, group: Group) -> None:
        self._train = train
        self._most, self._width, self._group = size, width, group
        self.size = size
        users, positives = np.zeros((2, size), np.int32)
        weights = None if train.weights is None else np.zeros(size, np.float32)
        self._own = Batch(users, positives, np.zeros((0, width), np.float32), eager_queries, weights)
        self._whole = Batch(users, np.zeros(size, np.int32), large_zeros((size, width), np.float32), False, weights)
        self.positions = np.zeros(size, np.uint32)
        owner, index = np.zeros(size, np.int32), np.zeros(size, np.int64)
        self._owners = Owners(owner, index, np.zeros(group.size, np.int64))
        self._everybody = np.zeros(0, np.int32)
        self._k = -1
        self._room, self._turn, self._is_shared = 0, 0, False
        self.memory = np.zeros(0, np.float32)
        self._reserve(1)

    def begin(self, size: int) -> None:
        """Make ready for a batch of so many positives."""
        self.size = size
        self._turn ^= 1  # ranks that share memory may still read what lies there of the batch before

    @property
    def _begin(self) -> int:
        """Where the message of this rank begins."""
        return (self._turn * self._group.size + self._group.rank) * self._room if self._is_shared else 0

    @property
    def own(self) -> Batch:
        """Room for this rank's positives; their queries already lie in its message."""
        return self._own._replace(queries=self._queries(self.size))

    def _queries(self, count: int) -> NDArray[np.float32]:
        first = self._begin + HEADER
        return self.memory[first : first + count * self._width].reshape(count, self._width)

    @property
    def owners(self) -> Owners:
        """Whose the positives of this batch are."""
        return Owners(self._owners.owner[: self.size], self._owners.number[: self.size], self._owners.counts)

    @property
    def words(self) -> NDArray[np.float32]:
        """The messages as floats."""
        return self.memory

    @property
    def codes(self) -> NDArray[np.int32]:
        """The messages as integers."""
        return self.memory.view(np.int32)

    def all_positives(self) -> NDArray[np.int32]:
        """Room for the positives of the whole batch."""
        if len(self._everybody) < self._most:
            self._everybody = np.zeros(self._most, np.int32)
        return self._everybody[: self.size]

    def _reserve(self, negatives: int) -> None:
        """Room for messages with so many negatives a positive; what was loaded stays."""
        if negatives == self._k:
            return
        self._k = negatives
        room = -(-words_of(self._most, self._width, negatives) // HEADER) * HEADER  # whole cache lines
        if self._room < room:
            loaded = self._queries(self._most if self._room else 0).copy()
            self._room = room
            shared = shared_zeros(self._group, 2 * self._group.size * room)
            self._is_shared = shared is not None
            own = room + self._group.size * (HEADER + 2)
            self.memory = large_zeros((own + own % 2,), np.float32) if shared is None else shared
            self._queries(len(loaded))[...] = loaded
        shape = self._most, 1 + negatives
        losses, vanished = np.zeros(self._most, np.float32), np.zeros(self._most, np.bool_)
        self._step = StepBuffers(large_zeros(shape, np.float32), losses, vanished)
        self._ids = np.zeros((self._most, negatives), np.int64)
        self._own_vanished = np.zeros(self._most, np.bool_)
        users = new_coalesced(self._train.n_users, self._most)
        self._coalesced = users, new_coalesced(self._train.n_items, self._step.score_grads.size)

    def message(self, own: int, ids: Array) -> Message:
        """The message of this rank's positives: what the step computes of them is written where it is sent from."""
        negatives = ids.shape[1]
        self._reserve(negatives)
        each, width = 1 + negatives, self._width
        grads = self._begin + HEADER + own * width
        codes = grads + own * each
        losses = codes + own * each
        score_grads = self.memory[grads:codes].reshape(own, each)
        sent = self.codes[codes:losses].reshape(own, each)
        sent[:, 0], sent[:, 1:] = self._own.positives[:own], ids
        batch = Batch(
            self._own.users[:own], self._own.positives[:own], self._queries(own), self._own.eager_queries,
            None if self._own.weights is None else self._own.weights[:own],
        )  # fmt: skip
        buffers = StepBuffers(score_grads, self.memory[losses : losses + own], self._own_vanished[:own])
        starts, sizes = self._layout(negatives)
        return Message(self.memory, self._group.rank, batch, buffers, self._coalesced, starts, sizes)

    def _layout(self, negatives: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where the messages lie: by rank in shared memory; else this rank's first, then the others by rank."""
        counts, own = self._owners.counts, self._group.rank
        sizes = np.array([words_of(int(count), self._width, negatives) for count in counts], np.int64)
        if self._is_shared:
            return (self._turn * len(counts) + np.arange(len(counts))) * self._room, sizes
        order = [own, *(rank for rank in range(len(counts)) if rank != own)]
        room = sizes[order] + sizes[order] % 2  # so that a header is aligned
        starts = np.zeros(len(counts), np.int64)
        starts[order] = np.cumsum(room) - room
        return starts, sizes

    def exchange(self, message: Message) -> None:
        """Wait for the messages of all ranks; those in shared memory are only said to be written."""
        if self._is_shared:
            self._group.synchronize()
        else:
            self._group.all_gather(self.memory, message.starts.tolist(), message.sizes.tolist())

    def whole(self, negatives: int) -> Whole:
        """Room for the batch laid out."""
        size, step, batch = self.size, self._step, self._whole
        assert negatives == self._k
        return Whole(
            batch._replace(
                users=batch.users[:size], positives=batch.positives[:size], queries=batch.queries[:size],
                weights=None if batch.weights is None else batch.weights[:size],
            ),
            self._ids[:size],
            StepBuffers(step.score_grads[:size], step.losses[:size], step.vanished[:size]),
        )  # fmt: skip
