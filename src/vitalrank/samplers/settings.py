"""The base class of samplers: settings that bind to a log."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from numpy.typing import ArrayLike

from vitalrank._util.checks import check_bool
from vitalrank.errors import SettingError
from vitalrank.interactions import Interactions

if TYPE_CHECKING:
    from vitalrank.samplers.base import BoundSampler
    from vitalrank.samplers.draws import Draw

CallableSampler = Callable[..., "Draw"]  # a bound sampler: BoundSampler, or a caller's own

LATER: Mapping[str, bool] = MappingProxyType({"later": True})  # of a setting's field: version 0.1 did not have it


class BindableSampler(Protocol):
    """What ``fit`` takes for a sampler: :class:`Sampler`, or settings of a caller's own that can be bound."""

    def bind(self, train: Interactions, seed: int = 0) -> CallableSampler:
        """A sampler to call for each batch."""


@dataclass(frozen=True, repr=False)
class Sampler(ABC):
    """Settings of a negative sampler. They say what to draw; ``bind`` says from which log."""

    def __repr__(self) -> str:
        # Runs of version 0.1 know their sampler by this text: a setting that came later shows once it is set. (Their
        # dataclasses say repr=False.)
        shown = [field for field in fields(self) if not ("later" in field.metadata and self._has_default(field))]
        return f"{type(self).__name__}({', '.join(f'{field.name}={getattr(self, field.name)!r}' for field in shown)})"

    def _has_default(self, field: Field[Any]) -> bool:
        return bool(getattr(self, field.name) == field.default)

    def bind(
        self,
        train: Interactions,
        seed: int = 0,
        *,
        allowed: ArrayLike | None = None,
        available: bool = False,
        threads: int | None = None,
        count: bool = False,
    ) -> BoundSampler:
        """Make the sampler ready for a log.

        Parameters
        ----------
        train
            The log whose pairs are never drawn and whose degrees make the proposal.
        seed
            Key of the random generator. A draw depends on it, the step and the row, not on threads or history.
        allowed
            Draw only from these items: a boolean mask over the catalogue, or internal ids.
        available
            Draw only items that existed at the time of the positive: those whose first row in the log is before that
            of the pair (user, positive). The log must have times; for a pair that it does not have, all items exist.
            An item that came later is treated as one the user has seen. Draws are made on the CPU then.
        threads
            At most so many threads; the draws are the same for any number.
        count
            Keep counts for the analysis of class imbalance in ``counts``.
        """
        check_bool("available", available)
        bound = self._bound()(self, train, seed, allowed, threads, count)
        if available:
            bound.keep_to_available()
        return bound

    def __call__(self, *args: object, **options: object) -> NoReturn:
        """Settings draw nothing: say how to bind them."""
        raise SettingError(
            f"{self!r} is not bound to a log; bind it first: {type(self).__name__}().bind(train, seed=0), "
            "then call what that returns."
        )

    @abstractmethod
    def _bound(self) -> type[BoundSampler]: ...
