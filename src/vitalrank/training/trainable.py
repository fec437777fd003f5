"""What the trainer asks of a model; :mod:`vitalrank.models` implements it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from numpy.typing import NDArray

from vitalrank.config import TrainConfig
from vitalrank.engines.base import Engine, Table
from vitalrank.errors import SettingError
from vitalrank.history import History
from vitalrank.interactions import Interactions
from vitalrank.ranking.scorers import Scorer

if TYPE_CHECKING:  # a model that is only served does not load the samplers
    from vitalrank.samplers.settings import BindableSampler, CallableSampler, Sampler


class HasDefaultSampler(Protocol):
    """A model that may have a sampler of its own."""

    def default_sampler(self, config: TrainConfig) -> Sampler | None:
        """The sampler it is trained with unless another is named."""


class Trainable(Scorer):
    """A model that an engine trains, and that a run folder keeps.

    ``tables`` names the parameters that hold vectors of users and items, so that a warm start can let them grow; with
    none they are found by their sizes, and None is for a model without warm start.
    """

    tables: ClassVar[Mapping[str, Table] | None] = MappingProxyType({})
    history: History

    @abstractmethod
    def default_sampler(self, config: TrainConfig) -> Sampler | None:
        """The sampler it is trained with unless another is named; None is the library's own default, ``VINS()``."""

    @abstractmethod
    def build(self, train: Interactions, sampler: CallableSampler, config: TrainConfig) -> Engine:
        """The engine that trains this model, by a bound sampler; the model serves its values from now on."""

    def build_in_blocks(self, train: Interactions, sampler: BindableSampler, config: TrainConfig) -> Engine:
        """The engine that trains this model in ``config.blocks`` blocks of items; it binds the sampler to each."""
        raise SettingError(f"blocks is for matrix factorization (MF), not {type(self).__name__}; leave it out.")

    @abstractmethod
    def release_training_state(self) -> None:
        """Let go of the optimizer's state."""

    def take_whole(self, values: Mapping[str, NDArray[Any]]) -> None:
        """Serve these values, gathered from the ranks that trained them."""
        raise NotImplementedError(f"{type(self).__name__} is not trained by several ranks")

    def padding_rows(self) -> Mapping[str, int]:
        """The rows that stand for no id, of tables that are found by their sizes."""
        return {}

    def complete_warm_start(self, users: NDArray[Any], items: NDArray[Any]) -> None:
        """Called once the engine holds the values of an earlier model, and of these users and items, which are new."""

    @abstractmethod
    def meta(self) -> dict[str, Any]:
        """What a saved folder says about the model beside its arrays."""

    @abstractmethod
    def log_tensors(self) -> dict[str, NDArray[Any]]:
        """The training log and the held-out parts."""

    @abstractmethod
    def ids(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Original user and item ids."""
