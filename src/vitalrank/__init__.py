"""Personalized ranking from implicit feedback, trained on the negatives that still teach the model something."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# Public name -> module. Loaded on first use, so that ``import vitalrank`` costs next to nothing.
_HOMES = {
    "Interactions": "interactions",
    "read": "readers",
    "evaluate": "evaluation",
    "compare": "evaluation",
    "significance": "evaluation",
    "MF": "models",
    "FPMC": "models",
    "MARank": "models",
    "CML": "models",
    "IRGAN": "models",
    "TorchRecommender": "models",
    "ItemKNN": "models",
    "MostPopular": "models",
    "load": "models",
    "tune": "tuning",
    "TrainConfig": "config",
    "Trainer": "training",
    "History": "history",
    "AOBPR": "samplers",
    "DNS": "samplers",
    "LFMD": "samplers",
    "LFMW": "samplers",
    "PRIS": "samplers",
    "Popularity": "samplers",
    "SA": "samplers",
    "Uniform": "samplers",
    "VINS": "samplers",
    "Draw": "samplers",
    "VitalrankError": "errors",
    "DataError": "errors",
    "SettingError": "errors",
    "StorageError": "errors",
    "TrainingError": "errors",
    "UnknownIdError": "errors",
}
_MODULES = (
    "analysis",
    "comparing",
    "datasets",
    "errors",
    "losses",
    "metrics",
    "models",
    "report",
    "samplers",
    "serving",
    "training",
    "tuning",
)

__all__ = ["__version__", *sorted(_HOMES), *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(f"vitalrank.{_HOMES[name]}"), name)
    elif name in _MODULES:
        value = import_module(f"vitalrank.{name}")
    else:
        raise AttributeError(f"module 'vitalrank' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
