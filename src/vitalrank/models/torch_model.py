"""The base classes of torch models: a network, serving in blocks, saving."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import RLock
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from vitalrank import serving
from vitalrank._util.devices import enough_memory, resolve
from vitalrank._util.threads import prepare_inference
from vitalrank._util.typing import Array
from vitalrank.config import TrainConfig
from vitalrank.distributed.joining import current_group
from vitalrank.engines.network import Network, device_of, eval_mode
from vitalrank.engines.network_state import load_network, network_arrays
from vitalrank.engines.torch_engine import TorchEngine
from vitalrank.errors import SettingError
from vitalrank.history import History
from vitalrank.interactions import Interactions
from vitalrank.interactions.histories import Histories
from vitalrank.kernels.optimizers import OPTIMIZERS
from vitalrank.models.dot import DotRecommender
from vitalrank.models.networks import DotNetwork
from vitalrank.models.saved import check_finite_table
from vitalrank.models.trainable import TrainableModel
from vitalrank.samplers.settings import CallableSampler

_BLOCK = 256  # users encoded at once when serving
_INIT_LOCK = RLock()


class TorchModelBase(TrainableModel):
    """A recommender that the torch engine trains: a subclass gives its network."""

    def __init__(self) -> None:
        self.history = History()
        self._network: Network | None = None
        self._engine: TorchEngine | None = None
        self._histories: Histories | None = None  # the training log where the network lies

    @property
    def network(self) -> Network:
        """The torch module behind the model."""
        if self._network is None:
            raise SettingError(self._not_ready())
        prepare_inference()
        return self._network

    def _not_ready(self) -> str:
        return f"{type(self).__name__} is not fitted yet: call fit(train) first."

    @abstractmethod
    def new_network(self, train: Interactions) -> Network:
        """A network with initial values, drawn from torch's random numbers."""

    def build(self, train: Interactions, sampler: CallableSampler, config: TrainConfig) -> TorchEngine:
        """The engine that trains this model; the model serves its network from now on."""
        device = resolve(config.device)
        with _seeded_init(config.seed), enough_memory("cpu", 0, "use a smaller dim"):
            self._network = self.new_network(train)
        advice = "use a smaller dim" if device == "cpu" else "use a smaller dim, or device='cpu'"
        with enough_memory(device, _size(self._network, config), advice):
            self._engine = _engine(self._network.to(device), train, sampler, config)
        self.train = train
        self._histories = self._engine.histories
        return self._engine

    def release_training_state(self) -> None:
        """Let go of the optimizer's state."""
        if self._engine is not None:
            self._engine.close()
        self._engine = None
        self.network.eval()

    def encoded(self, users: Array) -> torch.Tensor:
        """What the network makes of users and their last items."""
        return self._encoded(torch.from_numpy(np.asarray(users, np.int64)).to(device_of(self.network)))

    def _encoded(self, users: torch.Tensor) -> torch.Tensor:
        """Encode in blocks of one size, each user in the row of a block that their id says.

        The bits of a matrix product depend on its shape and on the row; so no user's depend on who else is asked for.
        """
        if len(users) == 0:
            return self._encoded_block(users)
        rows = users % _BLOCK
        order = torch.argsort(rows, stable=True)
        rows = rows[order]
        number = torch.arange(len(rows), device=rows.device) - torch.searchsorted(rows, rows)  # of its block
        slots = torch.empty_like(rows)
        slots[order] = number * _BLOCK + rows
        filled = users[:1].repeat((int(number.max()) + 1) * _BLOCK)
        filled[slots] = users
        return torch.cat([self._encoded_block(block) for block in torch.split(filled, _BLOCK)])[slots]

    def _encoded_block(self, users: torch.Tensor) -> torch.Tensor:
        network = self.network
        context = self._history().last(users, network.length) if network.length else None
        with eval_mode(network):
            return network.encode(users, context)

    def _history(self) -> Histories:
        device = device_of(self.network)
        if self._histories is None or not self._histories.of(self.train, device):
            self._histories = Histories(self.train, device)
        return self._histories

    def tensors(self) -> dict[str, Array]:
        return network_arrays(self.network)

    def restore(self, tensors: Mapping[str, Array], record: Mapping[str, Any]) -> None:
        values = sum(array.size for array in tensors.values())
        for name, value in self.settings().items():
            if isinstance(value, int) and value > values:  # before memory is asked for
                raise ValueError(f"{name} is {value}, more than the arrays have values")
        for name, array in tensors.items():
            if array.dtype.kind == "f":
                check_finite_table(name, array, array.shape)
        with _seeded_init(seed=0):  # to be overwritten
            self._network = self.new_network(self.train)
        load_network(self._network, tensors)
        self._network.eval()
        self.history = History.from_saved(record)


class TorchModel(TorchModelBase, DotRecommender):
    """A torch model that scores with one dot product."""

    @property
    def dot_network(self) -> DotNetwork:
        """The network, whose score is one dot product."""
        network = self.network
        assert isinstance(network, DotNetwork)
        return network

    def queries(self, users: Array) -> NDArray[np.float32]:
        return np.asarray(self.dot_network.unit(self.encoded(users)).cpu().numpy(), np.float32)

    @property
    def device(self) -> str:  # type: ignore[override]
        """Where the vectors lie: where the model was trained, or the CPU once it is loaded."""
        return "cpu" if self._network is None else str(device_of(self._network))

    def vectors_on(self, device: str) -> tuple[Any, Any]:
        if device == "cpu" or device != self.device:
            return super().vectors_on(device)
        network = self.dot_network
        return lambda users: network.unit(self._encoded(users.long())), network.unit(network.table()).contiguous()

    @property
    def item_table(self) -> NDArray[np.float32]:
        network = self.dot_network
        return np.ascontiguousarray(network.unit(network.table()).cpu().numpy(), np.float32)


@contextmanager
def _seeded_init(seed: int) -> Iterator[None]:
    """Seed torch's global generator, from which a new network draws its values, and keep other threads from it."""
    usual = torch.get_default_dtype()
    with _INIT_LOCK, torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        torch.set_default_dtype(torch.float32)
        try:
            yield
        finally:
            torch.set_default_dtype(usual)


def _engine(network: Network, train: Interactions, sampler: CallableSampler, config: TrainConfig) -> TorchEngine:
    group: Any = current_group()
    if group.size == 1:
        return TorchEngine(network, train, sampler, config)
    from vitalrank.engines.torch_ranks import RankedTorchEngine

    return RankedTorchEngine(network, train, sampler, config, group)


def _size(network: Network, config: TrainConfig) -> int:
    """Bytes of the parameters and of what the optimizer keeps for them."""
    slots = OPTIMIZERS[config.optimizer].slots
    return (1 + slots) * sum(parameter.nbytes for parameter in network.parameters())


def solve_first_half(item_table: Array, second: Array, items: Array) -> NDArray[np.float32]:
    """The query ``[q ; second]`` of someone who touched ``items``: q is solved for, its other half is known."""
    width = item_table.shape[1] - len(second)
    known = item_table[:, width:] @ second  # (I,)
    table = np.ascontiguousarray(np.column_stack([item_table[:, :width], known]), np.float32)
    first = serving.solve_query(table, items, constant_columns=1)[:width]
    return np.concatenate([first, second]).astype(np.float32)
