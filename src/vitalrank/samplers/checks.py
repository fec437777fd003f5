"""Checks of settings that several samplers share."""

from __future__ import annotations

import math
from typing import Any

from vitalrank.errors import SettingError


def check_beta(beta: float) -> None:
    """The decay of the degree."""
    if not (isinstance(beta, (int, float)) and 0.0 <= beta <= 1.0):
        raise SettingError(f"beta is {beta!r}; it must be from 0 (uniform) to 1 (by degree).")


def check_count(name: str, value: int | None) -> None:
    """A number of candidates, shots, steps."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise SettingError(f"{name} is {value!r}; it must be a whole number of at least 1.")


def check_positive(name: str, value: float) -> None:
    """A ratio, a temperature."""
    if not (isinstance(value, (int, float)) and math.isfinite(value) and value > 0):
        raise SettingError(f"{name} is {value!r}; it must be a number above 0.")


def check_number(name: str, value: float) -> None:
    """A margin."""
    if not (isinstance(value, (int, float)) and math.isfinite(value)):
        raise SettingError(f"{name} is {value!r}; it must be a number.")


def check_whole(name: str, value: Any, least: int, limit: int) -> None:
    """A seed, a step, a number of threads; NumPy's whole numbers count as such."""
    if not (hasattr(value, "__index__") and least <= value < limit):
        raise SettingError(f"{name} is {value!r}; it must be a whole number from {least} to {limit - 1}.")
