"""Run folders: a model folder that also holds what an exact resume needs."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vitalrank._util.checks import check_count, is_number
from vitalrank._util.locks import only_writer
from vitalrank._util.memory import absent
from vitalrank.checkpoint import Saved, is_saved, read_folder, read_meta, write_folder
from vitalrank.config import saved_setting
from vitalrank.distributed.process_group import ProcessGroup
from vitalrank.engines.base import Engine
from vitalrank.errors import SettingError, StorageError
from vitalrank.history import History
from vitalrank.training.records import RunRecord, run_record, same_shapes
from vitalrank.training.trainable import Trainable

_STATE = "training.state."
_CURRENT = "training.values."  # present where the model to serve is of an earlier, better epoch
_PREVIOUS = "training.before."  # present where the best epoch was evaluated only because it was the last


class BestEpoch(NamedTuple):
    """The best epoch, if any."""

    epoch: int | None
    value: float
    values: Mapping[str, Any] | None


@dataclass
class RunState:
    """State of a run after an epoch."""

    epoch: int = 0
    history: History = field(default_factory=History)
    best_value: float = -np.inf
    best: Mapping[str, Any] | None = None  # the engine's copy of the best epoch's values
    previous_best: BestEpoch | None = (
        None  # the best before an evaluation that is due only because the epoch is the last
    )

    @property
    def best_epoch(self) -> int | None:
        """The epoch of ``best``."""
        return self.history.best_epoch

    def set_best(self, best: BestEpoch) -> None:
        """Record this epoch as the best."""
        self.history.best_epoch, self.best_value, self.best = best

    def drop_final_eval(self, metric: str, every: int) -> None:
        """Drop the evaluation of a last epoch that the schedule has none for, since more epochs follow."""
        if self.epoch % every:
            self.history.records[-1].pop(metric, None)
        if self.previous_best is not None:
            self.set_best(self.previous_best)
        self.previous_best = None


@dataclass
class RunFolder:
    """The folder that a run is saved in, and how often it is written.

    Parameters
    ----------
    path
        The folder; a model that :func:`vitalrank.load` reads, with the training state beside it.
    identity
        The run identity: what must be the same for a resume to be exact.
    epochs, seconds
        Write when either has passed since the last time.
    """

    path: Path
    identity: dict[str, Any]
    epochs: int | None
    seconds: float | None
    group: ProcessGroup = field(default_factory=ProcessGroup)  # whose rank 0 reads and writes
    written: int = 0  # epoch of the state that the folder holds, 0 for none
    stopped: str | None = None  # why that run ended, as the folder says
    _time: float = field(default_factory=time.monotonic)

    def due(self, epoch: int) -> bool:
        """Whether it is time to write."""
        enough_epochs = self.epochs is not None and epoch - self.written >= self.epochs
        is_time = self.seconds is not None and time.monotonic() - self._time >= self.seconds
        return enough_epochs or self.group.any_rank(is_time and self.group.is_rank_zero)

    def write(self, model: Trainable, engine: Engine, run: RunState) -> None:
        """Write the model as it should be served, and the state to go on from."""
        values = dict(engine.whole_values())
        tensors = {**values, **model.log_tensors()}
        if run.best is not None and run.best_epoch != run.epoch:
            tensors |= {**engine.to_numpy(run.best), **{_CURRENT + name: array for name, array in values.items()}}
        tensors |= {_STATE + name: array for name, array in engine.whole_state().items()}
        training: dict[str, Any] = {
            "epoch": run.epoch,
            "step": engine.step,
            "best_epoch": run.best_epoch,
            "best_value": run.best_value if run.best_epoch is not None else None,
            "identity": self.identity,
            "records": run.history.records,
        }
        if run.previous_best is not None:
            training["before"] = None if run.previous_best.values is None else run.previous_best[:2]
            copy = engine.to_numpy(run.previous_best.values or {})
            tensors |= {_PREVIOUS + name: array for name, array in copy.items()}
        meta = {**model.meta(), "training": training}
        self.group.on_rank_zero(lambda: write_folder(self.path, meta, tensors, model.ids()))
        self.written, self.stopped, self._time = run.epoch, run.history.stopped, time.monotonic()

    def resume(self, engine: Engine) -> RunState:
        """Restore the engine to the saved state; a run at epoch 0 if there is no folder yet."""
        saved = read_on_rank_zero(self.group, self.path)
        if saved is None:
            return RunState()
        record = self._checked(saved.meta)
        arrays, values = saved.tensors, engine.values()
        try:
            served = same_shapes(arrays, values)
            moved = {name: arrays.get(_CURRENT + name, array) for name, array in served.items()}
            current = same_shapes(moved, values)
            state = same_shapes(arrays, engine.state(), _STATE)
            previous = record.previous_best
            has_previous = previous is not None and previous[0] is not None
            previous_values = same_shapes(arrays, values, _PREVIOUS) if has_previous else None
            engine.load(current, state)
        except (KeyError, ValueError) as error:
            raise SettingError(
                f"{self.path}: holds other arrays than this model has ({error}); nothing was changed. Give the same "
                "modules to resume it, or choose another folder."
            ) from error
        engine.step = record.step
        self.written, self.stopped = record.epoch, record.stopped
        run = RunState(record.epoch, History(record.records))
        run.history.best_epoch = record.best_epoch
        if record.best_epoch is not None and record.best_value is not None:
            run.best_value = record.best_value
            run.best = served
        if previous is not None:
            run.previous_best = BestEpoch(*previous, previous_values)
        return run

    @contextmanager
    def locked(self, resume: bool) -> Iterator[None]:
        """Lock the folder for this run; one that is taken fails now and not after the first hour."""
        with ExitStack() as stack:
            self.group.on_rank_zero(lambda: self._lock(stack, resume))
            yield

    def _lock(self, stack: ExitStack, resume: bool) -> None:
        stack.enter_context(only_writer(self.path))
        if not resume and is_saved(self.path):
            raise StorageError(
                f"{self.path}: holds a run already; resume it (resume=True, --resume) or choose another folder."
            )
        if is_saved(self.path):
            self._checked(read_meta(self.path))  # before the model drops its current values

    def _checked(self, meta: Mapping[str, Any]) -> RunRecord:
        if meta.get("training") is None:
            raise StorageError(f"{self.path}: holds a model without training state; choose another folder.")
        try:
            record = run_record(meta)
        except (LookupError, TypeError, ValueError) as error:
            raise StorageError(
                f"{self.path}: holds no whole record of a run ({error}); restore it, or choose another folder."
            ) from error
        for name, value in self.identity.items():
            found = saved_setting(record.identity, name)
            if name == "threads" and found is None:  # a run of version 0.1, which did not write it
                continue
            if found != value:
                raise SettingError(
                    f"{self.path}: was trained with {name}={found!r}, not {value!r}; nothing was changed. "
                    "Give the same to resume it, or choose another folder."
                )
        return record


def run_folder(
    path: str | os.PathLike[str],
    identity: dict[str, Any],
    epochs: int | None,
    seconds: float | None,
    group: ProcessGroup | None = None,
) -> RunFolder:
    """A checked ``RunFolder``."""
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise SettingError(f"checkpoint is {path!r}; give the name of a folder, or None.")
    if epochs is not None:
        check_count("checkpoint_epochs", epochs)
    if seconds is not None and seconds != np.inf and not (is_number(seconds) and seconds >= 0):
        raise SettingError(f"checkpoint_seconds is {seconds!r}; it must be at least 0, or None.")
    return RunFolder(Path(path).absolute(), identity, epochs, seconds, group or ProcessGroup())


def read_on_rank_zero(group: ProcessGroup, path: Path) -> Saved | None:
    """A folder as rank 0 reads it; on other ranks its arrays are zeros of their shapes. None if there is none."""
    held: list[Saved] = []

    def read() -> dict[str, Any] | None:
        if not is_saved(path):
            return None
        saved = read_folder(path)
        held.append(saved)
        shapes = {name: (array.shape, array.dtype.str) for name, array in saved.tensors.items()}
        return {"meta": saved.meta, "shapes": shapes} if group.size > 1 else {}

    header = group.on_rank_zero(read)
    if header is None or held:
        return held[0] if held else None
    tensors = {name: absent(tuple(shape), kind) for name, (shape, kind) in header["shapes"].items()}
    return Saved(header["meta"], tensors, None)
