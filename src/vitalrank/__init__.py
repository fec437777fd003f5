"""Personalized ranking from implicit feedback, trained on the negatives that still teach the model something."""

# Public names are loaded on first use, so that ``import vitalrank`` costs next to nothing. ``__init__.pyi`` holds their
# types; tests/test_registry.py keeps both alike.

from vitalrank._util.lazy import lazy_names
from vitalrank.registry import PUBLIC

__version__ = "0.1.0"

_MODULES = (
    "analysis", "comparing", "datasets", "distributed", "errors", "losses", "metrics", "mining", "models", "registry",
    "report", "samplers", "selection", "serving", "training", "tuning",
)  # fmt: skip
_NAMES = {
    **PUBLIC,
    **{name: name for name in _MODULES},
    "Interactions": "interactions:Interactions",
    "Prepared": "prepared:Prepared",
    "prepare_log": "preparing:prepare_log",
    "read": "readers:read",
    "split_like": "interactions:split_like",
    "evaluate": "evaluation:evaluate",
    "compare": "comparing:compare",
    "significance": "evaluation:significance",
    "load": "models:load",
    "mine": "mining:mine",
    "best": "selection.running:best",
    "tune": "tuning.running:tune",
    "TrainConfig": "config:TrainConfig",
    "Trainer": "training.trainer:Trainer",
    "History": "history:History",
    "Sampler": "samplers:Sampler",
    "Draw": "samplers:Draw",
    "VitalrankError": "errors:VitalrankError",
    "DataError": "errors:DataError",
    "SettingError": "errors:SettingError",
    "StorageError": "errors:StorageError",
    "TrainingError": "errors:TrainingError",
    "UnknownIdError": "errors:UnknownIdError",
    "GroupError": "errors:GroupError",
}

__all__ = ["__version__", *sorted(_NAMES)]
__getattr__, __dir__ = lazy_names(__name__, _NAMES)
