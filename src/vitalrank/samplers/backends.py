"""The seam between the caller's arrays (NumPy or torch) and the kernels' NumPy arrays; nothing is copied if it fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.checks import is_tensor
from vitalrank.errors import SettingError
from vitalrank.kernels import cpu
from vitalrank.kernels.proposals import Counter


def backend_of(*given: Any) -> ArrayBackend:
    """How to read and answer a caller: in torch, on its device, if any of the arrays is a tensor."""
    for value in given:
        if is_tensor(value):
            return TorchBackend(str(value.device))
    return ArrayBackend()


class ArrayBackend:
    """NumPy in, NumPy out, and what the samplers do with arrays in between."""

    device = "cpu"
    kernels: Any = cpu
    xp: Any = np

    def full(self, shape: tuple[int, ...], value: Any, dtype: type[Any]) -> Any:
        """A new array with one value everywhere."""
        return np.full(shape, value, dtype)

    def empty(self, shape: tuple[int, ...], dtype: type[Any]) -> Any:
        """A new array that a kernel will fill."""
        return np.empty(shape, dtype)

    def unit_weights(self, ids: Any, each: int) -> tuple[Any, Any]:
        """Weight 1 for every id that was drawn, and ``each`` tries for it."""  # (B, k), (B,)
        drawn = ids >= 0
        return drawn.astype(np.float32), drawn.sum(axis=1, dtype=np.int32) * np.int32(each)

    def cast(self, array: Any, dtype: type[Any]) -> Any:
        """The array in another type."""
        return array.astype(dtype, copy=False)

    def gather(self, table: Any, places: Any) -> Any:
        """The values of a table (m,) at places of any shape."""
        return table[places]

    def argsort_rows(self, rows: Any) -> Any:
        """The order of each row's values, equal ones as they stand."""  # (R, m)
        return np.argsort(rows, axis=1, kind="stable")

    def cached_to_device(self, value: Any) -> Any:
        """A NumPy array, law or record of what is seen, where the kernels can read it."""
        return value

    def to_device(self, value: Any) -> Any:
        """The same for what changes while training, without keeping it."""
        return value

    def counter(self, seed: Any, step: int, rows: Any) -> Any:
        """The random counter of one call, as the kernels read it."""
        return Counter(seed, step, rows)

    def row_numbers(self, count: int) -> Any:
        """Row numbers from 0."""
        return np.arange(count, dtype=np.uint32)

    def check_rows(self, value: Any) -> Any:
        """The caller's row numbers."""
        return self.check_ids(value, "rows", 2**32, np.uint32)

    def as_array(self, value: Any) -> Any:
        """The value as an array of the kernels' kind."""
        return np.asarray(value)

    def to_caller(self, draw: Any) -> Any:
        """The draw in the caller's kind of array."""
        return draw

    def wrap_scorer(self, score: Callable[[Any, Any], Any]) -> Callable[[Any, Any], NDArray[np.float32]]:
        """The caller's scorer, taking and giving NumPy arrays, with its answer's shape checked."""

        def scored(rows: NDArray[np.int64], ids: NDArray[np.int64]) -> NDArray[np.float32]:
            given = score(*self.scorer_arguments(rows, np.maximum(ids, 0)))
            answer = backend_of(given).as_array(given)
            if answer.shape != ids.shape:
                raise SettingError(f"score() gave shape {answer.shape} for ids of shape {ids.shape}; they must agree.")
            return np.where(ids >= 0, answer, -np.inf).astype(np.float32)

        return scored

    def scorer_arguments(self, rows: NDArray[np.int64], ids: NDArray[np.int64]) -> tuple[Any, Any]:
        """What the caller's scorer is called with."""
        return rows, ids

    def check_ids(self, value: Any, name: str, limit: int, dtype: type[np.integer[Any]] = np.int32) -> Any:
        """A one-dimensional array of ids below ``limit``."""
        array = self.as_array(value)
        if array.ndim != 1 or (array.size and not np.issubdtype(array.dtype, np.integer)):
            raise SettingError(f"{name} has shape {array.shape} and type {array.dtype}; give whole numbers, (B,).")
        if array.size and not (array.min() >= 0 and array.max() < limit):
            raise SettingError(f"{name} holds {array.min()} to {array.max()}; internal ids are 0 to {limit - 1}.")
        return np.ascontiguousarray(array, dtype)

    def check_vectors(self, value: Any, name: str, rows: int) -> Any:
        """A float32 matrix with so many rows."""
        array = self.as_array(value)
        if array.ndim != 2 or array.shape[0] != rows:
            raise SettingError(f"{name} has shape {array.shape}; it must be ({rows}, d).")
        return np.ascontiguousarray(array, np.float32)


class TorchBackend(ArrayBackend):
    """Torch in, torch out, drawn on the CPU; CPU tensors share their memory with the kernels."""

    def __init__(self, device: str) -> None:
        self.device = device

    def as_array(self, value: Any) -> NDArray[Any]:
        if not hasattr(value, "detach"):
            return np.asarray(value)
        tensor = value.detach().cpu()
        return np.asarray((tensor.float() if tensor.is_floating_point() else tensor).numpy())

    def scorer_arguments(self, rows: NDArray[np.int64], ids: NDArray[np.int64]) -> tuple[Any, Any]:
        return self._tensor(rows), self._tensor(ids)

    def to_caller(self, draw: Any) -> Any:
        parts = {f.name: getattr(draw, f.name) for f in fields(draw)}
        return replace(draw, **{name: self._tensor(part) for name, part in parts.items() if part is not None})

    def _tensor(self, array: NDArray[Any]) -> Any:
        import torch

        return torch.from_numpy(array).to(self.device)
