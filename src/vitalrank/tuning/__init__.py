"""Search for good settings on a validation set: spaces, studies that can be stopped and shared, results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitalrank._util.lazy import lazy_names

if TYPE_CHECKING:
    from vitalrank.tuning.results import Finalist, Settings, Trial, Tuned
    from vitalrank.tuning.running import tune
    from vitalrank.tuning.spaces import Choice, Range, named_space

__all__ = ["Choice", "Finalist", "Range", "Settings", "Trial", "Tuned", "named_space", "tune"]

# Loaded on first use: Optuna is needed by the search alone.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Choice": "tuning.spaces:Choice",
        "Finalist": "tuning.results:Finalist",
        "Range": "tuning.spaces:Range",
        "Settings": "tuning.results:Settings",
        "Trial": "tuning.results:Trial",
        "Tuned": "tuning.results:Tuned",
        "named_space": "tuning.spaces:named_space",
        "tune": "tuning.running:tune",
    },
)
