"""Training: settings, the trainer, what happened in each epoch, and runs that can be resumed exactly."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from vitalrank._util.lazy import lazy_names

if TYPE_CHECKING:
    from vitalrank.config import TrainConfig
    from vitalrank.engines.base import Engine, Totals
    from vitalrank.history import History, Record
    from vitalrank.training.tensorboard import TensorBoard
    from vitalrank.training.trainer import Callback, Trainer

__all__ = ["Callback", "Engine", "History", "Record", "TensorBoard", "Totals", "TrainConfig", "Trainer"]

# Loaded on first use: the command line reads the settings alone, and starts the sooner for it.
_load, __dir__ = lazy_names(
    __name__,
    {
        "Callback": "training.trainer:Callback",
        "Engine": "engines.base:Engine",
        "History": "history:History",
        "Record": "history:Record",
        "TensorBoard": "training.tensorboard:TensorBoard",
        "Totals": "engines.base:Totals",
        "TrainConfig": "config:TrainConfig",
        "Trainer": "training.trainer:Trainer",
    },
)


def __getattr__(name: str) -> Any:
    if name == "TrainingEngine":
        warnings.warn("training.TrainingEngine is now training.Engine.", DeprecationWarning, stacklevel=2)
        return _load("Engine")
    return _load(name)
