"""Search for good settings on a validation part: spaces, studies that can be stopped and shared, results."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vitalrank.tuning.results import Settings, Trial, Tuned
    from vitalrank.tuning.running import tune
    from vitalrank.tuning.spaces import Choice, Range, named_space

# Loaded on first use: Optuna is needed by the search alone.
_HOMES = {
    "Choice": "spaces",
    "Range": "spaces",
    "Settings": "results",
    "Trial": "results",
    "Tuned": "results",
    "named_space": "spaces",
    "tune": "running",
}

__all__ = ["Choice", "Range", "Settings", "Trial", "Tuned", "named_space", "tune"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'vitalrank.tuning' has no attribute {name!r}")
    return getattr(import_module(f"vitalrank.tuning.{_HOMES[name]}"), name)
