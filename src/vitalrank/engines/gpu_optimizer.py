"""Optimizer steps on a GPU: the moves of ``torch_optimizer`` in torch operations that never wait for the host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from vitalrank.kernels.optimizers import ADAGRAD_EPS, ADAM_EPS, ONE_MINUS_BETA_1, ONE_MINUS_BETA_2, OPTIMIZERS

Array = NDArray[Any]
Tensors = list[Tensor]


@dataclass
class Part:
    """What moves of one parameter: all of it in place, or copies of the rows touched."""

    pull: Tensor
    value: Tensor
    state: Tensor  # (s, ...)
    rows: Tensor | None = None  # (P,)


class GpuOptimizer:
    """Adam, Adagrad or SGD in place; the same gradients give the same bits.

    A parameter with a sparse gradient moves by rows, those that the batch touched; its gradient is taken as it is.
    The others move as a whole, by their gradient over the number of positives, clipped together. All of them move
    in one sweep.
    """

    def __init__(self, network: nn.Module, optimizer: str) -> None:
        self._optimizer = optimizer
        self._parameters = {name: p for name, p in network.named_parameters() if p.requires_grad}
        slots = OPTIMIZERS[optimizer].slots
        self._state = {name: p.detach().new_zeros(slots, *p.shape) for name, p in self._parameters.items()}

    @property
    def state(self) -> dict[str, Array]:
        """What the optimizer remembers, by parameter."""  # (s, ...) each
        return {name: slots.cpu().numpy() for name, slots in self._state.items()}

    def load(self, state: Mapping[str, Array]) -> None:
        """Take back what ``state`` gave."""
        for name, slots in self._state.items():
            slots.copy_(torch.from_numpy(state[name]))

    @torch.no_grad()
    def move(self, size: Tensor, positives: int, clip: float | None) -> dict[str, Tensor]:
        """One step of a size (1,) by the gradients, which are used up; the rows touched, the last one repeated."""
        parts = {name: part for name in self._parameters if (part := self._part(name)) is not None}
        if not parts:
            return {}
        scale([part.pull for part in parts.values() if part.rows is None], positives, clip)
        slots = [list(slot) for slot in zip(*(part.state for part in parts.values()), strict=True)]
        MOVES[self._optimizer](size[0], [p.pull for p in parts.values()], [p.value for p in parts.values()], *slots)
        touched = {name: part.rows for name, part in parts.items() if part.rows is not None}
        for name, rows in touched.items():
            self._parameters[name].index_copy_(0, rows, parts[name].value)
            self._state[name].index_copy_(1, rows, parts[name].state)
        return touched

    def _part(self, name: str) -> Part | None:
        parameter, state = self._parameters[name], self._state[name]
        gradient, parameter.grad = parameter.grad, None
        if gradient is None:
            return None
        if not gradient.is_sparse:
            return Part(gradient, parameter, state)
        if not gradient._nnz():
            return None
        rows, pull = summed_rows(gradient._indices()[0], gradient._values())
        return Part(pull, parameter[rows], state[:, rows], rows)


def summed_rows(places: Tensor, pulls: Tensor) -> tuple[Tensor, Tensor]:
    """The rows named in ``places`` (P,), ascending, and the sums of their ``pulls`` (P, d), added in their order.

    As many as there are places, the last row and its sum repeated: to cut them off, the host would have to wait for
    their number.

    Examples
    --------
    >>> rows, sums = summed_rows(torch.tensor([7, 3, 7]), torch.tensor([[1.0], [2.0], [4.0]]))
    >>> rows.tolist(), sums.tolist()
    ([3, 7, 7], [[2.0], [5.0], [5.0]])
    """
    places, order = places.sort(stable=True)
    begins = torch.ones_like(places)
    begins[1:] = places[1:] != places[:-1]
    group = begins.cumsum(0) - 1  # (P,)
    numbers = torch.arange(len(places) + 1, device=places.device)
    starts = torch.searchsorted(group, numbers)  # (P + 1,)
    sums = torch.segment_reduce(pulls[order], "sum", offsets=starts, axis=0, unsafe=True)  # (P, d), 0 past the last
    known = torch.minimum(numbers[:-1], group[-1])
    return places[starts[known]], sums[known]


def scale(gradients: Tensors, positives: int, clip: float | None) -> None:
    """Divide all by ``positives``, then bring their common length down to ``clip``."""
    if not gradients:
        return
    torch._foreach_div_(gradients, float(positives))
    if clip is not None:
        length = torch.stack(torch._foreach_norm(gradients)).norm()
        torch._foreach_mul_(gradients, (clip / length).clamp(max=1.0))


def _adam(size: Tensor, pulls: Tensors, values: Tensors, means: Tensors, squares: Tensors) -> None:
    torch._foreach_lerp_(means, pulls, float(ONE_MINUS_BETA_1))
    torch._foreach_mul_(squares, 1.0 - float(ONE_MINUS_BETA_2))
    torch._foreach_addcmul_(squares, pulls, pulls, float(ONE_MINUS_BETA_2))
    _divided(size, means, values, squares, float(ADAM_EPS))


def _adagrad(size: Tensor, pulls: Tensors, values: Tensors, squares: Tensors) -> None:
    torch._foreach_addcmul_(squares, pulls, pulls, 1.0)
    _divided(size, pulls, values, squares, float(ADAGRAD_EPS))


def _sgd(size: Tensor, pulls: Tensors, values: Tensors) -> None:
    torch._foreach_sub_(values, torch._foreach_mul(pulls, size))


def _divided(size: Tensor, pulls: Tensors, values: Tensors, squares: Tensors, eps: float) -> None:
    roots = torch._foreach_sqrt(squares)
    torch._foreach_add_(roots, eps)
    torch._foreach_div_(roots, -size)
    torch._foreach_addcdiv_(values, pulls, roots)


MOVES: dict[str, Callable[..., None]] = {"adam": _adam, "adagrad": _adagrad, "sgd": _sgd}
