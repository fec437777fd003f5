"""From numbers to places on a chart, and round numbers to write beside them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """A straight or logarithmic way from values ``low..high`` to places ``start..stop``."""

    low: float
    high: float
    start: float
    stop: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high = self._of(self.low), self._of(self.high)
        share = 0.5 if high == low else (self._of(value) - low) / (high - low)
        return round(self.start + share * (self.stop - self.start), 1)

    def inside(self, value: float) -> float:
        """The value, or the end of the scale that it lies beyond."""
        return min(max(value, self.low), self.high)

    def ticks(self, count: int = 5) -> list[float]:
        """Round values inside."""
        found = log_ticks(self.low, self.high) if self.log else ticks(self.low, self.high, count)
        return [value for value in found if self.low <= value <= self.high]

    def _of(self, value: float) -> float:
        return math.log10(max(value, 1e-12)) if self.log else value


def scale_for(values: Sequence[float], start: float, stop: float, log: bool = False, zero: bool = False) -> Scale:
    """A scale that holds all values, with a small margin; ``zero`` begins at 0.

    Examples
    --------
    >>> scale_for([1.0, 10.0], 0, 100, zero=True)(5.25)
    50.0
    """
    if log:
        found = [value for value in values if value > 0] or [1.0]
        low, high = min(found) / 1.15, max(found) * 1.15
        return Scale(low, high, start, stop, log=True)
    low, high = min(values, default=0.0), max(values, default=1.0)
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 0.5
    if zero:
        return Scale(0.0, 1.05 * high or 1.0, start, stop)
    return Scale(low - margin, high + margin, start, stop)


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """About ``count`` round values from ``low`` to ``high``.

    Examples
    --------
    >>> ticks(0.0, 0.23)
    [0.0, 0.05, 0.1, 0.15, 0.2]
    """
    if not high > low:
        return [low]
    raw = (high - low) / count
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(size * unit for size in (1, 2, 5, 10) if size * unit >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [float(f"{number * step:.12g}") for number in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten, with 2 and 5 times them where there is space.

    Examples
    --------
    >>> log_ticks(0.5, 30)
    [0.5, 1.0, 2.0, 5.0, 10.0, 20.0]
    """
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    times = (1, 2, 5) if math.log10(high / low) <= 2 else (1,)
    found = [float(f"{size * 10.0**decade:.6g}") for decade in decades for size in times]
    return [value for value in found if low <= value <= high]


def short(value: float) -> str:
    """A number in as few characters as it needs.

    Examples
    --------
    >>> [short(value) for value in (0.0, 0.05, 1500.0, 0.12345, 12.0)]
    ['0', '0.05', '1,500', '0.123', '12']
    """
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"
