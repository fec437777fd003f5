"""The trainer: epochs, early stopping, checkpoints and signals around an engine."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vitalrank._util.devices import dedicated_stream, resolve
from vitalrank._util.threads import limited
from vitalrank.config import CHECKPOINT_SECONDS, TrainConfig
from vitalrank.engines.base import Engine, Totals
from vitalrank.errors import SettingError, TrainingError, VitalrankError
from vitalrank.history import History, Record
from vitalrank.interactions import Interactions, check_log, check_same_ids
from vitalrank.samplers import VINS, Sampler
from vitalrank.schedules import SCHEDULES
from vitalrank.training.interrupts import Interrupt, interruptible
from vitalrank.training.progress import Bar
from vitalrank.training.runs import Best, Run, RunFolder, run_folder

# Called after each epoch with its record and the model; a true answer stops the training.
Callback = Callable[[Record, Any], bool | None]

logger = logging.getLogger(__name__)

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # in the name of an object that has no other: another in each process
_DIVERGED = 10.0  # times the loss of equal scores: no training that learns gets near it


class Trainer:
    """Trains a model with a sampler and a loss.

    Parameters
    ----------
    config
        The settings.
    callbacks
        Called after each epoch with its record and the model; one that returns True stops the training.
    checkpoint
        Folder to keep the run in, or None.
    checkpoint_epochs, checkpoint_seconds
        Write the folder when either has passed since the last time, and at the end.
    resume
        Go on from the folder if it exists; what comes out has the same bits as a run that was never stopped.
    progress
        Show a bar; None shows it on a terminal or in a notebook and stays silent in a pipe.

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.datasets.synthetic(users=50, items=40, interactions=600, seed=0)
    >>> history = Trainer(TrainConfig(epochs=2)).fit(vr.MF(dim=8), log, vr.Uniform())
    >>> [record["epoch"] for record in history]
    [1, 2]
    """

    def __init__(
        self,
        config: TrainConfig | None = None,
        *,
        callbacks: Sequence[Callback] = (),
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_epochs: int | None = None,
        checkpoint_seconds: float | None = CHECKPOINT_SECONDS,
        resume: bool = False,
        progress: bool | None = None,
    ) -> None:
        if checkpoint is None:
            _reject_checkpoint_options(resume, checkpoint_epochs, checkpoint_seconds)
        given = config or TrainConfig()
        self.config = replace(given, device=resolve(given.device))  # "auto" would not tell a resumed run where it ran
        self.callbacks = _checked_callbacks(callbacks)
        self.progress = progress
        self._checkpoint = checkpoint
        self._every = (checkpoint_epochs, checkpoint_seconds)
        self._resume = resume

    def fit(self, model: Any, train: Interactions, sampler: Any = None, valid: Interactions | None = None) -> History:
        """Train ``model`` on ``train``; without a sampler with the model's own, with ``valid`` the best epoch is kept.

        The model gives ``build(train, bound_sampler, config)``, which returns a
        :class:`vitalrank.engines.base.Engine` whose values the model serves from then on, and
        ``release_training_state()``.
        """
        check_log("train", train)
        if len(train) == 0:
            raise SettingError("the training log is empty; give one with at least one interaction.")
        sampler = default_sampler(model, self.config) if sampler is None else _unbound(sampler)
        self._check_metric(train, valid)
        folder = self._folder(model, train, sampler, valid)
        locked = nullcontext() if folder is None else folder.locked(self._resume)

        def build() -> Engine:
            engine: Engine = model.build(train, sampler.bind(train, seed=self.config.seed), self.config)
            return engine

        with interruptible() as interrupt, locked, limited(self.config.threads), dedicated_stream(self.config.device):
            engine = build()
            try:
                if folder is not None:
                    folder.identity |= engine.run_identity
                run = folder.resume(engine) if folder is not None else Run()
                if run.epoch < self.config.epochs:
                    run.drop_final_eval(self.config.metric, self.config.valid_every)
                run.history.sampler, run.history.settings = repr(sampler), self.config.run_identity()
                model.history = run.history
                with Bar(self.config.epochs, len(train), self.progress) as bar:
                    # No local name may keep the session: the engine has to be freed below.
                    _Session(
                        self.config, self.callbacks, model, engine, valid, folder, run, bar, interrupt, build
                    ).train()
            finally:
                del engine  # the optimizer's state makes room for what the model copies
                model.release_training_state()
        if interrupt.wanted:
            message = _stop_message(run, folder)
            error = interrupt.error(message)
            if isinstance(error, SystemExit):  # which holds the exit code in place of the message
                logger.warning("%s", message)
            raise error
        return run.history

    def _check_metric(self, train: Interactions, valid: Interactions | None) -> None:
        """Validate the metric and the validation log before the first epoch, not after it."""
        from vitalrank.evaluation.measuring import metric_names

        metric_names(self.config.measure()[0])
        if valid is None:
            return
        check_same_ids(train, valid, "valid")
        if len(valid) == 0:
            raise SettingError("the validation log is empty; hold out a larger share, or leave valid out.")

    def _folder(self, model: Any, train: Interactions, sampler: Any, valid: Interactions | None) -> RunFolder | None:
        if self._checkpoint is None:
            return None
        identity = {
            "log": train.fingerprint,
            "valid": None if valid is None else valid.fingerprint,
            "model": repr(model),
            "sampler": _ADDRESS.sub("", repr(sampler)),
            **self.config.run_identity(),
        }
        return run_folder(self._checkpoint, identity, *self._every)


def _checked_callbacks(callbacks: Any) -> tuple[Callback, ...]:
    """Refuse one that would fail after the first epoch."""
    if not isinstance(callbacks, Iterable):
        raise SettingError(f"callbacks is {callbacks!r}; give a list of functions of a record and a model.")
    listed = tuple(callbacks)
    for callback in listed:
        if not callable(callback):
            raise SettingError(f"callbacks holds {callback!r}, which cannot be called with a record and a model.")
    return listed


def _reject_checkpoint_options(resume: bool, epochs: int | None, seconds: float | None) -> None:
    """Refuse what says how to keep a run that is not to be kept."""
    asked = {"resume": resume, "checkpoint_epochs": epochs is not None}
    asked["checkpoint_seconds"] = seconds is not None and seconds != CHECKPOINT_SECONDS
    for name, is_asked in asked.items():
        if is_asked:
            raise SettingError(f"{name} needs a folder that the run is kept in; give checkpoint=.")


def _unbound(sampler: Any) -> Any:
    """A sampler to bind, and no name, class or bound one."""
    if isinstance(sampler, type) or not callable(getattr(sampler, "bind", None)):
        raise SettingError(f"sampler is {sampler!r}; give one with its settings, such as VINS(), not bound to a log.")
    return sampler


def default_sampler(model: Any, config: TrainConfig) -> Sampler:
    """The sampler that a model is trained with unless another is named: its own, or ``VINS()``.

    Examples
    --------
    >>> import vitalrank as vr
    >>> default_sampler(vr.MF(), vr.TrainConfig())
    VINS(beta=0.5, kappa=64, margin=1.0, shots=8, weight='log2')
    """
    own: Sampler | None = model.default_sampler(config)
    return VINS() if own is None else own


@dataclass
class _Session:
    """One run of the trainer, from where it stands to its end."""

    config: TrainConfig
    callbacks: tuple[Callback, ...]
    model: Any
    engine: Engine
    valid: Interactions | None
    folder: RunFolder | None
    run: Run
    bar: Bar
    interrupt: Interrupt
    build: Callable[[], Engine]  # another engine, as at the start
    between_epochs: bool = True  # else the engine is ahead of the run: what it holds is of no epoch, or of a lost one

    def train(self) -> None:
        """Train, keep the best epoch, write the folder."""
        try:
            self.run.history.stopped = self._loop()
        finally:
            # A callback's error or a second Ctrl-C also leaves the best epoch in the model.
            try:
                if self.folder is not None and self.between_epochs and self._is_unsaved(self.folder):
                    self.folder.write(self.model, self.engine, self.run)
            finally:
                if self.run.best is not None:
                    self.engine.load(self.run.best)

    def _is_unsaved(self, folder: RunFolder) -> bool:
        """Whether the folder lacks an epoch, or why the run ended."""
        if self.run.epoch == 0:
            return False
        return self.run.epoch > folder.written or self.run.history.stopped != folder.stopped

    def _loop(self) -> str:
        while self.run.epoch < self.config.epochs:
            if self.interrupt.wanted:  # before the first epoch, too
                return "interrupted"
            if self._patience_exhausted():
                return "patience"
            record = self._epoch(self.run.epoch + 1)
            stop = [callback(record, self.model) for callback in self.callbacks]
            if any(stop):
                return "callback"
            if self.interrupt.number is not None:
                return "interrupted"
            more = self.run.epoch < self.config.epochs  # else train() writes, with the reason for the end
            if more and self.folder is not None and self.folder.due(self.run.epoch):
                self.folder.write(self.model, self.engine, self.run)
        return "finished"

    def _patience_exhausted(self) -> bool:
        run, patience = self.run, self.config.effective_patience()
        return (
            run.best_epoch is not None
            and patience is not None
            and (run.epoch - run.best_epoch) // self.config.valid_every >= patience
        )

    def _rate(self, epoch: int) -> Callable[[float], float]:
        """The learning rate by the share of an epoch that is done."""
        factor = SCHEDULES[self.config.schedule]
        return lambda share: self.config.lr * factor((epoch - 1 + share) / self.config.epochs)

    def _epoch(self, epoch: int) -> Record:
        rate = self._rate(epoch)
        self.bar.epoch_begins(epoch)
        began = time.perf_counter()
        self.between_epochs = False
        totals = self.engine.run_epoch(epoch, rate, self.bar.on_progress)
        seconds = time.perf_counter() - began
        self._check(epoch, totals)
        if epoch == 1 and totals.skipped == totals.positives:
            logger.warning("no positive could be trained on: the model keeps its initial values; see the history")
        record = {"epoch": epoch, "lr": rate(0.0), **totals.means(), "seconds": seconds, **self._metrics(epoch)}
        self.run.epoch = epoch
        self.run.history.records.append(record)
        self._keep_best(record)
        self.between_epochs = True
        self.bar.epoch_ends(record, self.config.metric)
        logger.info("epoch %d of %d: %s", epoch, self.config.epochs, record)
        return record

    def _metrics(self, epoch: int) -> Record:
        last = epoch == self.config.epochs
        if self.valid is None or not (last or epoch % self.config.valid_every == 0):
            return {}
        from vitalrank.evaluation import value_of

        metric = self.config.metric
        return {metric: value_of(self.model, self.valid, metric, self.config.threads)}

    def _keep_best(self, record: Record) -> None:
        value = record.get(self.config.metric)
        if value is not None and value > self.run.best_value:
            if self.run.epoch % self.config.valid_every:
                self.run.previous_best = Best(self.run.best_epoch, self.run.best_value, self.run.best)
            self.run.take_best(Best(self.run.epoch, value, self.engine.copy()))

    def _check(self, epoch: int, totals: Totals) -> None:
        """Stop at the first epoch that is lost, before anything of it is kept."""
        loss = totals.means()["loss"]
        sane = np.isfinite(loss) and totals.loss <= _DIVERGED * totals.start_loss
        if sane and self.engine.is_finite():
            return
        with suppress(VitalrankError):  # too little memory or disk for it: the divergence is still what to tell
            self._replay_to_last_good()
        raise TrainingError(
            f"training diverged in epoch {epoch} (mean loss {loss:.4g}); lower lr (now {self.config.lr:g}) or choose "
            f"another reg (now {self.config.reg:g}). Last good state: {_kept(self.folder)}."
        )

    def _replay_to_last_good(self) -> None:
        """Keep the last good epoch: no step can be undone, but the way there from the last checkpoint is known."""
        if self.folder is None or self.run.epoch <= self.folder.written:
            return
        self.engine = self.build()
        done = self.folder.resume(self.engine).epoch
        loss = None
        for epoch in range(done + 1, self.run.epoch + 1):
            loss = self.engine.run_epoch(epoch, self._rate(epoch), lambda totals: None).means()["loss"]
        if loss == self.run.history[-1]["loss"]:  # a model that begins from modules of a caller's ends elsewhere
            self.folder.write(self.model, self.engine, self.run)


def _kept(folder: RunFolder | None) -> str:
    if folder is None:
        return "no checkpoint was asked for"
    return f"{folder.path} keeps epoch {folder.written}" if folder.written else "none was written yet"


def _stop_message(run: Run, folder: RunFolder | None) -> str:
    if run.epoch == 0:
        return "stopped before the first epoch; nothing was trained."
    done = f"stopped after epoch {run.epoch}"
    if folder is None:
        return f"{done}; the model keeps what it learnt. Give checkpoint= to be able to resume."
    return f"{done}, saved in {folder.path}; the same with resume=True (--resume) goes on."
