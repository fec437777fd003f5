"""What the trainer knows of an engine: one protocol, and the sums of an epoch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.typing import Array
from vitalrank.history import Record


class TakesWhole(Protocol):
    """What an engine knows of the model that serves its values."""

    def take_whole(self, values: Mapping[str, Array]) -> None:
        """Hold these values."""


@dataclass
class Totals:
    """Running sums over the positives of one epoch.

    Examples
    --------
    >>> Totals(positives=4, skipped=2, loss=1.0, tries=6).means()["loss"]
    0.5
    """

    positives: int = 0
    skipped: int = 0  # positives of users who have seen every item: no update
    loss: float = 0.0
    start_loss: float = 0.0  # the loss the same pairs would have if all scores were equal
    tries: int = 0  # candidates examined, for all negatives
    vanished: int = 0  # the loss has no slope of 0.01 or more by any score, weights aside
    violated: int | None = None  # each negative came within the margin; None if the sampler has none

    def __add__(self, more: Totals) -> Totals:
        """The sums over the positives of both."""
        violated = [one for one in (self.violated, more.violated) if one is not None]
        return Totals(
            self.positives + more.positives, self.skipped + more.skipped, self.loss + more.loss,
            self.start_loss + more.start_loss, self.tries + more.tries, self.vanished + more.vanished,
            sum(violated) if violated else None,
        )  # fmt: skip

    def means(self) -> Record:
        """Means over the positives that were trained on, as a record of the history."""
        rows = self.positives - self.skipped
        trained = max(rows, 1)
        return {
            "loss": self.loss / trained,
            "tries": self.tries / trained,
            "vanished": self.vanished / trained,
            "unviolated": None if self.violated is None or not rows else 1.0 - self.violated / rows,
            "skipped": self.skipped,
        }


class Table(NamedTuple):
    """Whose vectors a parameter holds: ``"user"`` or ``"item"``, in how many rows for each, after which first row."""

    side: str
    rows: int = 1
    first: int = 0

    def rows_of(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows of some users or items.

        Examples
        --------
        >>> Table("item", rows=2, first=1).rows_of(np.array([0, 3])).tolist()
        [1, 2, 7, 8]
        """
        return (self.first + self.rows * ids[:, None] + np.arange(self.rows)).ravel()


class VectorShape(NamedTuple):
    """What the vectors of a model are.

    Attributes
    ----------
    dim, bias
        Columns of a vector; whether one more holds the item's bias, with the constant 1 on the user's side.
    normalize
        Whether vectors have length 1: a step follows the gradient of the cosine, then restores the length.
    """

    dim: int
    bias: bool = False
    normalize: bool = False

    @property
    def width(self) -> int:
        """Columns of a table."""
        return self.dim + self.bias


class Engine(ABC):
    """Trains a model's values by the positives of an epoch; the trainer knows no more about the model.

    ``values`` and ``state`` are all that an exact resume needs.

    Attributes
    ----------
    step
        Optimizer steps taken so far, over all epochs.
    takes_views
        Whether it trains on a rank's view of a prepared log, of which the rows of other ranks are not read.
    """

    step: int
    takes_views = False

    @property
    def run_identity(self) -> Mapping[str, Any]:
        """What a resumed run must share beside the settings: threads and ranks, where bits depend on their number."""
        return {}

    @abstractmethod
    def run_epoch(self, epoch: int, rate: Callable[[float], float], on_progress: Callable[[Totals], None]) -> Totals:
        """Visit every positive once.

        Parameters
        ----------
        epoch
            Its number, from 1; the order of the positives depends on it and on the seed.
        rate
            The learning rate by the share of the epoch that is done.
        on_progress
            Called with the sums so far.

        Returns
        -------
        The sums of the epoch, which may end early when the loss is no longer finite.
        """

    @abstractmethod
    def values(self) -> Mapping[str, Array]:
        """The arrays the model serves, by the names of its ``tensors``."""

    @abstractmethod
    def state(self) -> Mapping[str, Array]:
        """The optimizer's state, by parameter."""

    def constrain(self, values: dict[str, Array]) -> None:
        """Project values that were made elsewhere onto what the engine keeps true of them, in place."""
        return

    @abstractmethod
    def load(self, values: Mapping[str, Any], state: Mapping[str, Array] | None = None) -> None:
        """Restore values, arrays or a copy, and the optimizer's state if given."""

    def whole_values(self) -> Mapping[str, Array]:
        """The values on rank 0 of a group, to be saved; elsewhere arrays of their shapes."""
        return self.values()

    def whole_state(self) -> Mapping[str, Array]:
        """The optimizer's state likewise."""
        return self.state()

    def complete(self) -> Mapping[str, Array] | None:
        """The values for the model to serve after the training, where the live ones are spread over ranks."""
        return None

    def serving(self, model: TakesWhole) -> AbstractContextManager[None]:
        """While it is open, ``model`` holds the current values, whole."""
        return nullcontext()

    @abstractmethod
    def copy(self) -> Mapping[str, Any]:
        """A snapshot of the values, on the engine's own device."""

    @abstractmethod
    def to_numpy(self, copy: Mapping[str, Any]) -> Mapping[str, Array]:
        """A snapshot as NumPy arrays."""

    @abstractmethod
    def is_finite(self) -> bool:
        """Whether no value is NaN or infinite."""


class HostEngine(Engine):
    """An engine whose values are NumPy arrays."""

    def copy(self) -> Mapping[str, Any]:
        return {name: np.array(array) for name, array in self.values().items()}

    def to_numpy(self, copy: Mapping[str, Any]) -> Mapping[str, Array]:
        return copy

    def is_finite(self) -> bool:
        return all(bool(np.isfinite(array).all()) for array in self.values().values())
