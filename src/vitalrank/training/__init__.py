"""Training: settings, the trainer and its loop, the record of each epoch, and runs that resume exactly."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from vitalrank._util.lazy import lazy_names

if TYPE_CHECKING:
    from vitalrank.config import TrainConfig
    from vitalrank.engines.base import Engine, Totals
    from vitalrank.history import History, Record
    from vitalrank.training.loop import Callback
    from vitalrank.training.tensorboard import TensorBoard
    from vitalrank.training.trackers import MLflow, WandB
    from vitalrank.training.trainer import Trainer

__all__ = [
    "Callback",
    "Engine",
    "History",
    "MLflow",
    "Record",
    "TensorBoard",
    "Totals",
    "TrainConfig",
    "Trainer",
    "WandB",
]

# Imported on first use, so that the command line starts fast where it needs the settings alone.
_load, __dir__ = lazy_names(
    __name__,
    {
        "Callback": "training.loop:Callback",
        "Engine": "engines.base:Engine",
        "History": "history:History",
        "MLflow": "training.trackers:MLflow",
        "Record": "history:Record",
        "TensorBoard": "training.tensorboard:TensorBoard",
        "Totals": "engines.base:Totals",
        "TrainConfig": "config:TrainConfig",
        "Trainer": "training.trainer:Trainer",
        "WandB": "training.trackers:WandB",
    },
)


def __getattr__(name: str) -> Any:
    if name == "TrainingEngine":
        warnings.warn("training.TrainingEngine is now training.Engine.", DeprecationWarning, stacklevel=2)
        return _load("Engine")
    return _load(name)
