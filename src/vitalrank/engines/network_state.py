"""A network's parameters and buffers by the names they have in a saved folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from vitalrank._util.typing import Array

Module = TypeVar("Module", bound=nn.Module)
_PREFIX = "network."


def live_state(network: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers themselves."""
    return {_PREFIX + name: value.detach() for name, value in network.state_dict().items()}


def live_modules(network: nn.Module, kind: type[Module]) -> dict[str, Module]:
    """The modules of a kind, by the names of their weights."""
    named = network.named_modules()
    return {f"{_PREFIX}{name}.weight": module for name, module in named if isinstance(module, kind)}


def network_arrays(network: nn.Module) -> dict[str, Array]:
    """Parameters and buffers as arrays by the names of a saved folder; on the CPU, on the same memory."""
    return {name: value.cpu().numpy() for name, value in live_state(network).items()}


def load_network(network: nn.Module, arrays: Mapping[str, Any]) -> None:
    """Copy what :func:`network_arrays` gave, arrays or tensors, back into a network of the same shapes."""
    state = network.state_dict()
    given = {name.removeprefix(_PREFIX): array for name, array in arrays.items() if name.startswith(_PREFIX)}
    if state.keys() != given.keys():
        odd = ", ".join(sorted(state.keys() ^ given.keys()))
        raise ValueError(f"the network has other parameters than were saved: {odd}")
    for name, value in state.items():
        saved = given[name] if isinstance(given[name], Tensor) else torch.from_numpy(np.array(given[name]))
        saved = (
            saved.reshape(value.shape) if saved.numel() == value.numel() == 1 else saved
        )  # files know no 0 dimensions
        if saved.shape != value.shape or saved.dtype != value.dtype:
            raise ValueError(f"{name} is {saved.dtype} {tuple(saved.shape)}, not {value.dtype} {tuple(value.shape)}")
        with torch.no_grad():
            value.copy_(saved)
