"""The third pass: rows go to blocks of users, and each block is sorted and freed of repeats by itself."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vitalrank._util.typing import Array
from vitalrank.interactions import Interactions
from vitalrank.interactions.encoding import encode_ints
from vitalrank.preparing.scanning import Run

logger = logging.getLogger(__name__)
_BUCKETS = 1 << 20  # of users, whose rows are counted to find the blocks


class UserBlock(NamedTuple):
    """A block of users: its first, the one after its last, its rows on disk."""

    first: int
    last: int
    path: Path


class Blocks:
    """The rows of a log in blocks of consecutive users, in the order of the log within a block."""

    def __init__(self, runs: Sequence[Run], n_users: int, size: int, folder: Path) -> None:
        self.kind = _record_kind(runs)
        bounds = _bounds(runs, n_users, size)
        self.blocks = [
            UserBlock(first, last, folder / f"block-{number:06}.rows")
            for number, (first, last) in enumerate(pairwise(bounds))
        ]
        cuts = np.array(bounds[1:-1])
        for run in runs:
            self._distribute(run, cuts)
            run.remove()

    def _distribute(self, run: Run, cuts: Array) -> None:
        users = np.fromfile(run.map_path("users"), np.int32)[run.load("users")]
        records = np.empty(run.rows, self.kind)
        records["users"] = users
        records["items"] = np.fromfile(run.map_path("items"), np.int32)[run.load("items")]
        for name in self.kind.names[2:]:  # type: ignore[index]
            records[name] = run.load(name)
        block = np.searchsorted(cuts, users, side="right").astype(np.int32)
        order = np.argsort(block.astype(np.uint16) if len(cuts) < 1 << 16 else block, kind="stable")
        ends = np.cumsum(np.bincount(block, minlength=len(cuts) + 1))
        for one, rows in zip(self.blocks, np.split(order, ends[:-1]), strict=True):
            if len(rows):
                with one.path.open("ab") as file:
                    records[rows].tofile(file)

    def logs(self, n_items: int, repeats: str) -> Iterator[tuple[int, Interactions]]:
        """Each block as a log of its users, numbered from the first, which is given too; its rows are then removed."""
        for block in self.blocks:
            records = np.fromfile(block.path, self.kind)
            block.path.unlink()
            yield block.first, _log_of(records, block, n_items, repeats)


def _log_of(records: Array, block: UserBlock, n_items: int, repeats: str) -> Interactions:
    users = records["users"] - np.int32(block.first)
    items = np.ascontiguousarray(records["items"])
    times, weights = (
        np.ascontiguousarray(records[name]) if name in (records.dtype.names or ()) else None
        for name in ("times", "weights")
    )
    del records
    numbers = np.arange(block.last - block.first)
    if n_items <= 2 * len(items):
        return Interactions.from_some_codes(users, items, times, numbers, np.arange(n_items), weights, repeats)
    # Of a catalogue much larger than the block, only the items in it: sorting lists every item's users.
    known, codes = encode_ints(items)
    log = Interactions.from_some_codes(users, codes, times, numbers, known, weights, repeats)
    arrays = log.indptr, known[log.items].astype(np.int32), log.times, numbers, np.broadcast_to(np.int64(0), n_items)
    return Interactions(*arrays, repeats=log.repeats, weights=log.weights)


def _record_kind(runs: Sequence[Run]) -> np.dtype[Any]:
    """A row: what every run has, times as floats if those of any are."""
    kinds: list[tuple[str, str]] = [("users", "<i4"), ("items", "<i4")]
    if "times" in runs[0].columns:
        is_float = any(run.load("times").dtype.kind == "f" for run in runs)
        kinds.append(("times", "<f8" if is_float else "<i8"))
    if "weights" in runs[0].columns:
        kinds.append(("weights", "<f4"))
    return np.dtype(kinds)


def _bounds(runs: Sequence[Run], n_users: int, size: int) -> list[int]:
    """Users at which the blocks begin, and the end: each has about ``size`` rows."""
    width = -(-n_users // _BUCKETS)
    counts = np.zeros(-(-n_users // width), np.int64)
    for run in runs:
        users = np.fromfile(run.map_path("users"), np.int32)
        rows = np.bincount(run.load("users"), minlength=len(users))
        counts += np.bincount(users // width, rows, minlength=len(counts)).astype(np.int64)
    if counts.max() > 2 * size:
        logger.warning(
            "one user, or %d with neighbouring ids, has %d rows, which are sorted at once", width, counts.max()
        )
    bounds, held = [0], 0
    for bucket, count in enumerate(counts.tolist()):
        if held and held + count > size:
            bounds.append(bucket * width)
            held = 0
        held += count
    return [*bounds, n_users]
