"""The array backend of a GPU: tensors in, tensors out, drawn by kernels without leaving the device."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from vitalrank._util.typing import Array, DeviceArray
from vitalrank.errors import SettingError
from vitalrank.kernels import gpu
from vitalrank.kernels.proposals import Proposal, Seen
from vitalrank.samplers.backends import ArrayBackend, check_width
from vitalrank.samplers.draws import Draw

_DTYPES: dict[type[np.generic], torch.dtype] = {
    np.int64: torch.int64,
    np.int32: torch.int32,
    np.float64: torch.float64,
    np.float32: torch.float32,
    np.bool_: torch.bool,
}


class CudaBackend(ArrayBackend):
    """The array backend of one device; ``cached_to_device`` copies an array there once.

    Parameters
    ----------
    device
        A GPU; or the CPU, where Triton interprets the kernels.
    """

    kernels = gpu
    xp = torch

    def __init__(self, device: torch.device) -> None:
        self.device = str(device)
        self._device = device
        self._cache: dict[int, tuple[Any, Any]] = {}  # by id; the value is kept, so that no other object gets its id

    def as_array(self, value: object) -> Tensor:
        return torch.as_tensor(value, device=self._device).detach()

    def full(self, shape: tuple[int, ...], value: float, dtype: type[np.generic]) -> Tensor:
        return self.empty(shape, dtype).fill_(value)

    def empty(self, shape: tuple[int, ...], dtype: type[np.generic], beside: int = 0) -> Tensor:
        try:
            return torch.empty(shape, dtype=_DTYPES[dtype], device=self._device)
        except torch.OutOfMemoryError as error:
            raise SettingError(
                f"an array of shape {shape} does not fit into the free memory of {self.device}; lower candidates, k or "
                "the batch."
            ) from error

    def unit_weights(self, ids: Tensor, each: int) -> tuple[Tensor, Tensor]:
        weights, tries = self.empty(tuple(ids.shape), np.float32), self.empty((len(ids),), np.int32)
        gpu.unit_weights(ids.contiguous(), each, weights, tries)
        return weights, tries

    def cast(self, array: Tensor, dtype: type[np.generic]) -> Tensor:
        return array.to(_DTYPES[dtype])

    def gather(self, table: Tensor, indices: Tensor) -> Tensor:
        values = torch.empty(indices.shape, dtype=table.dtype, device=self._device)
        gpu.gather(table, indices.contiguous(), values)
        return values

    def take_along_last(self, values: Tensor, indices: Tensor) -> Tensor:
        return torch.take_along_dim(values, indices, -1)

    def argsort_rows(self, rows: Tensor) -> Tensor:
        return torch.argsort(rows.contiguous(), dim=1, stable=True)

    def cached_to_device(self, value: DeviceArray | Proposal | Seen) -> Any:
        if id(value) not in self._cache:
            self._cache[id(value)] = value, self.to_device(value)
        return self._cache[id(value)][1]

    def to_device(self, value: DeviceArray | Proposal | Seen) -> Any:
        if isinstance(value, Proposal):
            return gpu.proposal_to_device(value, self._device)
        if isinstance(value, Seen):
            return gpu.seen_to_device(value, self._device)
        return torch.from_numpy(np.ascontiguousarray(value)).to(self._device)

    def counter(self, seed: int, step: int, rows: Tensor) -> gpu.Counter:
        return gpu.new_counter(int(seed), step, rows)

    def row_numbers(self, count: int) -> Tensor:
        return torch.arange(count, dtype=torch.int32, device=self._device)

    def check_rows(self, value: object) -> Tensor:
        wide = self._checked(value, "rows", 2**32)
        return torch.where(wide >= 2**31, wide - 2**32, wide).to(torch.int32)  # the same bits

    def check_ids(self, value: object, name: str, limit: int, dtype: type[np.generic] = np.int32) -> Tensor:
        return self._checked(value, name, limit).to(_DTYPES[dtype]).contiguous()

    def _checked(self, value: object, name: str, limit: int) -> Tensor:
        tensor = self.as_array(value)
        whole = not (tensor.is_floating_point() or tensor.dtype == torch.bool)
        if tensor.ndim != 1 or (tensor.numel() and not whole):
            raise SettingError(
                f"{name} has shape {tuple(tensor.shape)} and type {tensor.dtype}; give whole numbers, (B,)."
            )
        if tensor.numel():
            low, high = (int(end) for end in torch.aminmax(tensor.to(torch.int64)))
            if low < 0 or high >= limit:
                raise SettingError(f"{name} holds {low} to {high}; internal ids are 0 to {limit - 1}.")
        return tensor.to(torch.int64)

    def check_vectors(self, value: object, name: str, rows: int) -> Tensor:
        tensor = self.as_array(value)
        if tensor.ndim != 2 or tensor.shape[0] != rows:
            raise SettingError(f"{name} has shape {tuple(tensor.shape)}; it must be ({rows}, d).")
        check_width(name, tuple(tensor.shape))
        return tensor.to(torch.float32).contiguous()


class DeviceCounts:
    """The counts of :class:`vitalrank.samplers.counting.Counts` on a device, until they are drained."""

    _SUMS = ("rows", "skipped", "tries", "tries_squared", "exhausted")

    def __init__(self, items: int, device: str) -> None:
        self._sides = torch.zeros((2, items + 1), dtype=torch.int64, device=device)  # one more for "none"
        self._sums = torch.zeros(len(self._SUMS), dtype=torch.int64, device=device)
        self._none = items

    def add(self, positives: Any, draw: Draw) -> None:
        """Take in one draw."""
        drawn = draw.ids >= 0
        trained = drawn[:, 0]
        for side, mask, ids in ((0, trained, positives.to(torch.int64)), (1, drawn, draw.ids)):
            places = torch.where(mask, ids, self._none).flatten()
            self._sides[side].index_add_(0, places, torch.ones_like(places))
        tries = draw.tries.to(torch.int64)
        lost = trained & ~draw.violated if draw.violated is not None else torch.zeros_like(trained)
        sums = (torch.ones_like(tries), ~trained, tries, tries * tries, lost)
        self._sums += torch.stack([part.sum() for part in sums])

    def drain(self) -> tuple[Array, Array, dict[str, int]]:
        """The counts, which start at 0 again."""
        positive, negative = self._sides[:, : self._none].clone().cpu().numpy()
        sums = dict(zip(self._SUMS, self._sums.tolist(), strict=True))
        self._sides.zero_()
        self._sums.zero_()
        return positive, negative, sums
