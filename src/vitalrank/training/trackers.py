"""Curves of a run for MLflow and Weights & Biases, epoch by epoch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType, TracebackType
from typing import Any, Self

from vitalrank.errors import SettingError
from vitalrank.history import Record
from vitalrank.training.trainable import Trainable


class EpochTracker(ABC):
    """A callback that hands every number of an epoch's record to a tracker, and is closed after the training."""

    @abstractmethod
    def __call__(self, record: Record, model: Trainable) -> None:
        """Hand over the record of an epoch."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what was opened."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class MLflow(EpochTracker):
    """A callback that logs the settings and every number of each epoch to MLflow; it needs ``mlflow``.

    An active run (``mlflow.start_run()``) is used and left open; otherwise one is started, and ended by ``close``.
    MLflow allows no ``@`` in a name: ``ndcg@10`` becomes ``ndcg_at_10``. At the end ``best_epoch`` is logged.

    Parameters
    ----------
    **options
        For ``mlflow.start_run`` where a run is started, such as ``run_name`` or ``experiment_id``.

    Examples
    --------
    >>> with MLflow(run_name="vins") as tracker:  # doctest: +SKIP
    ...     vr.MF().fit(train, valid=valid, callbacks=[tracker])
    """

    def __init__(self, **options: Any) -> None:
        self._mlflow = _needed("mlflow", "MLflow")
        self._started = self._mlflow.active_run() is None
        if self._started:
            self._mlflow.start_run(**options)
        elif options:
            raise SettingError(f"an MLflow run is active, so {min(options)} comes too late; end it, or leave it out.")
        self._model: Trainable | None = None

    def __call__(self, record: Record, model: Trainable) -> None:
        if self._model is None:
            self._mlflow.log_params(run_settings(model))
        self._model = model
        values = {name.replace("@", "_at_"): value for name, value in numbers(record).items()}
        self._mlflow.log_metrics(values, step=record["epoch"])

    def close(self) -> None:
        best = None if self._model is None else self._model.history.best_epoch
        if best is not None:
            self._mlflow.log_metrics({"best_epoch": float(best)})
        self._model = None
        if self._started:
            self._mlflow.end_run()


class WandB(EpochTracker):
    """A callback that logs the settings and every number of each epoch to Weights & Biases; it needs ``wandb``.

    An active run (``wandb.init()``) is used and left open; otherwise one is started, and finished by ``close``. At the
    end the summary holds ``best_epoch``.

    Parameters
    ----------
    **options
        For ``wandb.init`` where a run is started, such as ``project``, ``name`` or ``mode="offline"``.

    Examples
    --------
    >>> with WandB(project="ranking", mode="offline") as tracker:  # doctest: +SKIP
    ...     vr.MF().fit(train, valid=valid, callbacks=[tracker])
    """

    def __init__(self, **options: Any) -> None:
        wandb = _needed("wandb", "WandB")
        self._started = wandb.run is None
        if not self._started and options:
            raise SettingError(f"a wandb run is active, so {min(options)} comes too late; finish it, or leave it out.")
        self._run: Any = wandb.init(**options) if self._started else wandb.run
        self._model: Trainable | None = None

    def __call__(self, record: Record, model: Trainable) -> None:
        if self._model is None:
            self._run.config.update(run_settings(model))
        self._model = model
        self._run.log(numbers(record), step=record["epoch"], commit=True)

    def close(self) -> None:
        best = None if self._model is None else self._model.history.best_epoch
        if best is not None:
            self._run.summary["best_epoch"] = best
        self._model = None
        if self._started:
            self._run.finish()


def numbers(record: Record) -> dict[str, float]:
    """What a tracker can draw of a record.

    Examples
    --------
    >>> numbers({"epoch": 1, "loss": 0.5, "unviolated": None, "imbalance": {"max": 3.0}})
    {'loss': 0.5, 'imbalance.max': 3.0}
    """
    found: dict[str, float] = {}
    for name, value in record.items():
        if isinstance(value, Mapping):
            found |= {f"{name}.{inner}": number for inner, number in numbers(dict(value)).items()}
        elif name != "epoch" and isinstance(value, (int, float)):
            found[name] = value
    return found


def run_settings(model: Trainable) -> dict[str, Any]:
    """Model, sampler and training settings in one table.

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.datasets.synthetic(users=50, items=40, interactions=600, seed=0)
    >>> found = run_settings(vr.MF(dim=8).fit(log, vr.Uniform(), epochs=1, progress=False))
    >>> found["model"], found["sampler"], found["lr"], found["train.users"]
    ('MF(dim=8, bias=False)', 'Uniform()', 0.003, 50)
    """
    history = model.history
    log = {"users": model.train.n_users, "items": model.train.n_items, "rows": len(model.train)}
    return {
        "model": repr(model),
        "sampler": history.sampler,
        **(history.settings or {}),
        **{f"train.{name}": count for name, count in log.items()},
    }


def _needed(module: str, who: str) -> ModuleType:
    try:
        return import_module(module)
    except ImportError as missing:
        raise SettingError(f"{who} needs {module}: pip install {module}.") from missing
