"""Optimizer steps on a network's parameters: touched rows of embeddings, and everything else as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from vitalrank.engines.gpu_optimizer import GpuOptimizer
from vitalrank.engines.network import device_of
from vitalrank.errors import SettingError
from vitalrank.kernels.cpu.training.coalescing import Coalesced, new_coalesced
from vitalrank.kernels.cpu.training.rows import update_dense, update_sparse
from vitalrank.kernels.optimizers import OPTIMIZERS

Array = NDArray[Any]


class TableOptimizer:
    """Adam, Adagrad or SGD in place, by the same kernels as matrix factorization.

    A parameter with a sparse gradient moves by rows, those that the batch touched; its gradient is taken as it is.
    The others move as a whole, by their gradient over the number of positives, clipped together.
    """

    def __init__(self, network: nn.Module, optimizer: str) -> None:
        self._optimizer = OPTIMIZERS[optimizer]
        self._parameters = {name: p for name, p in network.named_parameters() if p.requires_grad}
        self._groups: dict[str, Coalesced] = {}
        self.state: dict[str, Array] = {}  # (R, s, d) each
        for name, parameter in self._parameters.items():
            rows, width = _as_rows(parameter)
            self.state[name] = np.zeros((rows, self._optimizer.slots, width), np.float32)

    def load(self, state: Mapping[str, Array]) -> None:
        """Take back what ``state`` gave."""
        for name, array in self.state.items():
            array[...] = state[name]

    def move(self, size: Tensor, positives: int, clip: float | None) -> dict[str, Tensor]:
        """One step of a size (1,) by the gradients, which are used up; returns the rows touched, by parameter."""
        stride = np.float32(size.item())
        grown = {name: p for name, p in self._parameters.items() if p.grad is not None}
        whole = {name: p for name, p in grown.items() if not _gradient(p).is_sparse}
        _scale((_gradient(p) for p in whole.values()), 1.0 / positives, clip)
        touched: dict[str, Tensor] = {}
        for name, parameter in grown.items():
            if name in whole:
                self._move_whole(name, parameter, stride)
            else:
                touched[name] = self._move_rows(name, parameter, stride)
            parameter.grad = None
        return touched

    def _move_whole(self, name: str, parameter: Tensor, size: np.float32) -> None:
        rows, width = _as_rows(parameter)
        pulls = _gradient(parameter).contiguous().numpy().reshape(rows, width)
        update_dense(self._optimizer, size, pulls, _memory(parameter), self.state[name])

    def _move_rows(self, name: str, parameter: Tensor, size: np.float32) -> Tensor:
        gradient = _gradient(parameter)
        places, pulls = gradient._indices()[0].numpy(), gradient._values().contiguous().numpy()
        groups = self._groups.get(name)
        if groups is None or len(groups.row_of) < len(places):
            groups = self._groups[name] = new_coalesced(len(parameter), len(places))
        found = update_sparse(self._optimizer, size, places, pulls, _memory(parameter), self.state[name], groups)
        return torch.from_numpy(groups.rows[:found].astype(np.int64))


def new_optimizer(network: nn.Module, optimizer: str) -> TableOptimizer | GpuOptimizer:
    """The optimizer for the device that the network lies on."""
    for name, parameter in network.named_parameters():
        if parameter.requires_grad and (parameter.dtype != torch.float32 or not parameter.is_contiguous()):
            raise SettingError(f"parameter {name!r} must be contiguous float32 to be trained.")
    return (GpuOptimizer if device_of(network).type == "cuda" else TableOptimizer)(network, optimizer)


def _gradient(parameter: Tensor) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad


def _as_rows(parameter: Tensor) -> tuple[int, int]:
    """Rows and columns a parameter of any shape is moved by."""
    return (len(parameter), parameter[0].numel()) if parameter.dim() > 1 and len(parameter) else (1, parameter.numel())


def _memory(parameter: Tensor) -> Array:
    return parameter.detach().numpy().reshape(_as_rows(parameter))


def _scale(gradients: Iterable[Tensor], factor: float, clip: float | None) -> None:
    """Multiply all by ``factor``, then bring their common length down to ``clip``."""
    gradients = list(gradients)
    if not gradients:
        return
    length = float(torch.stack([torch.linalg.vector_norm(gradient) for gradient in gradients]).norm()) * factor
    if clip is not None and length > clip:
        factor *= clip / length
    for gradient in gradients:
        gradient.mul_(factor)
