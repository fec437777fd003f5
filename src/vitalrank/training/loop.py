"""The training loop: epochs, validation, early stopping, checkpoints, and what to do when the loss diverges."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from vitalrank.config import TrainConfig
from vitalrank.distributed.process_group import ProcessGroup
from vitalrank.engines.base import Engine, Totals
from vitalrank.errors import TrainingError, VitalrankError
from vitalrank.history import Record
from vitalrank.interactions import Interactions
from vitalrank.schedules import SCHEDULES
from vitalrank.training.interrupts import Interrupt
from vitalrank.training.progress import ProgressBar
from vitalrank.training.runs import BestEpoch, RunFolder, RunState
from vitalrank.training.trainable import Trainable

# Called after each epoch with its record and the model; a true answer stops the training.
Callback = Callable[[Record, Any], bool | None]

logger = logging.getLogger(__name__)

_DIVERGED = 10.0  # times the loss of equal scores: no training that learns gets near it


@dataclass
class TrainingLoop:
    """The epochs of one run, from its current state to its end."""

    config: TrainConfig
    callbacks: tuple[Callback, ...]
    model: Trainable
    engine: Engine
    valid: Interactions | None
    folder: RunFolder | None
    run: RunState
    bar: ProgressBar
    interrupt: Interrupt
    build: Callable[[], Engine]  # makes a fresh engine at its initial values
    group: ProcessGroup  # all ranks go the same way: where they could differ, they agree first
    between_epochs: bool = True  # False while the engine is ahead of `run`: within an epoch, or after a diverged one

    def run_epochs(self) -> None:
        """Train to the end, leave the best epoch in the model, write the folder."""
        try:
            self.run.history.stopped = self._until_stopped()
        except BaseException:
            if not self.group:  # ranks cannot meet after an error of one: the last checkpoint has to do
                self._keep()  # a callback's error or a second Ctrl-C also leaves the best epoch in the model
            raise
        self._keep()

    def _keep(self) -> None:
        """Write what the folder lacks, and leave the best epoch in the model."""
        try:
            if self.folder is not None and self.between_epochs and self._is_unsaved(self.folder):
                self.folder.write(self.model, self.engine, self.run)
        finally:
            if self.run.best is not None:
                self.engine.load(self.run.best)
            whole = self.engine.complete()
            if whole is not None:
                self.model.take_whole(whole)

    def _is_unsaved(self, folder: RunFolder) -> bool:
        """Whether the folder lacks an epoch, or the reason for the end."""
        if self.run.epoch == 0:
            return False
        return self.run.epoch > folder.written or self.run.history.stopped != folder.stopped

    def _until_stopped(self) -> str:
        """Train epoch by epoch; returns why the training ended."""
        while self.run.epoch < self.config.epochs:
            if self._is_interrupted():  # before the first epoch, too
                return "interrupted"
            if self._patience_exhausted():
                return "patience"
            record = self._epoch(self.run.epoch + 1)
            if self.group.any_rank(any(self._call_back(record))):
                return "callback"
            if self._is_interrupted():
                return "interrupted"
            more = self.run.epoch < self.config.epochs  # else run_epochs() writes, with the reason for the end
            if more and self.folder is not None and self.folder.due(self.run.epoch):
                self.folder.write(self.model, self.engine, self.run)
        return "finished"

    def _call_back(self, record: Record) -> list[bool | None]:
        """What the callbacks answer."""
        if not self.callbacks:
            return []
        with self.engine.serving(self.model):
            return [callback(record, self.model) for callback in self.callbacks]

    def _is_interrupted(self) -> bool:
        """Whether a signal came, to any of the ranks: then it is as if it came to all."""
        self.interrupt.number = max(self.group.all_gather_objects(self.interrupt.number or 0)) or None
        return self.interrupt.wanted

    def _patience_exhausted(self) -> bool:
        run, patience = self.run, self.config.effective_patience()
        return (
            run.best_epoch is not None
            and patience is not None
            and (run.epoch - run.best_epoch) // self.config.valid_every >= patience
        )

    def _learning_rate(self, epoch: int) -> Callable[[float], float]:
        """The learning rate as a function of the finished share of the epoch."""
        factor = SCHEDULES[self.config.schedule]
        return lambda share: self.config.lr * factor((epoch - 1 + share) / self.config.epochs)

    def _epoch(self, epoch: int) -> Record:
        rate = self._learning_rate(epoch)
        self.bar.epoch_started(epoch)
        began = time.perf_counter()
        self.between_epochs = False
        totals = self.engine.run_epoch(epoch, rate, self.bar.on_progress)
        seconds = time.perf_counter() - began
        self._check_divergence(epoch, totals)
        if epoch == 1 and totals.skipped == totals.positives:
            logger.warning("no positive could be trained on: the model keeps its initial values; see the history")
        record = {"epoch": epoch, "lr": rate(0.0), **totals.means(), "seconds": seconds, **self._validation(epoch)}
        self.run.epoch = epoch
        self.run.history.records.append(record)
        self._keep_best(record)
        self.between_epochs = True
        self.bar.epoch_finished(record, self.config.metric)
        logger.info("epoch %d of %d: %s", epoch, self.config.epochs, record)
        return record

    def _validation(self, epoch: int) -> Record:
        last = epoch == self.config.epochs
        if self.valid is None or not (last or epoch % self.config.valid_every == 0):
            return {}
        from vitalrank.evaluation import value_of

        metric = self.config.metric
        with self.engine.serving(self.model):
            return {metric: value_of(self.model, self.valid, metric, self.config.threads, self.group)}

    def _keep_best(self, record: Record) -> None:
        value = record.get(self.config.metric)
        if value is not None and value > self.run.best_value:
            if self.run.epoch % self.config.valid_every:
                self.run.previous_best = BestEpoch(self.run.best_epoch, self.run.best_value, self.run.best)
            self.run.set_best(BestEpoch(self.run.epoch, value, self.engine.copy()))

    def _check_divergence(self, epoch: int, totals: Totals) -> None:
        """Raise TrainingError for an epoch that diverged, before anything of it is saved."""
        loss = totals.means()["loss"]
        sane = np.isfinite(loss) and totals.loss <= _DIVERGED * totals.start_loss
        if sane and self.engine.is_finite():
            return
        with suppress(VitalrankError):  # too little memory or disk for the replay: report the divergence
            self._replay_to_last_good()
        raise TrainingError(
            f"training diverged in epoch {epoch} (mean loss {loss:.4g}); lower lr (now {self.config.lr:g}) or choose "
            f"another reg (now {self.config.reg:g}). Last good state: {_last_good_state(self.folder)}."
        )

    def _replay_to_last_good(self) -> None:
        """Save the last good epoch: train again, with the same bits, from the last checkpoint up to it."""
        if self.folder is None or self.run.epoch <= self.folder.written:
            return
        self.engine = self.build()
        done = self.folder.resume(self.engine).epoch
        loss = None
        for epoch in range(done + 1, self.run.epoch + 1):
            loss = self.engine.run_epoch(epoch, self._learning_rate(epoch), lambda totals: None).means()["loss"]
        # The losses differ where a caller's modules, already trained by now, gave the initial values.
        if loss == self.run.history[-1]["loss"]:
            self.folder.write(self.model, self.engine, self.run)


def _last_good_state(folder: RunFolder | None) -> str:
    if folder is None:
        return "no checkpoint was asked for"
    return f"{folder.path} keeps epoch {folder.written}" if folder.written else "none was written yet"
