"""Optimizer steps on a GPU: the updates of ``torch_optimizer`` in torch operations that never wait for the host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from vitalrank._util.typing import Array
from vitalrank.kernels.optimizers import ADAGRAD_EPS, ADAM_EPS, ONE_MINUS_BETA_1, ONE_MINUS_BETA_2, OPTIMIZERS

Tensors = list[Tensor]


@dataclass
class Update:
    """What a step changes of one parameter: all of it in place, or copies of the rows with a gradient."""

    grad: Tensor
    value: Tensor
    state: Tensor  # (s, ...)
    rows: Tensor | None = None  # (P,)


class GpuOptimizer:
    """Adam, Adagrad or SGD in place; the same gradients give the same bits.

    A parameter with a sparse gradient is updated row by row, only the rows of the batch, by the sum of their gradients.
    The others are updated as a whole, by their gradient over the number of positives, clipped together. One call
    updates all of them.
    """

    def __init__(self, network: nn.Module, optimizer: str) -> None:
        self._optimizer = optimizer
        self._parameters = {name: p for name, p in network.named_parameters() if p.requires_grad}
        slots = OPTIMIZERS[optimizer].slots
        self._state = {name: p.detach().new_zeros(slots, *p.shape) for name, p in self._parameters.items()}

    @property
    def state(self) -> dict[str, Array]:
        """The optimizer's state, by parameter."""  # (s, ...) each
        return {name: slots.cpu().numpy() for name, slots in self._state.items()}

    def load(self, state: Mapping[str, Array]) -> None:
        """Restore what ``state`` gave."""
        for name, slots in self._state.items():
            slots.copy_(torch.from_numpy(state[name]))

    @torch.no_grad()
    def step(self, step_size: Tensor, positives: int, clip: float | None) -> dict[str, Tensor]:
        """One step by the gradients, which are cleared; returns the updated rows by parameter, the last repeated."""
        updates = {name: update for name in self._parameters if (update := self._update_of(name)) is not None}
        if not updates:
            return {}
        scale_and_clip([update.grad for update in updates.values() if update.rows is None], positives, clip)
        slots = [list(slot) for slot in zip(*(update.state for update in updates.values()), strict=True)]
        grads, values = zip(*((update.grad, update.value) for update in updates.values()), strict=True)
        UPDATES[self._optimizer](step_size[0], list(grads), list(values), *slots)
        updated = {name: update.rows for name, update in updates.items() if update.rows is not None}
        for name, rows in updated.items():
            self._parameters[name].index_copy_(0, rows, updates[name].value)
            self._state[name].index_copy_(1, rows, updates[name].state)
        return updated

    def _update_of(self, name: str) -> Update | None:
        parameter, state = self._parameters[name], self._state[name]
        gradient, parameter.grad = parameter.grad, None
        if gradient is None:
            return None
        if not gradient.is_sparse:
            return Update(gradient, parameter, state)
        if not gradient._nnz():
            return None
        rows, grad = coalesce_rows(gradient._indices()[0], gradient._values())
        return Update(grad, parameter[rows], state[:, rows], rows)


def coalesce_rows(occurrences: Tensor, grads: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct rows of ``occurrences`` (P,), ascending, and the sums of their ``grads`` (P, d), in that order.

    There are P of them, the last row and its sum repeated: to cut them off, the host would have to wait for their
    number.

    Examples
    --------
    >>> rows, sums = coalesce_rows(torch.tensor([7, 3, 7]), torch.tensor([[1.0], [2.0], [4.0]]))
    >>> rows.tolist(), sums.tolist()
    ([3, 7, 7], [[2.0], [5.0], [5.0]])
    """
    occurrences, order = occurrences.sort(stable=True)
    begins = torch.ones_like(occurrences)
    begins[1:] = occurrences[1:] != occurrences[:-1]
    group = begins.cumsum(0) - 1  # (P,)
    numbers = torch.arange(len(occurrences) + 1, device=occurrences.device)
    starts = torch.searchsorted(group, numbers)  # (P + 1,)
    sums = torch.segment_reduce(grads[order], "sum", offsets=starts, axis=0, unsafe=True)  # (P, d), 0 past the last
    known = torch.minimum(numbers[:-1], group[-1])
    return occurrences[starts[known]], sums[known]


def scale_and_clip(gradients: Tensors, positives: int, clip: float | None) -> None:
    """Divide all by ``positives``, then clip their common norm to ``clip``."""
    if not gradients:
        return
    torch._foreach_div_(gradients, float(positives))
    if clip is not None:
        length = torch.stack(torch._foreach_norm(gradients)).norm()
        torch._foreach_mul_(gradients, (clip / length).clamp(max=1.0))


def _adam(step_size: Tensor, grads: Tensors, values: Tensors, means: Tensors, squares: Tensors) -> None:
    torch._foreach_lerp_(means, grads, float(ONE_MINUS_BETA_1))
    torch._foreach_mul_(squares, 1.0 - float(ONE_MINUS_BETA_2))
    torch._foreach_addcmul_(squares, grads, grads, float(ONE_MINUS_BETA_2))
    _update_by_roots(step_size, means, values, squares, float(ADAM_EPS))


def _adagrad(step_size: Tensor, grads: Tensors, values: Tensors, squares: Tensors) -> None:
    torch._foreach_addcmul_(squares, grads, grads, 1.0)
    _update_by_roots(step_size, grads, values, squares, float(ADAGRAD_EPS))


def _sgd(step_size: Tensor, grads: Tensors, values: Tensors) -> None:
    torch._foreach_sub_(values, torch._foreach_mul(grads, step_size))


def _update_by_roots(step_size: Tensor, grads: Tensors, values: Tensors, squares: Tensors, eps: float) -> None:
    roots = torch._foreach_sqrt(squares)
    torch._foreach_add_(roots, eps)
    torch._foreach_div_(roots, -step_size)
    torch._foreach_addcdiv_(values, grads, roots)


UPDATES: dict[str, Callable[..., None]] = {"adam": _adam, "adagrad": _adagrad, "sgd": _sgd}
