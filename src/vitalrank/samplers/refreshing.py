"""What samplers share that build something from the item table now and then: sorted factors, clusters."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from vitalrank.samplers.backends import ArrayBackend
from vitalrank.samplers.base import BoundSampler


class RefreshedByEpoch(BoundSampler):
    """Builds again what is too old, of a later step, of another width or for another device."""

    needs_refresh = True

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._built: tuple[Any, int] | None = None  # for whom, at which step

    def reset(self) -> None:
        self._built = None

    def refresh(self, backend: ArrayBackend, table: Any, step: int, draws: int) -> None:
        whom = (backend.kernels, backend.device, table.shape[1])
        if (
            self._built is not None
            and self._built[0] == whom
            and 0 <= step - self._built[1] < self._refresh_interval(draws)
        ):
            return
        self._built = whom, step
        if len(self.pool):
            self._rebuild(backend, table, step)

    @abstractmethod
    def _refresh_interval(self, draws: int) -> int:
        """Steps that a building lasts, with so many draws a step."""

    @abstractmethod
    def _rebuild(self, backend: ArrayBackend, table: Any, step: int) -> None: ...


def copy_in_place(old: Any, new: Any) -> Any:
    """``new``, in the place of ``old`` where it fits there: a captured graph goes on reading the old place."""
    if type(old) is not type(new) or old.shape != new.shape or old.device != new.device:
        return new
    old[...] = new
    return old
