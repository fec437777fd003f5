"""The memory of a step that ranks share: this rank's positives, the messages of all, and the batch laid out."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.memory import large_zeros, untouched_zeros
from vitalrank._util.typing import Array
from vitalrank.distributed.group import Group
from vitalrank.distributed.shared_memory import shared_zeros
from vitalrank.errors import SettingError
from vitalrank.interactions import Interactions
from vitalrank.kernels.cpu.training.batches import Batch
from vitalrank.kernels.cpu.training.coalescing import Coalesced, new_coalesced
from vitalrank.kernels.cpu.training.sharded import HEADER, Laid, Owners, lay_out, words_of
from vitalrank.kernels.cpu.training.step import StepBuffers
from vitalrank.samplers.draws import Draw

_MOST_LABELS = 1 << 31  # of score gradients, as 32-bit integers


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

    queries: NDArray[np.float32]  # (rows, d) of all ranks
    words: NDArray[np.float32]  # the second parts of all messages
    own: int
    batch: Batch
    buffers: StepBuffers
    coalesced: tuple[Coalesced, Coalesced]
    counts: NDArray[np.int64]  # (R,) positives
    rows: NDArray[np.int64]  # (R,) the first row of each rank's queries
    starts: NDArray[np.int64]  # (R,) the first word of each second part
    sizes: NDArray[np.int64]  # (R,) its words

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
        return self.words[start : start + HEADER].view(np.float64)

    def bytes_of(self, rank: int) -> int:
        """Bytes of a rank's message."""
        return int(self.counts[rank] * self.queries.shape[1] + self.sizes[rank]) * self.words.itemsize


class Whole(NamedTuple):
    """The positives of all ranks in the order of the batch."""

    batch: Batch  # but the queries lie where they came
    ids: NDArray[np.int64]  # (B, k)
    buffers: StepBuffers  # but the score gradients lie as the queries do


class RankBuffers:
    """Memory for the steps, used again for each."""

    def __init__(self, train: Interactions, size: int, width: int, eager_queries: bool, group: Group) -> None:
        self._train = train
        self._most, self._width, self._group = size, width, group
        self.size = size
        users, positives = np.zeros((2, size), np.int32)
        weights = None if train.weights is None else np.zeros(size, np.float32)
        self._own = Batch(users, positives, np.zeros((0, width), np.float32), eager_queries, weights)
        self._whole = self._own._replace(positives=np.zeros(size, np.int32), eager_queries=False)
        self.positions = np.zeros(size, np.uint32)
        owner, index = np.zeros(size, np.int32), np.zeros(size, np.int64)
        self._owners = Owners(owner, index, np.zeros(group.size, np.int64))
        self._everybody = np.zeros(0, np.int32)
        self._k = -1
        self._room, self._turn, self._is_shared = 0, 0, False
        self._queries = np.zeros((1, size, width), np.float32)
        self._words = np.zeros((1, 0), np.float32)
        self._reserve(1)

    def begin(self, size: int) -> None:
        """Make ready for a batch of so many positives."""
        self.size = size
        self._turn = 1 - self._turn if self._is_shared else 0  # ranks may still read those of the batch before

    @property
    def own(self) -> Batch:
        """Room for this rank's positives; their queries already lie in its message."""
        return self._own._replace(queries=self._own_queries(self.size))

    def _own_queries(self, count: int) -> NDArray[np.float32]:
        first = self._group.rank * self._most if self._is_shared else 0
        return self._queries[self._turn, first : first + count]

    @property
    def owners(self) -> Owners:
        """Whose the positives of this batch are."""
        return Owners(self._owners.owner[: self.size], self._owners.number[: self.size], self._owners.counts)

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
        room = -(-words_of(self._most, negatives) // HEADER) * HEADER  # whole cache lines
        if self._room < room:
            self._room = room
            loaded = self._own_queries(self._most).copy()
            self._allocate(1 + negatives)
            self._own_queries(self._most)[...] = loaded
        rows, occurrences = self._queries.shape[1], self._most * (1 + negatives)
        losses, vanished = np.zeros(self._most, np.float32), np.zeros(self._most, np.bool_)
        self._step = StepBuffers(untouched_zeros((rows, 1 + negatives), np.float32), losses, vanished)
        self._ids = np.zeros((self._most, negatives), np.int64)
        self._own_vanished = np.zeros(self._most, np.bool_)
        users = new_coalesced(self._train.n_users, self._most)
        self._coalesced = users, new_coalesced(self._train.n_items, occurrences, labelled=True)

    def _allocate(self, each: int) -> None:
        """Memory for the messages of all ranks: shared, of two batches, where that is possible."""
        ranks, width = self._group.size, self._width
        rows, words = ranks * self._most, ranks * self._room
        first = -(-2 * rows * width // HEADER) * HEADER
        is_small = rows * each < _MOST_LABELS
        memory = shared_zeros(self._group, first + 2 * words) if is_small else None
        self._is_shared = memory is not None
        if memory is None:
            self._turn = 0
            self._queries = large_zeros((1, self._most, width), np.float32)
            self._words = large_zeros((1, self._room + ranks * HEADER), np.float32)
        else:
            self._queries = memory[: 2 * rows * width].reshape(2, rows, width)
            self._words = memory[first:].reshape(2, words)

    def message(self, own: int, ids: Array) -> Message:
        """The message of this rank's positives: what the step computes of them is written where it is sent from."""
        negatives, rank = ids.shape[1], self._group.rank
        self._reserve(negatives)
        counts, each = self._owners.counts, 1 + negatives
        rows, starts, sizes = self._layout(negatives)
        words = self._words[self._turn]
        grads = starts[rank] + HEADER
        codes = grads + own * each
        losses = codes + own * each
        score_grads = words[grads:codes].reshape(own, each)
        sent = words.view(np.int32)[codes:losses].reshape(own, each)
        sent[:, 0], sent[:, 1:] = self._own.positives[:own], ids
        batch = Batch(
            self._own.users[:own], self._own.positives[:own], self._own_queries(own), self._own.eager_queries,
            None if self._own.weights is None else self._own.weights[:own],
        )  # fmt: skip
        buffers = StepBuffers(score_grads, words[losses : losses + own], self._own_vanished[:own])
        queries = self._queries[self._turn]
        return Message(queries, words, rank, batch, buffers, self._coalesced, counts, rows, starts, sizes)

    def _layout(self, negatives: int) -> tuple[Array, Array, Array]:
        """Where the messages lie: by rank in shared memory; else this rank's first, then the others by rank."""
        counts, own = self._owners.counts, self._group.rank
        sizes = np.array([words_of(int(count), negatives) for count in counts], np.int64)
        ranks = np.arange(len(counts))
        if self._is_shared:
            return ranks * self._most, ranks * self._room, sizes
        order = [own, *(rank for rank in range(len(counts)) if rank != own)]
        rows, starts = np.zeros((2, len(counts)), np.int64)
        room = sizes[order] + sizes[order] % 2  # so that a header is aligned
        rows[order] = np.cumsum(counts[order]) - counts[order]
        starts[order] = np.cumsum(room) - room
        return rows, starts, sizes

    def exchange(self, message: Message) -> None:
        """Wait for the messages of all ranks; those in shared memory are only said to be written."""
        if self._is_shared:
            self._group.synchronize()
            return
        width = self._width
        queries = message.queries.reshape(-1), (message.rows * width).tolist(), (message.counts * width).tolist()
        self._group.all_gather_parts(queries, (message.words, message.starts.tolist(), message.sizes.tolist()))

    def whole(self, message: Message) -> Whole:
        """The batch of all ranks, whose second parts are laid out."""
        size, step, batch = self.size, self._step, self._whole
        laid = Laid(
            batch.positives[:size], self._ids[:size], step.score_grads, step.losses[:size], self._coalesced[1].labels
        )
        lay_out(self.owners, message.rows, message.starts, message.words, laid)
        whole = batch._replace(
            users=batch.users[:size], positives=laid.positives, queries=message.queries,
            weights=None if batch.weights is None else batch.weights[:size],
        )  # fmt: skip
        return Whole(whole, laid.ids, StepBuffers(laid.score_grads, laid.losses, step.vanished[:size]))
