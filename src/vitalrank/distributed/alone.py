"""What a process without a group asks in place of one: every answer is its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from numpy.typing import NDArray

Value = TypeVar("Value")


class Alone:
    """A group of one, without messages.

    Examples
    --------
    >>> alone = Alone()
    >>> alone.size, alone.share(7), alone.anyone(False)
    (1, [7], False)
    """

    rank = 0
    size = 1

    def __bool__(self) -> bool:
        """Whether there is somebody else."""
        return self.size > 1

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0, which alone writes files and tells people."""
        return self.rank == 0

    def meet(self) -> None:
        """Wait for all ranks, however long, while they are alive."""

    def share(self, value: Any) -> list[Any]:
        """What every rank gave, by rank: anything that JSON holds."""
        return [value]

    def anyone(self, flag: bool) -> bool:
        """Whether any rank says so."""
        return any(self.share(bool(flag)))

    def everyone(self, flag: bool) -> bool:
        """Whether all ranks say so."""
        return all(self.share(bool(flag)))

    def first(self, work: Callable[[], Value]) -> Value:
        """What ``work`` returns on rank 0, which alone calls it; its error is everybody's."""
        return work()

    def joined(self, array: NDArray[Any]) -> NDArray[Any]:
        """The rows that the ranks have, one after the other."""
        return array

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Tell the other ranks of an error inside, so that they stop too."""
        yield
