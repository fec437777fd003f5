"""The base class of models over a caller's own modules: checked before training, restored after it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from vitalrank._util.checks import check_positive, to_builtin_scalar
from vitalrank._util.typing import Array
from vitalrank.config import TrainConfig
from vitalrank.engines.network import Network, device_of, modes_of, set_modes
from vitalrank.engines.network_state import live_modules, load_network, network_arrays
from vitalrank.engines.torch_engine import TorchEngine
from vitalrank.errors import SettingError
from vitalrank.interactions import Interactions
from vitalrank.models.torch_model import TorchModelBase
from vitalrank.samplers.settings import CallableSampler


class CustomModel(TorchModelBase):
    """A model over the caller's modules, which are trained from the values they have."""

    def __init__(self) -> None:
        super().__init__()
        self._saved_parameters: dict[str, Array] | None = None  # until modules are attached

    def new_network(self, train: Interactions) -> Network:
        return self.network

    def build(self, train: Interactions, sampler: CallableSampler, config: TrainConfig) -> TorchEngine:
        network = self.network
        if not any(parameter.requires_grad for parameter in network.parameters()):
            raise SettingError("no parameter of the modules takes a gradient, so there is nothing to train.")
        tables = [module for module in network.modules() if isinstance(module, nn.Embedding)]
        self._sparse_before = {table: table.sparse for table in tables}
        self._modes_before = modes_of(network)
        for table in tables:
            # A step then costs what it touches; a weight that is computed of others takes whole gradients alone.
            table.sparse = "weight" in dict(table.named_parameters(recurse=False)) and not table.scale_grad_by_freq
        try:
            return super().build(train, sampler, config)
        except BaseException:
            self._restore_modules()
            raise

    def padding_rows(self) -> dict[str, int]:
        modules = live_modules(self.network, nn.Embedding)
        return {name: table.padding_idx for name, table in modules.items() if table.padding_idx is not None}

    def release_training_state(self) -> None:
        super().release_training_state()
        self._restore_modules()

    def _restore_modules(self) -> None:
        """Restore the training modes and the sparse flags that the modules had."""
        set_modes(self._modes_before)
        for table, sparse in self._sparse_before.items():
            table.sparse = sparse

    def _load_saved(self, network: Network) -> None:
        """Serve from this network, with the saved values loaded into it."""
        if self._saved_parameters is not None:
            try:
                load_network(network, self._saved_parameters)
            except ValueError as error:
                raise SettingError(f"these are not the modules that were saved: {error}.") from error
        self._network, self._saved_parameters = network, None

    def __repr__(self) -> str:
        """Tells networks apart by their size, so that a checkpoint is not resumed with other modules."""
        values = self._saved_parameters if self._network is None else network_arrays(self._network)
        size = sum(array.size for array in values.values()) if values else 0
        return f"{super().__repr__()[:-1]}, {size} values)"

    def _not_ready(self) -> str:
        if self._saved_parameters is None:
            return "TorchRecommender takes modules of your own; give it an encoder and an item_table, or score=."
        return "the folder holds parameters of modules that are not here; give the modules to attach() first."


def check_kind(name: str, given: object, *kinds: type) -> None:
    """Refuse what has no parameters to train, such as a function over modules, or a plain tensor."""
    if not isinstance(given, kinds):
        wanted = " or ".join(f"nn.{kind.__name__}" for kind in kinds)
        raise SettingError(
            f"{name} is of type {type(given).__name__}; it must be an {wanted}, whose values are trained."
        )


@contextmanager
def explain_failure(name: str, given: str) -> Iterator[None]:
    """Turn an error inside the caller's module into one that says what the module was given."""
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
