"""Optimizer steps on a network's parameters: embeddings by the rows of a batch, everything else as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import torch
from torch import Tensor, nn

from vitalrank._util.typing import Array
from vitalrank.engines.gpu_optimizer import GpuOptimizer
from vitalrank.engines.network import device_of
from vitalrank.errors import SettingError
from vitalrank.kernels.cpu.training.coalescing import Coalesced, new_coalesced
from vitalrank.kernels.cpu.training.rows import update_dense, update_sparse
from vitalrank.kernels.optimizers import OPTIMIZERS


class TableOptimizer:
    """Adam, Adagrad or SGD in place, by the same kernels as matrix factorization.

    A parameter with a sparse gradient is updated row by row, only the rows of the batch, by the sum of their gradients.
    The others are updated as a whole, by their gradient over the number of positives, clipped together.
    """

    def __init__(self, network: nn.Module, optimizer: str) -> None:
        self._optimizer = OPTIMIZERS[optimizer]
        self._parameters = {name: p for name, p in network.named_parameters() if p.requires_grad}
        self._coalesced: dict[str, Coalesced] = {}
        self.state: dict[str, Array] = {}  # (R, s, d) each
        for name, parameter in self._parameters.items():
            rows, width = _as_rows(parameter)
            self.state[name] = np.zeros((rows, self._optimizer.slots, width), np.float32)

    def load(self, state: Mapping[str, Array]) -> None:
        """Restore what ``state`` gave."""
        for name, array in self.state.items():
            array[...] = state[name]

    def step(self, step_size: Tensor, positives: int, clip: float | None) -> dict[str, Tensor]:
        """One step by the gradients, which are cleared; returns the updated rows by parameter."""
        size = np.float32(step_size.item())
        with_grad = {name: p for name, p in self._parameters.items() if p.grad is not None}
        dense = {name: p for name, p in with_grad.items() if not _gradient(p).is_sparse}
        _scale_and_clip((_gradient(p) for p in dense.values()), 1.0 / positives, clip)
        updated: dict[str, Tensor] = {}
        for name, parameter in with_grad.items():
            if name in dense:
                self._update_dense(name, parameter, size)
            else:
                updated[name] = self._update_sparse(name, parameter, size)
            parameter.grad = None
        return updated

    def _update_dense(self, name: str, parameter: Tensor, step_size: np.float32) -> None:
        rows, width = _as_rows(parameter)
        grads = _gradient(parameter).contiguous().numpy().reshape(rows, width)
        update_dense(self._optimizer, step_size, grads, _as_array(parameter), self.state[name])

    def _update_sparse(self, name: str, parameter: Tensor, step_size: np.float32) -> Tensor:
        gradient = _gradient(parameter)
        occurrences, grads = gradient._indices()[0].numpy(), gradient._values().contiguous().numpy()
        coalesced = self._coalesced.get(name)
        if coalesced is None or len(coalesced.row_of) < len(occurrences):
            coalesced = self._coalesced[name] = new_coalesced(len(parameter), len(occurrences))
        found = update_sparse(
            self._optimizer, step_size, occurrences, grads, _as_array(parameter), self.state[name], coalesced
        )
        return torch.from_numpy(coalesced.rows[:found].astype(np.int64))


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
    """Rows and columns by which a parameter of any shape is updated."""
    return (len(parameter), parameter[0].numel()) if parameter.dim() > 1 and len(parameter) else (1, parameter.numel())


def _as_array(parameter: Tensor) -> Array:
    return parameter.detach().numpy().reshape(_as_rows(parameter))


def _scale_and_clip(gradients: Iterable[Tensor], factor: float, clip: float | None) -> None:
    """Multiply all by ``factor``, then clip their common norm to ``clip``."""
    gradients = list(gradients)
    if not gradients:
        return
    length = float(torch.stack([torch.linalg.vector_norm(gradient) for gradient in gradients]).norm()) * factor
    if clip is not None and length > clip:
        factor *= clip / length
    for gradient in gradients:
        gradient.mul_(factor)
