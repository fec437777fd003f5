"""Fuzzing: bad input of every kind ends in a VitalrankError or in a valid result, never in anything else.

Every module here whose name has no underscore in front is an area: ``case(rng)`` makes one bad input from a
``random.Random`` and runs it; it may raise nothing but a ``VitalrankError``. ``python -m tests.fuzz`` runs them.
"""

from __future__ import annotations

import os
import pkgutil
from collections.abc import Callable
from importlib import import_module
from random import Random

Case = Callable[[Random], None]
PATIENCE = float(os.environ.get("FUZZ_PATIENCE", "300"))  # seconds of wall time for one case, compiling included


def areas() -> list[str]:
    """Names of the areas."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))


def case_of(area: str) -> Case:
    """What runs one case of an area."""
    case: Case = import_module(f"{__name__}.{area}").case
    return case
