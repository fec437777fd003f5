"""Training: settings, the trainer, what happened in each epoch, and runs that can be resumed exactly."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vitalrank.config import TrainConfig
    from vitalrank.engines.base import Engine, Totals
    from vitalrank.history import History, Record
    from vitalrank.training.tensorboard import TensorBoard
    from vitalrank.training.trainer import Callback, Trainer

# Loaded on first use: the command line reads the settings alone, and starts the sooner for it.
_HOMES = {
    "Callback": "training.trainer",
    "Engine": "engines.base",
    "History": "history",
    "Record": "history",
    "TensorBoard": "training.tensorboard",
    "Totals": "engines.base",
    "TrainConfig": "config",
    "Trainer": "training.trainer",
}

__all__ = ["Callback", "Engine", "History", "Record", "TensorBoard", "Totals", "TrainConfig", "Trainer"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'vitalrank.training' has no attribute {name!r}")
    return getattr(import_module(f"vitalrank.{_HOMES[name]}"), name)
