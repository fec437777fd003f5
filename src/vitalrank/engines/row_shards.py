"""Tables whose rows are sharded over the ranks of a group: gather, scatter, and checks."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

import numpy as np

from vitalrank._util.memory import absent
from vitalrank._util.typing import Array
from vitalrank.distributed.process_group import ProcessGroup
from vitalrank.errors import SettingError, TrainingError
from vitalrank.samplers.base import BoundSampler
from vitalrank.samplers.counting import Counts

if TYPE_CHECKING:
    from vitalrank.distributed.group import Group
    from vitalrank.samplers.adapter import SamplerAdapter

Allocate = Callable[[tuple[int, ...], Any], Array]


class RowShards:
    """A table of which every rank has the rows of its users."""

    def __init__(self, group: ProcessGroup, bounds: Sequence[int]) -> None:
        self._group = group
        self._bounds = bounds
        self._own = slice(bounds[group.rank], bounds[group.rank + 1])

    def gather(
        self, table: Array, shape: tuple[int, ...] | None = None, to_all: bool = False, allocate: Allocate = np.empty
    ) -> Array:
        """The whole table on rank 0, or on all; elsewhere zeros that take no memory.

        ``table`` has this rank's rows at their places; with ``shape``, that of the whole, it has these rows alone.
        """
        own = table[self._own] if shape is None else table
        shape = table.shape if shape is None else shape
        if to_all or self._group.is_rank_zero:
            whole: Array = allocate(shape, table.dtype)
            self._group.gather_rows(np.ascontiguousarray(own), self._bounds, whole)
            return whole
        self._group.gather_rows(np.ascontiguousarray(own), self._bounds, None)
        return absent(shape, table.dtype)

    def scatter(self, whole: Array, own: Array) -> None:
        """Send the rows of rank 0 to the ranks that own them."""
        self._group.scatter_rows(whole if self._group.is_rank_zero else None, self._bounds, own)


def add_counts(group: Group, counts: Counts, before: Mapping[str, Any]) -> None:
    """Add up what the ranks' samplers have counted since ``before``, so that all have the whole."""
    sums = counts.sums()
    arrays = {name: np.asarray(value - before[name], np.int64) for name, value in sums.items()}
    flat = np.concatenate([array.reshape(-1) for array in arrays.values()])
    memory = np.zeros((group.size, len(flat)), np.int64)
    memory[group.rank] = flat
    group.all_gather(memory.reshape(-1), [rank * len(flat) for rank in range(group.size)], [len(flat)] * group.size)
    total = memory.sum(0)
    for name, array in arrays.items():
        piece, total = total[: array.size], total[array.size :]
        counts.set_sum(name, before[name] + (piece.reshape(array.shape) if array.ndim else int(piece[0])))


def check_same(group: Group, table: Array, what: str) -> None:
    """Stop when a table that all ranks should have alike differs between them."""
    found = group.all_gather_objects(zlib.crc32(np.ascontiguousarray(table).data))
    for rank, digest in enumerate(found):
        if digest != found[0]:
            raise TrainingError(
                f"the {what} of rank {rank} are not those of rank 0: their processors or libraries compute "
                "differently; use machines of one kind, then resume the run."
            )


def check_rows_known(sampler: BoundSampler | SamplerAdapter) -> None:
    """Reject a sampler of a caller's own that cannot draw for a part of a batch, by the numbers of its rows."""
    if isinstance(sampler, BoundSampler):
        return
    known = signature(sampler.sampler).parameters.values()
    if not any(one.name == "rows" or one.kind is Parameter.VAR_KEYWORD for one in known):
        raise SettingError(
            f"{type(sampler.sampler).__name__} takes no rows=; with several ranks a sampler is called for a part of "
            "each batch and needs the numbers of its rows to draw the same."
        )
