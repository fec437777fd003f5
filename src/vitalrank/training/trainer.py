"""The trainer: checks the arguments, builds the engine, locks the run folder and runs the training loop."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace

from vitalrank._util.devices import dedicated_stream, resolve
from vitalrank._util.threads import limited
from vitalrank.config import CHECKPOINT_SECONDS, TrainConfig
from vitalrank.distributed.joining import is_restarted, join_group, local_threads
from vitalrank.distributed.process_group import ProcessGroup
from vitalrank.engines.base import Engine
from vitalrank.errors import SettingError
from vitalrank.history import History
from vitalrank.interactions import Interactions, check_log, check_same_ids
from vitalrank.samplers import VINS, Sampler
from vitalrank.samplers.settings import BindableSampler
from vitalrank.training.interrupts import interruptible
from vitalrank.training.loop import Callback, TrainingLoop
from vitalrank.training.progress import ProgressBar
from vitalrank.training.ranks import check_same_run, without_address
from vitalrank.training.runs import RunFolder, RunState, run_folder
from vitalrank.training.trainable import HasDefaultSampler, Trainable
from vitalrank.training.warm_start import WarmStart

logger = logging.getLogger(__name__)


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
        self.config = replace(given, device=resolve(given.device))  # a run folder names the device itself, not "auto"
        self.callbacks = _checked_callbacks(callbacks)
        self.progress = progress
        self._checkpoint = checkpoint
        self._every = (checkpoint_epochs, checkpoint_seconds)
        self._resume = resume

    def fit(
        self,
        model: Trainable,
        train: Interactions,
        sampler: BindableSampler | None = None,
        valid: Interactions | None = None,
        start: WarmStart | None = None,
    ) -> History:
        """Train ``model`` on ``train``; without a sampler with the model's own, with ``valid`` the best epoch is kept.

        In a process that torchrun started, its group trains the model together; rank 0 alone writes the folder and
        shows progress, and every rank gets the whole model.

        The model gives ``build(train, bound_sampler, config)``, which returns a
        :class:`vitalrank.engines.base.Engine` whose values the model serves from then on, and
        ``release_training_state()``. With ``start`` the engine begins at the values of an earlier model.
        """
        check_log("train", train)
        if len(train) == 0:
            raise SettingError("the training log is empty; give one with at least one interaction.")
        sampler = default_sampler(model, self.config) if sampler is None else _checked_sampler(sampler)
        self._check_metric(train, valid)
        if start is not None:
            start.check_log(train)
        group = join_group()
        folder = self._folder(model, train, sampler, valid, start, group)
        locked = nullcontext() if folder is None else folder.locked(self._resume or is_restarted())
        threads = self.config.threads or local_threads()

        def build() -> Engine:
            if self.config.blocks is None:
                engine = model.build(train, sampler.bind(train, seed=self.config.seed), self.config)
            else:
                engine = model.build_in_blocks(train, sampler, self.config)
            if train.own_users != (0, train.n_users) and not engine.takes_views:
                raise SettingError("train is one rank's view of a prepared log; give the whole: Prepared.part().")
            if start is not None:
                start.apply(model, engine, train)
            return engine

        with (
            interruptible() as interrupt,
            group.stop_others_on_error(),
            locked,
            limited(threads),
            dedicated_stream(self.config.device),
        ):
            check_same_run(group, model, sampler, self.config, train, valid)
            engine = build()
            try:
                if folder is not None:
                    folder.identity |= engine.run_identity
                run = folder.resume(engine) if folder is not None else RunState()
                if run.epoch < self.config.epochs:
                    run.drop_final_eval(self.config.metric, self.config.valid_every)
                run.history.sampler, run.history.settings = repr(sampler), self.config.run_identity()
                run.history.start = None if start is None else start.origin
                model.history = run.history
                with ProgressBar(self.config.epochs, len(train), self.progress if group.is_rank_zero else False) as bar:
                    # No local name may keep the loop: the engine has to be freed below.
                    TrainingLoop(
                        self.config, self.callbacks, model, engine, valid, folder, run, bar, interrupt, build, group
                    ).run_epochs()
            finally:
                del engine  # frees the optimizer's state before the model copies its values
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
        from vitalrank.metrics import BEYOND

        (name,) = metric_names([self.config.parsed_metric()[0]])
        if name in BEYOND:
            raise SettingError(f"metric {self.config.metric!r} says nothing of hits and picks no epoch; give ndcg@10.")
        if valid is None:
            return
        check_same_ids(train, valid, "valid")
        if len(valid) == 0:
            raise SettingError("the validation log is empty; hold out a larger share, or leave valid out.")

    def _folder(
        self,
        model: Trainable,
        train: Interactions,
        sampler: BindableSampler,
        valid: Interactions | None,
        start: WarmStart | None,
        group: ProcessGroup,
    ) -> RunFolder | None:
        if self._checkpoint is None:
            return None
        identity = {
            "log": train.fingerprint,
            "valid": None if valid is None else valid.fingerprint,
            "start": None if start is None else start.digest,
            "model": repr(model),
            "sampler": without_address(sampler),
            **self.config.run_identity(),
        }
        return run_folder(self._checkpoint, identity, *self._every, group)


def _checked_callbacks(callbacks: object) -> tuple[Callback, ...]:
    """Validate the callbacks before the first epoch, not after it."""
    if not isinstance(callbacks, Iterable):
        raise SettingError(f"callbacks is {callbacks!r}; give a list of functions of a record and a model.")
    listed = tuple(callbacks)
    for callback in listed:
        if not callable(callback):
            raise SettingError(f"callbacks holds {callback!r}, which cannot be called with a record and a model.")
    return listed


def _reject_checkpoint_options(resume: bool, epochs: int | None, seconds: float | None) -> None:
    """Reject checkpoint options given without ``checkpoint=``."""
    asked = {"resume": resume, "checkpoint_epochs": epochs is not None}
    asked["checkpoint_seconds"] = seconds is not None and seconds != CHECKPOINT_SECONDS
    for name, is_asked in asked.items():
        if is_asked:
            raise SettingError(f"{name} needs a folder that the run is kept in; give checkpoint=.")


def _checked_sampler(sampler: BindableSampler) -> BindableSampler:
    """Validate that ``sampler`` is an unbound sampler instance."""
    if isinstance(sampler, type) or not callable(getattr(sampler, "bind", None)):
        raise SettingError(f"sampler is {sampler!r}; give one with its settings, such as VINS(), not bound to a log.")
    return sampler


def default_sampler(model: HasDefaultSampler, config: TrainConfig) -> Sampler:
    """The sampler that a model is trained with unless another is named: its own, or ``VINS()``.

    Examples
    --------
    >>> import vitalrank as vr
    >>> default_sampler(vr.MF(), vr.TrainConfig())
    VINS(beta=0.5, kappa=64, margin=1.0, shots=8, weight='log2')
    """
    return model.default_sampler(config) or VINS()


def _stop_message(run: RunState, folder: RunFolder | None) -> str:
    if run.epoch == 0:
        return "stopped before the first epoch; nothing was trained."
    done = f"stopped after epoch {run.epoch}"
    if folder is None:
        return f"{done}; the model keeps what it learnt. Give checkpoint= to be able to resume."
    return f"{done}, saved in {folder.path}; the same with resume=True (--resume) goes on."
