"""Blocks of a log on disk that are read more than once, and the core that is found by reading them all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.typing import Array
from vitalrank.errors import DataError
from vitalrank.interactions import Interactions


class StoredBlocks:
    """Logs of consecutive users on disk, without their ids."""

    def __init__(self, folder: Path, logs: Iterable[tuple[int, Interactions]]) -> None:
        self._folder = folder
        self._firsts: list[int] = []
        self._columns: tuple[str, ...] = ()
        self.rows = self.repeats = self.n_users = self.n_items = 0
        for first, log in logs:
            self._firsts.append(first)
            arrays = {name: getattr(log, name) for name in ("indptr", "items", "times", "weights")}
            self._columns = tuple(name for name, array in arrays.items() if array is not None)
            for name in self._columns:
                np.save(self._path(first, name), arrays[name], allow_pickle=False)
            self.rows += len(log)
            self.repeats += log.repeats
            self.n_users, self.n_items = first + log.n_users, log.n_items

    def _path(self, first: int, name: str) -> Path:
        return self._folder / f"stored-{first:010}.{name}.npy"

    def _load(self, first: int, name: str) -> Array | None:
        if name not in self._columns:
            return None
        array: Array = np.load(self._path(first, name), allow_pickle=False)
        return array

    def pieces(self, *names: str) -> Iterator[tuple[int, list[Array]]]:
        """The first user of each block, and some of its arrays."""
        for first in self._firsts:
            yield first, [array for name in names if (array := self._load(first, name)) is not None]

    def logs(self) -> Iterator[tuple[int, Interactions]]:
        """The blocks as they were."""
        for first in self._firsts:
            indptr, items, times, weights = (
                self._load(first, name) for name in ("indptr", "items", "times", "weights")
            )
            assert indptr is not None
            assert items is not None
            numbers = np.arange(len(indptr) - 1)
            yield first, Interactions(indptr, items, times, numbers, np.broadcast_to(0, self.n_items), weights=weights)


class Core(NamedTuple):
    """Which users and items a core keeps."""

    users: NDArray[np.bool_]  # (U,)
    items: NDArray[np.bool_]  # (I,)

    def filtered(self, logs: Iterable[tuple[int, Interactions]]) -> Iterator[tuple[int, Interactions]]:
        """The blocks with what the core keeps alone, renumbered."""
        item_rank = np.cumsum(self.items, dtype=np.int32) - np.int32(1)
        first = 0
        for old_first, log in logs:
            kept = self.users[old_first : old_first + log.n_users]
            rows = self.items[log.items] & np.repeat(kept, log.user_degree)
            part = log._rows(rows)
            degrees = part.user_degree[kept]
            indptr = np.concatenate([[0], np.cumsum(degrees)]).astype(np.int64)
            arrays = indptr, item_rank[part.items], part.times, np.arange(len(degrees))
            if len(degrees):
                yield first, Interactions(*arrays, np.broadcast_to(0, int(item_rank[-1]) + 1), weights=part.weights)
            first += len(degrees)


def core_of(blocks: StoredBlocks, user: int, item: int) -> Core:
    """The largest part in which all users and items keep that many rows, as `Interactions.k_core` finds it."""
    core = Core(np.ones(blocks.n_users, np.bool_), np.ones(blocks.n_items, np.bool_))
    while True:
        before = np.count_nonzero(core.users), np.count_nonzero(core.items)
        degree = np.zeros(blocks.n_items, np.int64)
        for first, (indptr, items) in blocks.pieces("indptr", "items"):
            kept = core.users[first : first + len(indptr) - 1]  # a view
            rows = core.items[items] & np.repeat(kept, np.diff(indptr))
            running = np.concatenate([[0], np.cumsum(rows)])
            kept &= running[indptr[1:]] - running[indptr[:-1]] >= max(user, 1)
            rows &= np.repeat(kept, np.diff(indptr))
            degree += np.bincount(items[rows], minlength=blocks.n_items)
        core.items[:] &= degree >= max(item, 1)
        if before == (np.count_nonzero(core.users), np.count_nonzero(core.items)):
            break
    if not core.users.any():
        raise DataError(f"k_core(user={user}, item={item}) leaves nothing of {blocks.rows:,} rows; ask for less.")
    return core
