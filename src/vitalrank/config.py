"""Training settings."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, fields, replace
from types import MappingProxyType
from typing import Any

from vitalrank._util.checks import (
    MOST_SEED,
    check_choice,
    check_count,
    check_number,
    check_positive,
    is_number,
    parse_metric,
    to_builtin_scalars,
)
from vitalrank.errors import SettingError
from vitalrank.registry import LOSSES, OPTIMIZERS
from vitalrank.schedules import SCHEDULES

OPTIMIZER_NAMES = tuple(OPTIMIZERS)
CORRECTIONS = ("none", "logq")
PRECISIONS = ("float32", "bfloat16")
_SOFTMAX_LOSSES = ("softmax", "bsl", "psl")
CHECKPOINT_SECONDS = 30.0  # between two checkpoints
# Settings that a resumed run may change: they do not affect the bits of an epoch.
_NOT_IN_IDENTITY = ("epochs", "patience", "threads")
_PATIENCE = 10


@dataclass(frozen=True)
class TrainConfig:
    """Settings of a training run.

    Parameters
    ----------
    epochs
        Passes over the log; each visits every positive once, in its own random order.
    lr, reg
        Learning rate; L2 weight, per occurrence of a row in a batch.
    loss, margin
        ``"bpr"``, ``"hinge"``, ``"cross_entropy"``, ``"gbce"``, ``"softmax"``, ``"bsl"`` or ``"psl"``; the margin is
        the hinge's.
    optimizer
        ``"adam"``, ``"adagrad"`` or ``"sgd"``. Gradients of a batch are summed per row; only rows
        that a batch touches are updated.
    batch, negatives
        Positives per step (None: a 64th of the log, but 512 to 8192), negatives per positive.
    schedule
        ``"constant"``, ``"linear"`` or ``"cosine"``: the last two decay the learning rate to 0 over all epochs.
    patience
        Evaluations on the validation log without improvement before early stopping. None: 10 at a constant learning
        rate, and no early stopping under a decaying one, which gains most at its end.
    valid_every, metric
        Evaluate after every so many epochs, by this metric.
    threads
        At most so many threads; None for all cores. Matrix factorization gives the same bits for any number.
    seed, device
        Seed of every random draw; where to train: ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ..., or ``"auto"``, which is a
        GPU if there is one.
    precision
        ``"float32"``, or ``"bfloat16"``: layers of a torch model multiply in it; the values stay float32.

    temperature
        The loss reads every score divided by it; the loss ``"psl"`` has it as the root of each negative's term.
    correct
        ``"logq"`` multiplies the weights of the losses that share a softmax by ``1 / (k q_j)``, q the sampler's
        proposal: the sum over k negatives then estimates that over all items. ``"none"`` does not.
    calibration
        ``t`` of the loss ``"gbce"``: from 0, which is the cross entropy, to 1.
    bilateral
        Weight of the negatives' side in the loss ``"bsl"``.
    blocks
        Train matrix factorization in so many blocks of items, for item tables that fit no single machine: negatives
        come from the block of the positive. None trains on all items at once.

    Examples
    --------
    >>> TrainConfig(lr=0.01).optimizer
    'adam'
    >>> TrainConfig(loss="huber")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    vitalrank.errors.SettingError: unknown loss 'huber'; choose one of bpr, hinge, cross_entropy, gbce, ...
    """

    epochs: int = 100
    lr: float = 0.003
    reg: float = 0.06
    loss: str = "bpr"
    margin: float = 1.0
    optimizer: str = "adam"
    batch: int | None = None
    negatives: int = 1
    schedule: str = "constant"
    patience: int | None = None
    valid_every: int = 1
    metric: str = "ndcg@10"
    threads: int | None = None
    seed: int = 0
    device: str = "cpu"
    precision: str = "float32"
    temperature: float = 1.0
    correct: str = "none"
    calibration: float = 0.75
    bilateral: float = 1.0
    blocks: int | None = None

    def __post_init__(self) -> None:
        to_builtin_scalars(self)
        LOSSES.find(self.loss)
        check_choice("optimizer", self.optimizer, OPTIMIZER_NAMES)
        check_choice("precision", self.precision, PRECISIONS)
        check_choice("schedule", self.schedule, SCHEDULES)
        for name in ("epochs", "negatives", "valid_every"):
            check_count(name, getattr(self, name))
        for name in ("batch", "patience", "threads", "blocks"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))
        check_count("seed", self.seed, least=0, most=MOST_SEED)
        check_positive("lr", self.lr)
        check_positive("margin", self.margin)
        check_number("reg", self.reg, least=0)
        check_positive("temperature", self.temperature)
        check_choice("correct", self.correct, CORRECTIONS)
        if self.correct != "none" and self.loss not in _SOFTMAX_LOSSES:
            raise SettingError(
                f"correct is {self.correct!r}, which is for the loss 'softmax' ('bsl', 'psl'), not {self.loss!r}."
            )
        check_positive("bilateral", self.bilateral)
        if self.bilateral != 1.0 and self.loss != "bsl":
            raise SettingError(f"bilateral is {self.bilateral!r}, which is for the loss 'bsl', not {self.loss!r}.")
        if not (is_number(self.calibration) and 0.0 <= self.calibration <= 1.0):
            raise SettingError(f"calibration is {self.calibration!r}; it must be from 0 (cross entropy) to 1.")
        self.parsed_metric()

    def with_defaults(self, own: Mapping[str, Any], fixed: Collection[str] = ()) -> TrainConfig:
        """The settings, with a model's own defaults (CML's hinge loss, say) where they are still the library's.

        What is named in ``fixed`` was chosen, whatever its value.

        Examples
        --------
        >>> own = {"loss": "hinge", "reg": 0.0}
        >>> TrainConfig(reg=0.5).with_defaults(own).loss, TrainConfig().with_defaults(own, fixed=["loss"]).loss
        ('hinge', 'bpr')
        """
        usual = TrainConfig()
        untouched = {name for name in own if getattr(self, name) == getattr(usual, name)} - set(fixed)
        return replace(self, **{name: own[name] for name in untouched})

    def has_margin(self) -> bool:
        """Whether the loss has a margin.

        Examples
        --------
        >>> TrainConfig().has_margin(), TrainConfig(loss="hinge").has_margin()
        (False, True)
        """
        from vitalrank.losses import find_loss

        return find_loss(self.loss).has_margin

    def check_margin(self) -> None:
        """Reject a margin that was set for a loss without one."""
        if self.margin != TrainConfig.margin and not self.has_margin():
            raise SettingError(
                f"margin (--hinge-margin) is {self.margin:g}, but the loss {self.loss!r} has none; choose the hinge, "
                "leave it out, or set the sampler's own."
            )

    def effective_patience(self) -> int | None:
        """Evaluations without improvement that stop the training; None for no early stopping.

        Examples
        --------
        >>> TrainConfig().effective_patience(), TrainConfig(schedule="linear").effective_patience()
        (10, None)
        """
        return _PATIENCE if self.patience is None and self.schedule == "constant" else self.patience

    def batch_of(self, positives: int) -> int:
        """Positives per step on a log of that size.

        Examples
        --------
        >>> [TrainConfig().batch_of(n) for n in (1_000, 200_000, 3_000_000)]
        [512, 3125, 8192]
        """
        return self.batch if self.batch is not None else min(max(positives // 64, 512), 8192)

    def parsed_metric(self) -> tuple[str, int]:
        """The metric's name and list length.

        Examples
        --------
        >>> TrainConfig(metric="recall@20").parsed_metric()
        ('recall', 20)
        """
        return parse_metric(self.metric)

    def measure(self) -> tuple[str, int]:
        """The former name of :meth:`parsed_metric`."""
        warnings.warn("TrainConfig.measure is now TrainConfig.parsed_metric.", DeprecationWarning, stacklevel=2)
        return self.parsed_metric()

    def run_identity(self) -> dict[str, Any]:
        """The settings that decide what is computed; a resumed run must have the same."""
        fixed = {name: value for name, value in asdict(self).items() if name not in _NOT_IN_IDENTITY}
        if self.schedule != "constant":
            fixed["epochs"] = self.epochs
        return fixed


SETTINGS = frozenset(field.name for field in fields(TrainConfig))
DEFAULTS: Mapping[str, Any] = MappingProxyType({field.name: field.default for field in fields(TrainConfig)})


def saved_setting(saved: Mapping[str, Any], name: str) -> Any:
    """A setting as a saved identity has it: one that its version did not have yet was at its default.

    Examples
    --------
    >>> saved_setting({"lr": 0.1}, "lr"), saved_setting({"lr": 0.1}, "margin"), saved_setting({}, "model")
    (0.1, 1.0, None)
    """
    return saved.get(name, 1 if name == "ranks" else DEFAULTS.get(name))
