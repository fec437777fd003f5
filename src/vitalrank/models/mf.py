"""Matrix factorization: a vector per user, a vector per item."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.checks import check_bool, to_int
from vitalrank._util.devices import resolve
from vitalrank._util.typing import Array
from vitalrank.config import TrainConfig
from vitalrank.distributed.joining import current_group
from vitalrank.engines.base import Engine, Table, VectorShape
from vitalrank.errors import SettingError
from vitalrank.history import History
from vitalrank.interactions import Interactions
from vitalrank.models.dot import DotRecommender
from vitalrank.models.saved import check_finite_table
from vitalrank.models.trainable import TrainableModel

if TYPE_CHECKING:
    from torch import Tensor

    from vitalrank.engines.mf import MFEngine
    from vitalrank.samplers.settings import BindableSampler, CallableSampler


class MF(TrainableModel, DotRecommender):
    """``score(u, i) = P_u . Q_i``, plus the item's bias ``b_i`` if asked for; or the cosine of the two.

    Parameters
    ----------
    dim
        Columns of a vector.
    bias
        One more column holds a bias per item.
    normalize
        Scores are cosines: vectors are kept at length 1, and a step follows the gradient of the cosine. They suit the
        softmax losses with a ``temperature`` near 0.1. There is no L2 of vectors of one length, so ``reg`` is 0, and
        no bias.

    References
    ----------
    Koren, Bell and Volinsky, "Matrix factorization techniques for recommender systems", Computer 42(8), 2009.

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.datasets.synthetic(users=50, items=40, interactions=600, seed=0)
    >>> model = vr.MF(dim=8).fit(log, sampler=vr.Uniform(), epochs=3, seed=0)
    >>> ids, scores = model.recommend(log.user_ids[:2], n=5)
    >>> ids.shape
    (2, 5)
    """

    tables: ClassVar[Mapping[str, Table]] = {"users": Table("user"), "items": Table("item")}

    def __init__(self, dim: int = 64, bias: bool = False, normalize: bool = False) -> None:
        check_bool("bias", bias)
        check_bool("normalize", normalize)
        if bias and normalize:
            raise SettingError("bias and normalize exclude each other: a cosine has no bias; set one of them.")
        self.dim = to_int("dim", dim)
        self.bias = bias
        self.normalize = normalize
        if normalize:
            self.defaults = {"reg": 0.0}  # type: ignore[misc]  # of this one
        self.constant_columns = int(self.bias)
        self.history = History()
        self._users: Any = np.zeros((0, 0), np.float32)  # (U, d), a tensor while training on a GPU
        self._items: Any = np.zeros((0, 0), np.float32)  # (I, d)

    def build(self, train: Interactions, sampler: CallableSampler, config: TrainConfig) -> Engine:
        """The engine that trains this model; the model serves its vectors from now on."""
        device = self._checked_device(config)
        shape = VectorShape(self.dim, self.bias, self.normalize)
        group: Any = current_group()
        engine: MFEngine
        if group.size > 1:
            if device != "cpu":
                raise SettingError(f"device is {device!r}; several ranks train matrix factorization on CPUs.")
            from vitalrank.engines.mf_ranks import RankedEngine

            engine = RankedEngine(train, sampler, config, shape, group)
        elif device == "cpu":
            from vitalrank.engines.mf_cpu import CpuEngine

            engine = CpuEngine(train, sampler, config, shape)
        else:
            from vitalrank.engines.mf_gpu import GpuEngine

            engine = GpuEngine(train, sampler, config, shape, device)
        return self._served(engine, train, device)

    def build_in_blocks(self, train: Interactions, sampler: BindableSampler, config: TrainConfig) -> Engine:
        """The engine that trains in blocks of items, alone or over ranks; the model gets its values in the end."""
        from vitalrank.engines.mf_blocks import BlockEngine

        device = self._checked_device(config)
        if device != "cpu":
            raise SettingError(f"device is {device!r}; blocks are trained on CPUs: leave device out.")
        shape = VectorShape(self.dim, self.bias, self.normalize)
        engine = BlockEngine(train, sampler, config, shape, current_group())
        return self._served(engine, train, device)

    def _checked_device(self, config: TrainConfig) -> str:
        """Where to train; refuses settings that are not for this model."""
        device = resolve(config.device)
        if config.precision != "float32":
            raise SettingError(f"precision is {config.precision!r}; matrix factorization trains in float32.")
        if self.normalize and config.reg:
            raise SettingError(f"reg is {config.reg:g}, but MF(normalize=True) has vectors of length 1; set reg=0.")
        return device

    def _served(self, engine: MFEngine, train: Interactions, device: str) -> MFEngine:
        """The engine, whose values this model serves from now on."""
        self.train = train
        self.device = device
        self._users, self._items = engine.users, engine.items
        return engine

    def take_whole(self, values: Mapping[str, Array]) -> None:
        """Serve these values, gathered from the ranks or the blocks that were trained."""
        self._users, self._items = values["users"], values["items"]

    def release_training_state(self) -> None:
        """Let go of the optimizer's state, which lies between the users' vectors, and of the device."""
        self._users, self._items = _host(self._users), _host(self._items)
        self.device = "cpu"

    def queries(self, users: Array) -> NDArray[np.float32]:
        return np.asarray(_host(self._users[users]), np.float32)

    @property
    def item_table(self) -> NDArray[np.float32]:
        return _host(self._items)

    def vectors_on(self, device: str) -> tuple[Any, Any]:
        if device == self.device != "cpu":
            return lambda users: self._users[users], self._items
        return super().vectors_on(device)

    def settings(self) -> dict[str, Any]:
        return {"dim": self.dim, "bias": self.bias, "normalize": self.normalize}

    def __repr__(self) -> str:
        # Runs of version 0.1 know their model by this text, and are resumed by it.
        return super().__repr__() if self.normalize else f"MF(dim={self.dim!r}, bias={self.bias!r})"

    def tensors(self) -> dict[str, Array]:
        return {"users": _host(self._users), "items": _host(self._items)}

    def restore(self, tensors: Mapping[str, Array], record: Mapping[str, Any]) -> None:
        width = self.dim + self.bias
        self._users, self._items = tensors["users"], tensors["items"]
        check_finite_table("users", self._users, (self.train.n_users, width))
        check_finite_table("items", self._items, (self.train.n_items, width))
        self.history = History.from_saved(record)


def _host(table: Array | Tensor) -> NDArray[np.float32]:
    """A table as a NumPy array, whether it lies on a GPU or not."""
    return np.ascontiguousarray(table) if isinstance(table, np.ndarray) else table.cpu().numpy()
