"""Samplers with an index of the item table that goes stale and is rebuilt: sorted factors, clusters."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from vitalrank._util.typing import DeviceArray
from vitalrank.errors import SettingError
from vitalrank.samplers.backends import ArrayBackend
from vitalrank.samplers.base import BoundSampler


class RefreshedByEpoch(BoundSampler):
    """Rebuilds its index where it is stale, or was built for another width or device, or for a later step."""

    needs_refresh = True

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._built: tuple[Any, int] | None = None  # the backend and width it was built for, at which step

    def reset(self) -> None:
        self._built = None

    def refresh(
        self, backend: ArrayBackend, table: DeviceArray, step: int, draws: int, *, check_finite: bool = False
    ) -> None:
        whom = (backend.kernels, backend.device, table.shape[1])
        age = -1 if self._built is None or self._built[0] != whom else step - self._built[1]
        if 0 <= age < self._refresh_interval(draws):
            return
        if check_finite and not bool(backend.xp.isfinite(table).all()):
            raise SettingError("item_table holds NaN or infinite values; give finite vectors.")
        self._built = whom, step
        if len(self.pool):
            self._rebuild(backend, table, step)

    @abstractmethod
    def _refresh_interval(self, draws: int) -> int:
        """Steps between two rebuilds, with so many draws a step."""

    @abstractmethod
    def _rebuild(self, backend: ArrayBackend, table: DeviceArray, step: int) -> None: ...


def copy_in_place(old: DeviceArray, new: DeviceArray) -> DeviceArray:
    """``new``, written into the memory of ``old`` where it fits: a captured graph goes on reading that memory."""
    if type(old) is not type(new) or old.shape != new.shape or old.device != new.device:
        return new
    old[...] = new
    return old
