"""Gradients summed over the ranks of a group, in the order of the ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vitalrank.distributed.group import Group

_NONE, _DENSE = -1, -2  # in place of the rows of a sparse gradient


def sum_gradients(group: Group, parameters: Sequence[Tensor]) -> None:
    """Give every parameter the sum of its gradients on all ranks; those of embeddings name rows and stay sparse."""
    kinds = _kinds(group, parameters)  # (R, parameters)
    is_dense = (kinds == _DENSE).any(0)
    is_sparse = (kinds >= 0).any(0) & ~is_dense
    for parameter, sparse, counts in zip(parameters, is_sparse, kinds.T, strict=True):
        if sparse:
            _gather_rows(group, parameter, np.maximum(counts, 0))
    _sum_dense(group, [parameter for parameter, dense in zip(parameters, is_dense, strict=True) if dense])


def _kinds(group: Group, parameters: Sequence[Tensor]) -> NDArray[np.int64]:
    found = np.zeros((group.size, len(parameters)), np.int64)
    for number, parameter in enumerate(parameters):
        gradient = parameter.grad
        if gradient is None:
            found[group.rank, number] = _NONE
        else:
            found[group.rank, number] = gradient._indices().shape[1] if gradient.is_sparse else _DENSE
    each = len(parameters)
    group.all_gather(found.reshape(-1), [rank * each for rank in range(group.size)], [each] * group.size)
    return found


def _gather_rows(group: Group, parameter: Tensor, counts: NDArray[np.int64]) -> None:
    """The rows of all ranks one after the other; the optimizer sums those that occur more than once."""
    gradient, total = parameter.grad, int(counts.sum())
    width = parameter[0].numel()
    indices = torch.zeros(total, dtype=torch.int64, device=parameter.device)
    values = torch.zeros(total, width, dtype=parameter.dtype, device=parameter.device)
    starts = np.cumsum(counts) - counts
    begin, end = int(starts[group.rank]), int(starts[group.rank] + counts[group.rank])
    if gradient is not None:
        indices[begin:end], values[begin:end] = gradient._indices()[0], gradient._values().reshape(-1, width)
    group.all_gather(indices, starts.tolist(), counts.tolist())
    group.all_gather(values.view(-1), (starts * width).tolist(), (counts * width).tolist())
    shape: Any = parameter.shape
    values = values.view(total, *shape[1:])
    parameter.grad = torch.sparse_coo_tensor(indices[None], values, shape, check_invariants=False)


def _sum_dense(group: Group, parameters: Sequence[Tensor]) -> None:
    """One sum for all dense gradients."""
    if not parameters:
        return
    flat = torch.cat([_dense(parameter).reshape(-1) for parameter in parameters])
    group.all_reduce(flat)
    pieces = torch.split(flat, [parameter.numel() for parameter in parameters])
    for parameter, piece in zip(parameters, pieces, strict=True):
        parameter.grad = piece.view(parameter.shape).clone()


def _dense(parameter: Tensor) -> Tensor:
    gradient = parameter.grad
    if gradient is None:
        return torch.zeros_like(parameter)
    return gradient.to_dense() if gradient.is_sparse else gradient
