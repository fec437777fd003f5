"""What every model over modules of a caller's shares: borrowing them for the training, and looking at them first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from vitalrank._util.checks import check_positive, to_builtin_scalar
from vitalrank.config import TrainConfig
from vitalrank.engines.network import Network, device_of, modes_of, set_modes
from vitalrank.engines.network_state import load_network, network_arrays
from vitalrank.engines.torch_engine import TorchEngine
from vitalrank.errors import SettingError
from vitalrank.interactions import Interactions
from vitalrank.models.base import Array
from vitalrank.models.torch_model import Trained


class OwnModel(Trained):
    """A model over modules of the caller's, which are trained from the values they have."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: dict[str, Array] | None = None  # parameters of a loaded model, until modules are attached

    def new_network(self, train: Interactions) -> Network:
        return self.network

    def build(self, train: Interactions, sampler: Any, config: TrainConfig) -> TorchEngine:
        network = self.network
        if not any(parameter.requires_grad for parameter in network.parameters()):
            raise SettingError("no parameter of the modules takes a gradient, so there is nothing to train.")
        tables = [module for module in network.modules() if isinstance(module, nn.Embedding)]
        self._were_sparse = {table: table.sparse for table in tables}
        self._modes = modes_of(network)
        for table in tables:
            # A step then costs what it touches; a weight that is computed of others takes whole gradients alone.
            table.sparse = "weight" in dict(table.named_parameters(recurse=False)) and not table.scale_grad_by_freq
        try:
            return super().build(train, sampler, config)
        except BaseException:
            self._give_back()
            raise

    def release_training_state(self) -> None:
        super().release_training_state()
        self._give_back()

    def _give_back(self) -> None:
        """The modules with the modes and the kinds of gradient they had."""
        set_modes(self._modes)
        for table, sparse in self._were_sparse.items():
            table.sparse = sparse

    def _take(self, network: Network) -> None:
        """Serve from this network, with the kept values in it."""
        if self._kept is not None:
            try:
                load_network(network, self._kept)
            except ValueError as error:
                raise SettingError(f"these are not the modules that were saved: {error}.") from error
        self._network, self._kept = network, None

    def __repr__(self) -> str:
        """Tells networks apart by their size, so that a checkpoint is not resumed with other modules."""
        values = self._kept if self._network is None else network_arrays(self._network)
        size = sum(array.size for array in values.values()) if values else 0
        return f"{super().__repr__()[:-1]}, {size} values)"

    def _unready(self) -> str:
        if self._kept is None:
            return "TorchRecommender takes modules of your own; give it an encoder and an item_table, or score=."
        return "the folder holds parameters of modules that are not here; give the modules to attach() first."


def check_kind(name: str, given: Any, *kinds: type) -> None:
    """Refuse what has no parameters to train, such as a function over modules, or a plain tensor."""
    if not isinstance(given, kinds):
        wanted = " or ".join(f"nn.{kind.__name__}" for kind in kinds)
        raise SettingError(
            f"{name} is of type {type(given).__name__}; it must be an {wanted}, whose values are trained."
        )


@contextmanager
def told(name: str, given: str) -> Iterator[None]:
    """Say of an error in a module of the caller's what it was given."""
    try:
        yield
    except (IndexError, TypeError, RuntimeError) as error:
        raise SettingError(f"the {name} fails on {given} of this log: {error}") from error


def first_and_last(count: int, network: nn.Module) -> Tensor:
    return torch.tensor([0, count - 1], device=device_of(network))


def checked_clip(clip: float | None) -> float | None:
    if clip is not None:
        check_positive("clip", clip)
    clipped: float | None = to_builtin_scalar(clip)
    return clipped
