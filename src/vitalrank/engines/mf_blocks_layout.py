"""Mode blocks: which items make a block, which users make a shard, and in which order their buckets are trained.

The items are dealt anew in each epoch, at random, so that in the end any two of them have been compared: a positive is
only compared with items of its own block. An epoch has P rounds. In round t the s-th of P shards of users trains with
block ``(s + t) mod P``, so no two shards share a row, and after the last round each shard has met each block. The
positives of a shard in a block are a bucket.

References
----------
Gemulla, Nijkamp, Haas and Sismanis, "Large-scale matrix factorization with distributed stochastic gradient descent",
KDD 2011. Lerer et al., "PyTorch-BigGraph: a large-scale graph embedding system", MLSys 2019.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from vitalrank.distributed.process_group import ProcessGroup
from vitalrank.distributed.ranges import rank_bounds
from vitalrank.errors import SettingError
from vitalrank.interactions import Interactions
from vitalrank.interactions.ordering import starts
from vitalrank.kernels.cpu.training.permutation import epoch_permutation, fill_rows
from vitalrank.kernels.rng import BLOCKS


@dataclass(frozen=True)
class BlockLayout:
    """Items in blocks, users in as many shards, shards on ranks.

    Attributes
    ----------
    items
        The items of each block, ascending.
    users
        Where each shard's users begin, (P + 1,).
    shards
        Where each rank's shards begin, (R + 1,).
    """

    items: list[NDArray[np.int32]]
    users: list[int]
    shards: list[int]

    @classmethod
    def of(cls, train: Interactions, blocks: int, ranks: int, seed: int, epoch: int) -> BlockLayout:
        """The layout of a log in an epoch."""
        users = rank_bounds(train.indptr, blocks)[1]
        shards = [rank * blocks // ranks for rank in range(ranks + 1)]
        return cls(random_blocks(train.n_items, blocks, seed, epoch), users, shards)

    @property
    def blocks(self) -> int:
        """P, the number of blocks and of shards."""
        return len(self.items)

    def rank_of(self, shard: int) -> int:
        """Whose a shard is."""
        return int(np.searchsorted(self.shards, shard, side="right")) - 1

    def shards_of(self, rank: int) -> range:
        """The shards of a rank; at the ends of an epoch it has the blocks of these numbers."""
        return range(self.shards[rank], self.shards[rank + 1])

    def block_at(self, shard: int, turn: int) -> int:
        """The block that a shard has in a round of an epoch; 0 and P, its end, are the same."""
        return (shard + turn) % self.blocks

    @cached_property
    def places(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Each item's block, and its number there."""  # (I,), (I,)
        size = sum(map(len, self.items))
        block, place = np.empty(size, np.int32), np.empty(size, np.int32)
        for number, ids in enumerate(self.items):
            block[ids], place[ids] = number, np.arange(len(ids))
        return block, place


def check_blocks(train: Interactions, blocks: int, ranks: int) -> None:
    """Refuse blocks too small to hold a negative, and ranks without one."""
    most = max(train.n_items // 2, 1)
    if blocks > most:
        raise SettingError(
            f"blocks is {blocks}, and the log has {train.n_items} items; a block needs two, so give at most {most}."
        )
    if blocks < ranks:
        raise SettingError(f"blocks is {blocks} for {ranks} ranks, each of which needs one; give at least {ranks}.")


def random_blocks(n_items: int, blocks: int, seed: int, epoch: int) -> list[NDArray[np.int32]]:
    """All items in so many random blocks of equal size, or nearly.

    Examples
    --------
    >>> [len(block) for block in random_blocks(7, 3, seed=0, epoch=1)]
    [2, 2, 3]
    >>> random_blocks(3, 1, seed=0, epoch=1)[0].tolist()
    [0, 1, 2]
    """
    shuffled = np.empty(n_items, np.int64)
    fill_rows(epoch_permutation(n_items, seed, epoch, stream=BLOCKS), 0, shuffled)
    bounds = [block * n_items // blocks for block in range(blocks + 1)]
    return [np.sort(shuffled[first:last]).astype(np.int32) for first, last in pairwise(bounds)]


@dataclass(frozen=True)
class BucketRows:
    """The positives of a bucket, by the rows of the rank's users and of the block."""

    users: NDArray[np.int32]  # (N,)
    items: NDArray[np.int32]  # (N,)
    weights: NDArray[np.float32] | None  # (N,)


def block_logs(train: Interactions, layout: BlockLayout, rank: int) -> list[Interactions]:
    """For each block the log of this rank's users with its items; ``item_degree`` counts the users of all ranks."""
    first, last = (layout.users[layout.shards[r]] for r in (rank, rank + 1))
    if train.own_users not in ((0, train.n_users), (first, last)):
        ranks = len(layout.shards) - 1
        raise SettingError(
            f"train is a view of users {train.own_users[0]} to {train.own_users[1]} of a prepared log, and this rank "
            f"trains {first} to {last}; give blocks a multiple of the {ranks} ranks, and each rank its own view."
        )
    rows = slice(int(train.indptr[first]), int(train.indptr[last]))
    block_of, place = layout.places
    block = block_of[train.items[rows]].astype(np.min_scalar_type(layout.blocks))  # small numbers sort faster
    order = np.argsort(block, kind="stable")
    bounds = starts(np.bincount(block, minlength=layout.blocks))
    users = np.repeat(np.arange(last - first, dtype=np.int32), np.diff(train.indptr[first : last + 1]))
    degree = train.item_degree
    logs = []
    for number, ids in enumerate(layout.items):
        picked = order[bounds[number] : bounds[number + 1]]
        own = users[picked]
        indptr = starts(np.bincount(own, minlength=last - first))
        weights = None if train.weights is None else train.weights[rows][picked]
        items = place[train.items[rows][picked]]
        log = Interactions(indptr, items, None, train.user_ids[first:last], train.item_ids[ids], weights=weights)
        logs.append(log.with_known(users=own, item_degree=degree[ids]))
    return logs


def bucket_of(log: Interactions, first: int, last: int) -> BucketRows:
    """The rows of some of its users."""
    rows = slice(int(log.indptr[first]), int(log.indptr[last]))
    return BucketRows(log.users[rows], log.items[rows], None if log.weights is None else log.weights[rows])


def bucket_sizes(logs: list[Interactions], layout: BlockLayout, group: ProcessGroup) -> NDArray[np.int64]:
    """Positives of each shard in each block."""  # (P, P)
    own = np.array(layout.users[layout.shards[group.rank] : layout.shards[group.rank + 1] + 1])
    counts = np.stack([np.diff(log.indptr[own - own[0]]) for log in logs], axis=1)  # (own shards, P)
    group.barrier()  # others may have more rows to sort
    return np.array([row for rows in group.all_gather_objects(counts.tolist()) for row in rows], np.int64)
