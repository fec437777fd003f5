"""What a search found: the winner, and every trial."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vitalrank._util.display import csv_table
from vitalrank.config import TrainConfig

if TYPE_CHECKING:
    from vitalrank.models.base import Recommender
    from vitalrank.samplers import Sampler


@dataclass(frozen=True)
class Settings:
    """Settings by what they are of; ``training`` has the names of :class:`vitalrank.TrainConfig`."""

    model: dict[str, Any] = field(default_factory=dict)
    sampler: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Trial:
    """One set of settings that was tried."""

    number: int
    settings: Settings  # those that were searched
    # "finished", "pruned" (given up early), "stopped" (by a time limit), "diverged" or "repeated" (settings of before)
    state: str
    value: float | None  # the best on valid; of a pruned one, the best until then
    epoch: int | None  # in which that was; None for a model without steps
    epochs: int  # trained in all
    seconds: float


@dataclass(frozen=True)
class Finalist:
    """Settings that were trained again with other seeds."""

    settings: Settings
    values: tuple[float, ...]  # on valid, one for each seed; empty if a run diverged

    @property
    def mean(self) -> float:
        """The mean over the seeds; minus infinity if a run diverged."""
        return sum(self.values) / len(self.values) if self.values else -math.inf


@dataclass(frozen=True)
class Tuned:
    """What :func:`vitalrank.tune` found; test was never read.

    ``settings`` holds what was searched, as the winner has it; ``config`` all training settings of the winner, and
    ``make_model`` and ``make_sampler`` make an unfitted model and a sampler with its settings. After a run-off
    ``value`` is the winner's mean over the seeds of the run-off, and ``epoch`` that of its first run.
    """

    metric: str
    settings: Settings
    value: float
    epoch: int | None
    trials: tuple[Trial, ...]
    config: TrainConfig
    make_model: Callable[[], Recommender] = field(repr=False)
    make_sampler: Callable[[], Sampler | None] = field(repr=False)  # gives None for a model without one
    finalists: tuple[Finalist, ...] = ()  # of the run-off, the best first

    def to_csv(self) -> str:
        """The trials as a table, best first; a spreadsheet reads no cell of it as a formula.

        Text that begins with ``=``, ``+``, ``-`` or ``@`` gets a leading apostrophe.
        """
        return csv_table([dict(_cells(trial)) for trial in sorted(self.trials, key=_rank)])


def _rank(trial: Trial) -> tuple[bool, float, int]:
    finished = trial.state == "finished"
    return not finished, -(trial.value if trial.value is not None else -1.0), trial.number


def _cells(trial: Trial) -> Iterator[tuple[str, Any]]:
    for name in ("number", "state", "value", "epoch", "epochs", "seconds"):
        yield name, getattr(trial, name)
    for part in ("model", "sampler", "training"):
        for name, value in getattr(trial.settings, part).items():
            yield f"{part}.{name}", value
