"""What the engines of matrix factorization share: two tables, a bound sampler, a loss and an optimizer."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.memory import large_zeros, untouched_zeros
from vitalrank.config import TrainConfig
from vitalrank.engines.base import Engine, HostEngine
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

Array = NDArray[Any]
DEVIATION = 0.01  # of initial values


class MFEngine(Engine):
    """Trains user and item vectors with a bound sampler.

    Parameters
    ----------
    train, sampler, config
        The log, the sampler bound to it, the settings.
    dim, bias
        Columns of a vector; whether one more holds the item's bias, with the constant 1 on the user's side.
    normalize
        Whether vectors have length 1: a step follows the gradient of the cosine, then restores the length.
    """

    def __init__(
        self,
        train: Interactions,
        sampler: CallableSampler,
        config: TrainConfig,
        dim: int,
        bias: bool,
        normalize: bool = False,
    ) -> None:
        self.step = 0
        self._train = train
        self._sampler = as_bound(sampler, train, config.seed)
        self._config = config
        self._loss = find_loss(config.loss)
        check_loss(config, self._sampler)
        self._normalize = normalize
        self._step_config = step_config_of(config, self._sampler, bias, normalize)
        self._batch = min(config.batch_of(len(train)), len(train))

    @property
    @abstractmethod
    def users(self) -> Any:
        """The users' vectors, live."""  # (U, d)

    @property
    @abstractmethod
    def items(self) -> Any:
        """The items' vectors, live."""  # (I, d)

    @abstractmethod
    def _live_state(self) -> dict[str, Any]:
        """The optimizer's state, live."""  # (U, s, d), (I, s, d)

    @abstractmethod
    def _assign(self, into: Any, array: Any) -> None:
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
        for name, table in tables.items():
            if arrays[name].shape != table.shape:  # else a single row would be broadcast over all
                raise ValueError(f"{name} is {tuple(arrays[name].shape)}, not {tuple(table.shape)}")
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

    def _assign(self, into: Array, array: Array) -> None:
        into[...] = array


def step_config_of(
    config: TrainConfig, sampler: BoundSampler | SamplerAdapter, bias: bool, normalize: bool = False
) -> StepConfig:
    """What a training step is compiled for: loss, optimizer, regularization, and whether weights carry a gradient."""
    optimizer = OPTIMIZERS[config.optimizer]
    loss = find_loss(config.loss)
    kind = STEP_CONFIGS.get(loss.code, StepConfig)
    return kind(
        loss.code, float(config.margin), sampler.differentiable_weights, optimizer, int(bias), float(config.reg),
        scale=score_scale(config), normalize=normalize,
        power=1.0 / config.temperature if loss.has_temperature else config.bilateral,
    )  # fmt: skip


def new_tables(train: Interactions, dim: int, bias: bool, slots: int, seed: int, normalize: bool = False) -> Tables:
    """Tables at their initial values, with ``slots`` optimizer values per weight."""
    users = large_zeros((train.n_users, 1 + slots, dim + bias), np.float32)
    items = large_zeros((train.n_items, dim + bias), np.float32)
    fill_normal(users, dim, seed, 0, DEVIATION)
    fill_normal(items[:, None], dim, seed, 1, DEVIATION)  # (I, 1, d), as the kernel is compiled for the users
    if bias:
        users[:, 0, dim] = 1.0
    if normalize:
        to_unit_length(users[:, 0])
        to_unit_length(items)
    return Tables(users, items, large_zeros((train.n_items, slots, dim + bias), np.float32))


def new_shard(
    train: Interactions, dim: int, bias: bool, slots: int, seed: int, own: slice, normalize: bool = False
) -> Tables:
    """The same, with values and memory for a range of the users alone."""
    users = untouched_zeros((train.n_users, 1 + slots, dim + bias), np.float32)
    items = large_zeros((train.n_items, dim + bias), np.float32)
    fill_normal(users[own], dim, seed, 0, DEVIATION, first=own.start)
    fill_normal(items[:, None], dim, seed, 1, DEVIATION)
    if bias:
        users[own, 0, dim] = 1.0
    if normalize:
        to_unit_length(users[own, 0])
        to_unit_length(items)
    return Tables(users, items, large_zeros((train.n_items, slots, dim + bias), np.float32))


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
