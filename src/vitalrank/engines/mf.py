"""What the engines of matrix factorization share: two tables, a bound sampler, a loss and an optimizer."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from vitalrank._util.memory import large_zeros, untouched_zeros
from vitalrank._util.typing import Array, DeviceArray
from vitalrank.config import TrainConfig
from vitalrank.engines.base import Engine, HostEngine, VectorShape
from vitalrank.engines.correcting import check_loss, positive_weight, score_scale
from vitalrank.interactions import Interactions
from vitalrank.kernels.cpu.training.initial import fill_normal
from vitalrank.kernels.cpu.training.step import Tables
from vitalrank.kernels.optimizers import OPTIMIZERS
from vitalrank.kernels.step_config import STEP_CONFIGS, StepConfig
from vitalrank.losses import find_loss
from vitalrank.samplers.adapter import SamplerAdapter, as_bound
from vitalrank.samplers.base import BoundSampler
from vitalrank.samplers.settings import CallableSampler

DEVIATION = 0.01  # of initial values


class MFEngine(Engine):
    """Trains user and item vectors of a shape with a bound sampler, on a log and by the settings of a training."""

    def __init__(self, train: Interactions, sampler: CallableSampler, config: TrainConfig, shape: VectorShape) -> None:
        self.step = 0
        self._train = train
        self._sampler = as_bound(sampler, train, config.seed)
        self._config = config
        self._loss = find_loss(config.loss)
        check_loss(config, self._sampler)
        self._normalize = shape.normalize
        self._step_config = step_config_of(config, self._sampler, shape)
        self._batch = min(config.batch_of(len(train)), len(train))

    @property
    @abstractmethod
    def users(self) -> DeviceArray:
        """The users' vectors, live."""  # (U, d)

    @property
    @abstractmethod
    def items(self) -> DeviceArray:
        """The items' vectors, live."""  # (I, d)

    @abstractmethod
    def _live_state(self) -> dict[str, Any]:
        """The optimizer's state, live."""  # (U, s, d), (I, s, d)

    @abstractmethod
    def _assign(self, into: Any, array: DeviceArray) -> None:
        """Overwrite a live table."""

    def _live(self) -> dict[str, Any]:
        return {"users": self.users, "items": self.items}

    def load(self, values: Mapping[str, Any], state: Mapping[str, Array] | None = None) -> None:
        self._restore(self._live(), values)
        if state is not None:
            self._restore(self._live_state(), state)

    def constrain(self, values: dict[str, Array]) -> None:
        if self._normalize:
            for table in values.values():
                to_unit_length(table)

    def _restore(self, tables: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        check_shapes(arrays, tables)
        for name, table in tables.items():
            self._assign(table, arrays[name])

    def _config_for(self, k: int) -> StepConfig:
        """The step's settings for so many negatives per positive, which some samplers choose themselves."""
        weight = positive_weight(self._config, k, self._train.n_items)
        return self._step_config if weight == 1.0 else self._step_config._replace(positive_weight=weight)

    def _step_sizes(self, rate: Callable[[float], float]) -> list[float]:
        """The step size of each batch of the epoch."""
        return self._step_config.optimizer.step_sizes(rate, len(self._train), self._batch, self.step)


class HostMFEngine(MFEngine, HostEngine):
    """An engine whose tables are NumPy arrays."""

    _tables: Tables

    @property
    def users(self) -> Array:
        """The users' vectors, live."""  # (U, d)
        return self._tables.users[:, 0]

    @property
    def items(self) -> Array:
        """The items' vectors, live."""  # (I, d)
        return self._tables.items

    def values(self) -> dict[str, Array]:
        return self._live()

    def state(self) -> dict[str, Array]:
        return self._live_state()

    def _live_state(self) -> dict[str, Array]:
        return {"users": self._tables.users[:, 1:], "items": self._tables.item_state}

    def _assign(self, into: Array, array: DeviceArray) -> None:
        into[...] = array


def check_shapes(arrays: Mapping[str, Any], tables: Mapping[str, Any]) -> None:
    """Refuse arrays of other shapes than the tables they are for: a single row would be broadcast over all."""
    for name, table in tables.items():
        if arrays[name].shape != table.shape:
            raise ValueError(f"{name} is {tuple(arrays[name].shape)}, not {tuple(table.shape)}")


def step_config_of(config: TrainConfig, sampler: BoundSampler | SamplerAdapter, shape: VectorShape) -> StepConfig:
    """What a training step is compiled for: loss, optimizer, regularization, and whether weights carry a gradient."""
    optimizer = OPTIMIZERS[config.optimizer]
    loss = find_loss(config.loss)
    kind = STEP_CONFIGS.get(loss.code, StepConfig)
    return kind(
        loss.code, float(config.margin), sampler.differentiable_weights, optimizer, int(shape.bias),
        float(config.reg), scale=score_scale(config), normalize=shape.normalize,
        power=1.0 / config.temperature if loss.has_temperature else config.bilateral,
    )  # fmt: skip


def new_tables(train: Interactions, shape: VectorShape, slots: int, seed: int, own: slice | None = None) -> Tables:
    """Tables at their initial values, with ``slots`` optimizer values per weight.

    With a range of the users, ``own``, others have neither values nor memory.
    """
    size = (train.n_users, 1 + slots, shape.width)
    users = large_zeros(size, np.float32) if own is None else untouched_zeros(size, np.float32)
    items = large_zeros((train.n_items, shape.width), np.float32)
    own = own or slice(0, train.n_users)
    fill_normal(users[own], shape.dim, seed, 0, DEVIATION, first=own.start)
    fill_normal(items[:, None], shape.dim, seed, 1, DEVIATION)  # (I, 1, d), as the kernel is compiled for the users
    if shape.bias:
        users[own, 0, shape.dim] = 1.0
    if shape.normalize:
        to_unit_length(users[own, 0])
        to_unit_length(items)
    return Tables(users, items, large_zeros((train.n_items, slots, shape.width), np.float32))


def to_unit_length(table: Array) -> None:
    """Divide each row by its length, in place.

    Examples
    --------
    >>> table = np.array([[3.0, 4.0], [0.0, 0.0]], np.float32)
    >>> to_unit_length(table)
    >>> table.tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    lengths = np.sqrt(np.einsum("ij,ij->i", table, table))
    table /= np.where(lengths > 0, lengths, 1.0)[:, None]
