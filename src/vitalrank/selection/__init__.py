"""The best model for a log within a time budget: models, samplers and settings searched together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitalrank._util.lazy import lazy_names

if TYPE_CHECKING:
    from vitalrank.selection.results import Best, RankedModel
    from vitalrank.selection.running import best

__all__ = ["Best", "RankedModel", "best"]

# Loaded on first use: Optuna is needed by the search alone.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Best": "selection.results:Best",
        "RankedModel": "selection.results:RankedModel",
        "best": "selection.running:best",
    },
)
