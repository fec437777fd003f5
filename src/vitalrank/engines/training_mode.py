"""How a network trains: modes of its parts, the seed of a step, and the L2 term of embedding lookups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from vitalrank._util.memory import kept_for_reuse
from vitalrank.engines.network import Network, device_of, modes_of, set_modes


def step_seed(seed: int, step: int) -> int:
    """The seed of the random numbers of a step."""
    return int(np.random.SeedSequence([seed, step]).generate_state(1, np.uint64)[0])


def decay_lookups(table: nn.Embedding, reg: float) -> RemovableHandle:
    """Add ``reg`` times its value to the gradient of every row looked up in ``table``, until removed."""

    def hook(module: nn.Module, ids: object, rows: Tensor) -> None:
        if reg and rows.requires_grad:
            value = rows.detach()
            rows.register_hook(lambda gradient: torch.add(gradient, value, alpha=reg))  # type: ignore[no-untyped-call]

    return table.register_forward_hook(hook)


def training_modes(network: Network) -> dict[nn.Module, bool]:
    """The mode of each part in training: training mode, but for parts that the user has put in evaluation mode."""
    modes = modes_of(network)
    inner = [training for part, training in modes.items() if part is not network]
    return modes if any(inner) else dict.fromkeys(modes, True)  # all in evaluation mode: a fitted network


@contextmanager
def training_mode(network: Network, modes: Mapping[nn.Module, bool], threads: int | None) -> Iterator[None]:
    """Training mode with gradients inside, on so many threads at most; restores torch's global generator afterwards."""
    before = torch.get_num_threads()
    devices = [device for device in (device_of(network),) if device.type == "cuda"]
    set_modes(modes)
    try:
        torch.set_num_threads(threads or before)
        with kept_for_reuse(), torch.enable_grad(), torch.random.fork_rng(devices, enabled=network.uses_global_rng):
            yield
    finally:
        torch.set_num_threads(before)
        network.eval()
