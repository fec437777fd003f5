"""The interface of a group of ranks, and the group of a process alone: all of its collectives are local."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:  # ``vitalrank --help`` does without numpy
    from numpy.typing import NDArray

Value = TypeVar("Value")


class ProcessGroup:
    """The group of a process alone; :class:`vitalrank.distributed.group.Group` is that of several.

    Examples
    --------
    >>> group = ProcessGroup()
    >>> group.size, group.all_gather_objects(7), group.any_rank(False)
    (1, [7], False)
    """

    rank = 0
    size = 1

    def __bool__(self) -> bool:
        """Whether there are other ranks."""
        return self.size > 1

    @property
    def is_rank_zero(self) -> bool:
        """Whether this is rank 0, which alone writes files and prints."""
        return self.rank == 0

    def barrier(self) -> None:
        """Wait, however long, until all ranks have called this; a rank that is gone is an error."""

    def all_gather_objects(self, value: object) -> list[Any]:
        """The value of every rank, by rank: anything that JSON holds."""
        return [value]

    def any_rank(self, flag: bool) -> bool:
        """Whether the flag is set on any rank."""
        return any(self.all_gather_objects(bool(flag)))

    def all_ranks(self, flag: bool) -> bool:
        """Whether the flag is set on all ranks."""
        return all(self.all_gather_objects(bool(flag)))

    def on_rank_zero(self, work: Callable[[], Value]) -> Value:
        """The result of ``work``, which rank 0 alone calls; its error is raised on all ranks."""
        return work()

    def all_gather_rows(self, array: NDArray[Any]) -> NDArray[Any]:
        """The rows of all ranks, concatenated by rank."""
        return array

    def gather_rows(self, own: NDArray[Any], bounds: Sequence[int], whole: NDArray[Any] | None) -> None:
        """Gather the rows of a table into ``whole``, on rank 0 or on every rank, whichever give it."""
        if whole is not None:
            whole[...] = own

    def scatter_rows(self, whole: NDArray[Any] | None, bounds: Sequence[int], own: NDArray[Any]) -> None:
        """Send the rows of rank 0's table to the ranks that own them; rank r's begin at ``bounds[r]``."""
        if whole is not None:
            own[...] = whole

    @contextmanager
    def stop_others_on_error(self) -> Iterator[None]:
        """Report an error inside to the other ranks, so that they stop too."""
        yield
