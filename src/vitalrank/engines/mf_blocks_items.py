"""Mode blocks: the blocks of items that a rank has, with the optimizer's state, and how they pass from rank to rank."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.memory import absent, in_temporary_file, large_zeros
from vitalrank._util.typing import Array
from vitalrank.distributed.process_group import ProcessGroup
from vitalrank.engines.mf_blocks_layout import BlockLayout
from vitalrank.engines.row_shards import Allocate, RowShards
from vitalrank.kernels.cpu.training.initial import fill_normal

_ROWS = 1 << 15  # made or passed on at once
VECTORS, STATE = 0, 1  # the tables of a block


class BlockTables(NamedTuple):
    """The tables of a block."""

    items: NDArray[np.float32]  # (n, d)
    state: NDArray[np.float32]  # (n, s, d)


class Placed(NamedTuple):
    """One of the tables, cut into blocks: those that are here."""

    layout: BlockLayout
    tables: Mapping[int, Array]

    def gather(self, ids: Array) -> Array:
        """The rows of some items."""
        block, place = (column[ids] for column in self.layout.places)
        like = next(iter(self.tables.values()))
        rows = np.empty((len(ids), *like.shape[1:]), like.dtype)
        for number, table in self.tables.items():
            here = block == number
            rows[here] = table[place[here]]
        return rows

    def scatter(self, ids: Array, rows: Array) -> None:
        """Set the rows of some items."""
        block, place = (column[ids] for column in self.layout.places)
        for number, table in self.tables.items():
            here = block == number
            table[place[here]] = rows[here]

    def ids_of(self, rank: int) -> NDArray[np.int32]:
        """The items whose rows a rank has, between epochs."""
        return np.concatenate([self.layout.items[block] for block in self.layout.shards_of(rank)])


class ItemBlocks:
    """The blocks that are on this rank: at the ends of an epoch those with the numbers of its shards.

    After a round each shard takes the block of the next shard, so a rank passes the block of its first shard to the
    rank before it, and gets one from the rank behind.
    """

    def __init__(self, layout: BlockLayout, group: ProcessGroup, width: int, slots: int) -> None:
        self._layout, self._group = layout, group
        self._shapes = (width,), (slots, width)  # of a row of each table
        self._shards = layout.shards_of(group.rank)
        self.resident = {block: self._room(block) for block in self._shards}

    def _room(self, block: int) -> BlockTables:
        return BlockTables(*(self._room_in(self._layout, block, field) for field in (VECTORS, STATE)))

    def _room_in(self, layout: BlockLayout, block: int, field: int) -> Array:
        return large_zeros((len(layout.items[block]), *self._shapes[field]), np.float32)

    def fill_normal(self, columns: int, seed: int, deviation: float) -> None:
        """Initial values: those that the items have in a table of all."""
        block_of = self._layout.places[0]
        rows = np.zeros((min(_ROWS, len(block_of)), 1, *self._shapes[VECTORS]), np.float32)
        placed = self._placed(VECTORS)
        for first in range(0, len(block_of), _ROWS):
            last = min(first + _ROWS, len(block_of))
            fill_normal(rows[: last - first], columns, seed, 1, deviation, first=first)
            placed.scatter(np.arange(first, last), rows[: last - first, 0])

    def _placed(self, field: int) -> Placed:
        return Placed(self._layout, {number: block[field] for number, block in self.resident.items()})

    def rotate(self, turn: int) -> None:
        """Bring the blocks to where they are trained in the round after ``turn``."""
        layout, group, shards = self._layout, self._group, self._shards
        if group.size == 1:
            return
        given, taken = layout.block_at(shards[0], turn), layout.block_at(shards[-1], turn + 1)
        source = layout.rank_of((shards[-1] + 1) % layout.blocks)
        target = layout.rank_of((shards[0] - 1) % layout.blocks)
        room = self._room(taken)
        for mine, theirs in zip(self.resident.pop(given), room, strict=True):
            _exchange(group, mine, target, theirs, source)
        self.resident[taken] = room

    def redistribute(self, layout: BlockLayout) -> None:
        """Go over to another layout: every rank passes on the items that are others' from now on."""
        tables = []
        for field in (VECTORS, STATE):
            old = self._placed(field)
            new = Placed(layout, {block: self._room_in(layout, block, field) for block in self._shards})
            for step in range(self._group.size):
                self._move(step, old, new)
            tables.append(new.tables)
            if field == VECTORS:  # free the old ones
                nothing = np.zeros((0, *self._shapes[VECTORS]), np.float32)
                self.resident = {number: BlockTables(nothing, block.state) for number, block in self.resident.items()}
        self._layout = layout
        self.resident = {block: BlockTables(tables[VECTORS][block], tables[STATE][block]) for block in self._shards}

    def _move(self, step: int, old: Placed, new: Placed) -> None:
        """The rows that go from each rank to the one so many behind it, some at a time."""
        group = self._group
        target, source = (group.rank + step) % group.size, (group.rank - step) % group.size
        given = np.intersect1d(old.ids_of(group.rank), new.ids_of(target), assume_unique=True)
        taken = np.intersect1d(old.ids_of(source), new.ids_of(group.rank), assume_unique=True)
        for first in range(0, max(len(given), len(taken)), _ROWS):
            sent = old.gather(given[first : first + _ROWS])
            ids = taken[first : first + _ROWS]
            received = sent if step == 0 else np.empty((len(ids), *sent.shape[1:]), sent.dtype)
            if step:
                _exchange(group, sent, target, received, source)
            new.scatter(ids, received)

    # ------------------------------------------------------------------------------- between epochs: whole tables

    def copy(self) -> Placed:
        """The vectors that are here."""
        return Placed(self._layout, {number: block.items.copy() for number, block in self.resident.items()})

    def restore(self, copy: Placed) -> None:
        """Go back to a copy, and to its layout; the optimizer's state is lost."""
        self._layout = copy.layout
        self.resident = {
            number: BlockTables(table.copy(), np.zeros((len(table), *self._shapes[STATE]), np.float32))
            for number, table in copy.tables.items()
        }

    def gather(self, field: int, copy: Placed | None = None, to_all: bool = False) -> Array:
        """A table by the items' ids on rank 0, or on all; elsewhere zeros without memory. By default the live one."""
        placed = self._placed(field) if copy is None else copy
        shape = len(placed.layout.places[0]), *self._shapes[field]
        is_here = to_all or self._group.is_rank_zero
        whole = whole_table(self._group)(shape, np.float32) if is_here else absent(shape, np.float32)
        for number, ids in enumerate(placed.layout.items if 0 not in shape else ()):
            mine = placed.tables.get(number, whole[:0])
            rows = self._rows(number, len(ids)).gather(mine, (len(ids), *shape[1:]), to_all)
            if is_here:
                whole[ids] = rows
        return whole

    def scatter(self, field: int, whole: Array) -> None:
        """Rank 0's table to the ranks that have its blocks."""
        placed = self._placed(field)
        for number, ids in enumerate(placed.layout.items if whole.size else ()):
            given = whole[ids] if self._group.is_rank_zero else whole[:0]
            self._rows(number, len(ids)).scatter(given, placed.tables.get(number, whole[:0]))

    def _rows(self, block: int, size: int) -> RowShards:
        """A table of one block, all of whose rows are on one rank."""
        holder = self._layout.rank_of(block)
        return RowShards(self._group, [size if rank > holder else 0 for rank in range(self._group.size + 1)])


def whole_table(group: ProcessGroup) -> Allocate:
    """Where a whole table is made: with several ranks, in a file, since it may not fit the memory of one."""
    return in_temporary_file if group else np.empty


def _exchange(group: Any, sent: Array, target: int, received: Array, source: int) -> None:
    if received.size or sent.size:  # there may be no state
        group.send_receive(sent, target, received, source)
