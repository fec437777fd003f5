"""Array backends: the caller's arrays, NumPy or torch, as the kernels read them; nothing is copied if it fits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sized
from dataclasses import fields, replace
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.checks import is_tensor
from vitalrank._util.display import first_line
from vitalrank._util.memory import available_memory
from vitalrank._util.typing import DeviceArray
from vitalrank.errors import SettingError
from vitalrank.kernels import cpu
from vitalrank.kernels.proposals import Counter, Proposal, Seen

if TYPE_CHECKING:
    from torch import Tensor

    from vitalrank.kernels.gpu.sampling.arrays import Counter as DeviceCounter
    from vitalrank.samplers.draws import Draw, ScoreFunction

_LARGE = 1 << 28  # bytes; smaller arrays are allocated without a look at the free memory


def backend_of(*given: object) -> ArrayBackend:
    """The backend of a caller's arrays: torch, on its device, if any of them is a tensor."""
    for value in given:
        if is_tensor(value):
            return TorchBackend(str(value.device))
    return ArrayBackend()


class ArrayBackend:
    """NumPy in, NumPy out; the array operations that samplers need, the same for every device.

    Arrays that it is given are ``Any``: each backend takes its own kind alone, which one base cannot say.
    """

    device = "cpu"
    kernels: ModuleType = cpu
    xp: ModuleType = np

    def full(self, shape: tuple[int, ...], value: float, dtype: type[np.generic]) -> DeviceArray:
        """A new array with one value everywhere."""
        array = self.empty(shape, dtype)
        array[...] = value
        return array

    def empty(self, shape: tuple[int, ...], dtype: type[np.generic], beside: int = 0) -> DeviceArray:
        """A new array that a kernel will fill, if there is memory for it and ``beside`` more bytes for each value."""
        check_fits(shape, np.dtype(dtype).itemsize + beside)
        return np.empty(shape, dtype)

    def unit_weights(self, ids: Any, each: int) -> tuple[DeviceArray, DeviceArray]:
        """Weight 1 for every id that was drawn, and ``each`` tries for each of them."""  # (B, k), (B,)
        drawn = ids >= 0
        return drawn.astype(np.float32), drawn.sum(axis=1, dtype=np.int32) * np.int32(each)

    def cast(self, array: Any, dtype: type[np.generic]) -> DeviceArray:
        """The array in another type."""
        made: DeviceArray = array.astype(dtype, copy=False)
        return made

    def gather(self, table: Any, indices: Any) -> DeviceArray:
        """The values of a table (m,) at indices of any shape."""
        values: DeviceArray = table[indices]
        return values

    def take_along_last(self, values: Any, indices: Any) -> DeviceArray:
        """The values at indices into the last axis."""
        found: NDArray[Any] = np.take_along_axis(values, indices, -1)
        return found

    def argsort_rows(self, rows: Any) -> DeviceArray:
        """A stable argsort of each row."""  # (R, m)
        return np.argsort(rows, axis=1, kind="stable")

    def cached_to_device(self, value: DeviceArray | Proposal | Seen) -> Any:
        """A NumPy array, ``Proposal`` or ``Seen`` where the kernels can read it, copied there once."""
        return value

    def to_device(self, value: DeviceArray | Proposal | Seen) -> Any:
        """The same for what changes while training: copied every time."""
        return value

    def counter(self, seed: int, step: int, rows: Any) -> Counter | DeviceCounter:
        """The counter of the random generator for one call."""
        return Counter(seed, step, rows)

    def row_numbers(self, count: int) -> DeviceArray:
        """Row numbers from 0."""
        return np.arange(count, dtype=np.uint32)

    def check_rows(self, value: object) -> DeviceArray:
        """The caller's row numbers."""
        return self.check_ids(value, "rows", 2**32, np.uint32)

    def as_array(self, value: object) -> Any:
        """The value as an array of this backend, without gradient."""
        try:
            return np.asarray(value)
        except ValueError as error:  # rows of several lengths
            many = len(value) if isinstance(value, Sized) else 1
            raise SettingError(
                f"a list of {many} is no array ({first_line(error)}); give rows of one length."
            ) from error

    def to_caller(self, draw: Draw) -> Draw:
        """The draw as the caller's kind of array."""
        return draw

    def wrap_scorer(self, score: ScoreFunction) -> Callable[[Any, Any], NDArray[np.float32]]:
        """The caller's scorer as a function of NumPy arrays, with the shape of what it returns checked."""
        if not callable(score):
            raise SettingError(
                f"score is {score!r}; give a function of rows (R,) and ids (R, C) that returns scores (R, C)."
            )

        def scored(rows: NDArray[np.int64], ids: NDArray[np.int64]) -> NDArray[np.float32]:
            given = score(*self.scorer_arguments(rows, np.maximum(ids, 0)))
            answer = backend_of(given).as_array(given)
            if answer.shape != ids.shape:
                raise SettingError(f"score() gave shape {answer.shape} for ids of shape {ids.shape}; they must agree.")
            return np.where(ids >= 0, answer, -np.inf).astype(np.float32)

        return scored

    def scorer_arguments(self, rows: NDArray[np.int64], ids: NDArray[np.int64]) -> tuple[DeviceArray, DeviceArray]:
        """The arguments of a call of the caller's scorer."""
        return rows, ids

    def check_ids(self, value: object, name: str, limit: int, dtype: type[np.generic] = np.int32) -> DeviceArray:
        """A one-dimensional array of ids below ``limit``."""
        array = self.as_array(value)
        if array.ndim != 1 or (array.size and not np.issubdtype(array.dtype, np.integer)):
            raise SettingError(f"{name} has shape {array.shape} and type {array.dtype}; give whole numbers, (B,).")
        if array.size and not (array.min() >= 0 and array.max() < limit):
            raise SettingError(f"{name} holds {array.min()} to {array.max()}; internal ids are 0 to {limit - 1}.")
        return np.ascontiguousarray(array, dtype)

    def check_vectors(self, value: object, name: str, rows: int) -> DeviceArray:
        """A float32 matrix with so many rows."""
        array = self.as_array(value)
        if array.ndim != 2 or array.shape[0] != rows:
            raise SettingError(f"{name} has shape {array.shape}; it must be ({rows}, d).")
        check_width(name, array.shape)
        return np.ascontiguousarray(array, np.float32)


class TorchBackend(ArrayBackend):
    """Torch in, torch out, drawn on the CPU; CPU tensors share their memory with the kernels."""

    def __init__(self, device: str) -> None:
        self.device = device

    def as_array(self, value: object) -> NDArray[Any]:
        if not hasattr(value, "detach"):
            return np.asarray(value)
        tensor = value.detach().cpu()
        return np.asarray((tensor.float() if tensor.is_floating_point() else tensor).numpy())

    def scorer_arguments(self, rows: NDArray[np.int64], ids: NDArray[np.int64]) -> tuple[DeviceArray, DeviceArray]:
        return self._tensor(rows), self._tensor(ids)

    def to_caller(self, draw: Draw) -> Draw:
        parts = {f.name: getattr(draw, f.name) for f in fields(draw)}
        return replace(draw, **{name: self._tensor(part) for name, part in parts.items() if part is not None})

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        import torch

        return torch.from_numpy(array).to(self.device)


def check_width(name: str, shape: tuple[int, ...]) -> None:
    """Vectors without columns have no scores."""
    if shape[1] == 0:
        raise SettingError(f"{name} has shape {tuple(shape)}; its vectors must have at least one column.")


def check_fits(shape: tuple[int, ...], itemsize: int) -> None:
    """Refuse a large array that the free memory cannot hold, before it is allocated."""
    wanted = math.prod(shape) * itemsize
    if wanted < _LARGE:
        return
    free = available_memory()
    if free is not None and wanted > free:
        raise SettingError(
            f"an array of shape {tuple(shape)} takes {wanted / 2**30:.1f} GiB and {free / 2**30:.1f} GiB are free; "
            "lower candidates, k or the batch."
        )
