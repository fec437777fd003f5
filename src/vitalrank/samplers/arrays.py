"""The seam between the caller's arrays (NumPy or torch) and the kernels' NumPy arrays; nothing is copied if it fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitalrank.errors import SettingError


def arrays_of(*given: Any) -> Arrays:
    """How to read and answer a caller: in torch if any of the arrays is a tensor."""
    for value in given:
        if type(value).__module__.partition(".")[0] == "torch":
            return TorchArrays()
    return Arrays()


class Arrays:
    """NumPy in, NumPy out."""

    def plain(self, value: Any) -> NDArray[Any]:
        """The value as a NumPy array."""
        return np.asarray(value)

    def give(self, draw: Any) -> Any:
        """The draw in the caller's kind of array."""
        return draw

    def scorer(self, score: Callable[[Any, Any], Any]) -> Callable[[Any, Any], NDArray[np.float32]]:
        """The caller's scorer, taking and giving NumPy arrays, with its answer's shape checked."""

        def scored(rows: NDArray[np.int64], ids: NDArray[np.int64]) -> NDArray[np.float32]:
            given = score(*self.asked(rows, np.maximum(ids, 0)))
            answer = arrays_of(given).plain(given)
            if answer.shape != ids.shape:
                raise SettingError(f"score() gave shape {answer.shape} for ids of shape {ids.shape}; they must agree.")
            return np.where(ids >= 0, answer, -np.inf).astype(np.float32)

        return scored

    def asked(self, rows: NDArray[np.int64], ids: NDArray[np.int64]) -> tuple[Any, Any]:
        """What the caller's scorer is called with."""
        return rows, ids

    def ids(self, value: Any, name: str, limit: int, kind: type[np.integer[Any]] = np.int32) -> NDArray[Any]:
        """A one-dimensional array of ids below ``limit``."""
        array = self.plain(value)
        if array.ndim != 1 or (array.size and not np.issubdtype(array.dtype, np.integer)):
            raise SettingError(f"{name} has shape {array.shape} and type {array.dtype}; give whole numbers, (B,).")
        if array.size and not (array.min() >= 0 and array.max() < limit):
            raise SettingError(f"{name} holds {array.min()} to {array.max()}; internal ids are 0 to {limit - 1}.")
        return np.ascontiguousarray(array, kind)

    def vectors(self, value: Any, name: str, rows: int) -> NDArray[np.float32]:
        """A float32 matrix with so many rows."""
        array = self.plain(value)
        if array.ndim != 2 or array.shape[0] != rows:
            raise SettingError(f"{name} has shape {array.shape}; it must be ({rows}, d).")
        return np.ascontiguousarray(array, np.float32)


class TorchArrays(Arrays):
    """Torch in, torch out; CPU tensors share their memory with the kernels."""

    def plain(self, value: Any) -> NDArray[Any]:
        if not hasattr(value, "detach"):
            return np.asarray(value)
        if value.device.type != "cpu":
            raise SettingError(f"a tensor is on {value.device}; samplers run on the CPU: move it with .cpu().")
        tensor = value.detach()
        return np.asarray((tensor.float() if tensor.is_floating_point() else tensor).numpy())

    def asked(self, rows: NDArray[np.int64], ids: NDArray[np.int64]) -> tuple[Any, Any]:
        import torch

        return torch.from_numpy(rows), torch.from_numpy(ids)

    def give(self, draw: Any) -> Any:
        import torch

        parts = {f.name: getattr(draw, f.name) for f in fields(draw)}
        return replace(draw, **{name: torch.from_numpy(part) for name, part in parts.items() if part is not None})
