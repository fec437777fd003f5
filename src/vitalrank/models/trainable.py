"""The base class of models that the trainer trains: ``fit``, and the type of its options."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import wraps
from inspect import Parameter, signature
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, TypedDict, TypeVar, Unpack, cast

from vitalrank.config import CHECKPOINT_SECONDS, TrainConfig
from vitalrank.errors import SettingError
from vitalrank.interactions import Interactions
from vitalrank.models.base import Recommender
from vitalrank.training.trainable import Trainable

if TYPE_CHECKING:
    from vitalrank.samplers.settings import BindableSampler
    from vitalrank.training import Callback


class FitOptions(TypedDict, total=False):
    """Options of ``fit``: those of :class:`vitalrank.TrainConfig`, then those of :class:`vitalrank.Trainer`."""

    epochs: int
    lr: float
    reg: float
    loss: str
    margin: float
    optimizer: str
    batch: int | None
    negatives: int
    schedule: str
    patience: int | None
    valid_every: int
    metric: str
    threads: int | None
    seed: int
    device: str
    precision: str
    temperature: float
    correct: str
    calibration: float
    bilateral: float
    blocks: int | None
    callbacks: Sequence[Callback]
    checkpoint: str | os.PathLike[str] | None
    checkpoint_epochs: int | None
    checkpoint_seconds: float | None
    resume: bool
    progress: bool | None


_Fit = TypeVar("_Fit", bound=Callable[..., Any])
_CONFIG = {field.name: field.default for field in fields(TrainConfig)}
# The trainer's defaults, for the signature: importing it would load the samplers with every model that is only served.
_TRAINER = {"callbacks": (), "checkpoint_seconds": CHECKPOINT_SECONDS, "resume": False}


def with_fit_signature(fit: _Fit, defaults: Mapping[str, Any] = MappingProxyType({})) -> _Fit:
    """``fit`` with each option and its default in the signature, for ``help`` and notebooks.

    Examples
    --------
    >>> import vitalrank as vr
    >>> signature(vr.MF.fit).parameters["lr"].default
    0.003
    """

    @wraps(fit)
    def shown(*given: Any, **options: Any) -> Any:
        return fit(*given, **options)

    values = {**_CONFIG, **_TRAINER, **defaults}
    options = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=values.get(name), annotation=kind.__forward_arg__)
        for name, kind in FitOptions.__annotations__.items()
    ]
    own = [
        one for one in signature(fit).parameters.values() if one.name in ("self", "train", "sampler", "valid", "start")
    ]
    shown.__signature__ = signature(fit).replace(parameters=[*own, *options])  # type: ignore[attr-defined]
    return cast(_Fit, shown)


class TrainableModel(Recommender, Trainable):
    """A recommender trained by the trainer: a subclass gives ``build`` and ``release_training_state``."""

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "defaults" in vars(cls) and "fit" not in vars(cls):
            cls.fit = with_fit_signature(cls.fit, cls.defaults)  # type: ignore[method-assign]  # with the defaults of its own

    @with_fit_signature
    def fit(
        self,
        train: Interactions,
        sampler: BindableSampler | None = None,
        *,
        valid: Interactions | None = None,
        start: Recommender | str | os.PathLike[str] | None = None,
        **options: Unpack[FitOptions],
    ) -> Self:
        """Train on a log.

        Parameters
        ----------
        train
            The log.
        sampler
            Where negatives come from; by default ``VINS()``, or the model's own.
        valid
            A held-out part to pick the best epoch by.
        start
            Warm start: an earlier model of this class and these settings, or its run folder, which also keeps the
            state of the optimizer. ``train`` is its log with more rows: ``start.train.extend(new)``. Known users and
            items begin with their vectors, new ones with those that a ridge regression predicts from their
            interactions; then a few epochs follow on all rows. Options that are not given are those of the first
            training, ``epochs`` is 15 % of its epochs and at least 3.
        epochs, lr, reg, loss, margin, optimizer, batch, negatives, schedule
            See :class:`vitalrank.TrainConfig`.
        patience, valid_every, metric
            How ``valid`` picks the epoch and ends the training; see :class:`vitalrank.TrainConfig`.
        threads, seed, device, precision, temperature, correct, calibration, bilateral, blocks
            See :class:`vitalrank.TrainConfig`.
        callbacks, checkpoint, checkpoint_epochs, checkpoint_seconds, resume, progress
            See :class:`vitalrank.Trainer`.
        """
        from vitalrank.models.starting import warm_start_of
        from vitalrank.training import Trainer
        from vitalrank.training.refitting import sampler_of

        earlier = None if start is None else warm_start_of(self, start)
        given: dict[str, Any] = {**self.defaults, **({} if earlier is None else earlier.options()), **options}
        unknown = given.keys() - FitOptions.__annotations__.keys()
        if unknown:
            known = ", ".join(FitOptions.__annotations__)
            raise SettingError(f"fit has no option {min(unknown)!r}; it has {known}.")
        config = TrainConfig(**{name: value for name, value in given.items() if name in _CONFIG})
        if "margin" in options:
            config.check_margin()
        if valid is None and options.get("patience") is not None:
            raise SettingError("patience counts evaluations on valid; give valid= too, or leave it out.")
        trainer = Trainer(config, **{name: value for name, value in given.items() if name not in _CONFIG})
        if earlier is not None and sampler is None and earlier.history.sampler is not None:
            sampler = sampler_of(earlier.history)
        trainer.fit(self, train, sampler, valid, earlier)
        return self

    def refit(self, log: Interactions, sampler: BindableSampler | None = None, **options: Unpack[FitOptions]) -> Self:
        """Train anew on a log, such as train, valid and test together, for the epoch count that validation picked.

        Settings, sampler and seed are those of the training before; the result is that of a fresh model with
        ``fit(log, sampler, epochs=model.history.best_epoch, ...)``, bit for bit. Without a validation set the
        epoch count is that of the training.

        Parameters
        ----------
        log
            The log. Nothing is held out of it.
        sampler
            The sampler of the training unless given; to be given if it is one of your own.
        options
            Options of :meth:`fit` that differ.

        Examples
        --------
        >>> import vitalrank as vr
        >>> log = vr.datasets.synthetic(users=50, items=40, interactions=600, seed=0)
        >>> train, valid, test = log.split_last(0.2, valid=0.1)
        >>> model = vr.MF(dim=8).fit(train, valid=valid, epochs=3, progress=False)
        >>> picked = model.history.best_epoch
        >>> len(model.refit(log, progress=False).history) == picked
        True
        """
        from vitalrank.training.refitting import refit_options, sampler_of

        repeated: Any = refit_options(self.history, options)
        return self.fit(log, sampler_of(self.history) if sampler is None else sampler, **repeated)

    def record(self) -> dict[str, Any]:
        return self.history.to_save()


def is_trained(model: object) -> bool:
    """Whether a model, or its class, is trained step by step with a sampler.

    Examples
    --------
    >>> import vitalrank as vr
    >>> is_trained(vr.MF), is_trained(vr.MostPopular())
    (True, False)
    """
    return issubclass(model if isinstance(model, type) else type(model), TrainableModel)
