"""Run folders: a model folder that also holds what an exact resume needs."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.checks import check_count, is_number
from vitalrank._util.locks import only_writer
from vitalrank.checkpoint import is_saved, read_folder, read_meta, write_folder
from vitalrank.engines.base import Engine
from vitalrank.errors import SettingError, StorageError
from vitalrank.history import History

_STATE = "training.state."
_CURRENT = "training.values."  # present where the model to serve is of an earlier, better epoch
_BEFORE = "training.before."  # present where the last epoch is the best, but was evaluated only because it is the last


class SavableModel(Protocol):
    """What a run folder keeps of a model."""

    def meta(self) -> dict[str, Any]:
        """What a saved folder says about the model beside its arrays."""

    def log_tensors(self) -> dict[str, NDArray[Any]]:
        """The training log and the held-out parts."""

    def ids(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Original user and item ids."""


class Best(NamedTuple):
    """The best epoch, if any."""

    epoch: int | None
    value: float
    values: Mapping[str, Any] | None


@dataclass
class Run:
    """Where training stands after an epoch."""

    epoch: int = 0
    history: History = field(default_factory=History)
    best_value: float = -np.inf
    best: Mapping[str, Any] | None = None  # the engine's copy of the best epoch's values
    before: Best | None = None  # the best until the end of the run called for one more evaluation

    @property
    def best_epoch(self) -> int | None:
        """The epoch of ``best``."""
        return self.history.best_epoch

    def take_best(self, best: Best) -> None:
        """Have this epoch for the best."""
        self.history.best_epoch, self.best_value, self.best = best

    def drop_final_eval(self, metric: str, every: int) -> None:
        """Forget an evaluation that only the end called for, since there are to be more epochs."""
        if self.epoch % every:
            self.history.records[-1].pop(metric, None)
        if self.before is not None:
            self.take_best(self.before)
        self.before = None


@dataclass
class RunFolder:
    """Where a run is kept, and how often.

    Parameters
    ----------
    path
        The folder; a model that :func:`vitalrank.load` reads, with the training state beside it.
    identity
        What must be the same for a resume to be exact.
    epochs, seconds
        Write when either has passed since the last time.
    """

    path: Path
    identity: dict[str, Any]
    epochs: int | None
    seconds: float | None
    written: int = 0  # epoch of the state that the folder holds, 0 for none
    _time: float = field(default_factory=time.monotonic)

    def due(self, epoch: int) -> bool:
        """Whether it is time to write."""
        enough_epochs = self.epochs is not None and epoch - self.written >= self.epochs
        return enough_epochs or (self.seconds is not None and time.monotonic() - self._time >= self.seconds)

    def write(self, model: SavableModel, engine: Engine, run: Run) -> None:
        """Write the model as it should be served, and the state to go on from."""
        values = dict(engine.values())
        tensors = {**values, **model.log_tensors()}
        if run.best is not None and run.best_epoch != run.epoch:
            tensors |= {**engine.to_numpy(run.best), **{_CURRENT + name: array for name, array in values.items()}}
        tensors |= {_STATE + name: array for name, array in engine.state().items()}
        training: dict[str, Any] = {
            "epoch": run.epoch,
            "step": engine.step,
            "best_epoch": run.best_epoch,
            "best_value": run.best_value if run.best_epoch is not None else None,
            "identity": self.identity,
            "records": run.history.records,
        }
        if run.before is not None:
            training["before"] = None if run.before.values is None else run.before[:2]
            copy = engine.to_numpy(run.before.values or {})
            tensors |= {_BEFORE + name: array for name, array in copy.items()}
        write_folder(self.path, {**model.meta(), "training": training}, tensors, model.ids())
        self.written, self._time = run.epoch, time.monotonic()

    def resume(self, engine: Engine) -> Run:
        """Bring the engine to where the folder's run stands; a run that has not begun if there is no folder yet."""
        if not is_saved(self.path):
            return Run()
        saved = read_folder(self.path)
        training = self._checked(saved.meta)
        try:
            served = {name: saved.tensors[name] for name in engine.values()}
            current = {name: saved.tensors.get(_CURRENT + name, array) for name, array in served.items()}
            engine.load(current, {name: saved.tensors[_STATE + name] for name in engine.state()})
        except (KeyError, ValueError) as error:
            raise SettingError(
                f"{self.path}: holds other arrays than this model has ({error}); nothing was changed. Give the same "
                "modules to resume it, or choose another folder."
            ) from error
        engine.step = training["step"]
        self.written = training["epoch"]
        run = Run(training["epoch"], History(training["records"]))
        run.history.best_epoch = training["best_epoch"]
        if run.best_epoch is not None:
            run.best_value = training["best_value"]
            run.best = served
        if "before" in training:
            epoch, value = training["before"] or (None, -np.inf)
            values = {name: saved.tensors[_BEFORE + name] for name in served} if epoch else None
            run.before = Best(epoch, value, values)
        return run

    @contextmanager
    def kept(self, resume: bool) -> Iterator[None]:
        """Keep the folder for this run; one that is taken fails now and not after the first hour."""
        with only_writer(self.path):
            if not resume and is_saved(self.path):
                raise StorageError(
                    f"{self.path}: holds a run already; resume it (resume=True, --resume) or choose another folder."
                )
            if is_saved(self.path):
                self._checked(read_meta(self.path))  # before the model forgets what it was
            yield

    def _checked(self, meta: Mapping[str, Any]) -> dict[str, Any]:
        training: dict[str, Any] | None = meta.get("training")
        if training is None:
            raise StorageError(f"{self.path}: holds a model without training state; choose another folder.")
        for name, value in self.identity.items():
            found = training["identity"].get(name)
            if found != value:
                raise SettingError(
                    f"{self.path}: was trained with {name}={found!r}, not {value!r}; nothing was changed. "
                    "Give the same to resume it, or choose another folder."
                )
        return training


def run_folder(
    path: str | os.PathLike[str], identity: dict[str, Any], epochs: int | None, seconds: float | None
) -> RunFolder:
    """A checked ``RunFolder``."""
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise SettingError(f"checkpoint is {path!r}; give the name of a folder, or None.")
    if epochs is not None:
        check_count("checkpoint_epochs", epochs)
    if seconds is not None and seconds != np.inf and not (is_number(seconds) and seconds >= 0):
        raise SettingError(f"checkpoint_seconds is {seconds!r}; it must be at least 0, or None.")
    return RunFolder(Path(path).absolute(), identity, epochs, seconds)
