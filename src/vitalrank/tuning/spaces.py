"""Search spaces as data: the paper's grid, wider ranges, and how they are written as text."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vitalrank import registry
from vitalrank._util.checks import to_builtin_scalar, to_builtin_scalars
from vitalrank.errors import SettingError


@dataclass(frozen=True)
class Range:
    """Every value from ``low`` to ``high``; whole numbers where the setting is one.

    Examples
    --------
    >>> Range(1e-4, 0.2, log=True)
    Range(low=0.0001, high=0.2, log=True)
    """

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        to_builtin_scalars(self)
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise SettingError(f"{self.low!r}..{self.high!r} is not a range; give two numbers, the lower one first.")
        if self.log and self.low <= 0:
            raise SettingError(f"{self.low!r}..{self.high!r}:log begins at or below 0; give a lower end above 0.")

    def __contains__(self, value: object) -> bool:
        return isinstance(value, (int, float)) and self.low <= value <= self.high

    def __str__(self) -> str:
        return f"{self.low!r}..{self.high!r}{':log' if self.log else ''}"


@dataclass(frozen=True)
class Choice:
    """One of these values.

    Examples
    --------
    >>> Choice((16, 64, 128))
    Choice(values=(16, 64, 128))
    """

    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(map(to_builtin_scalar, self.values)))
        if not self.values or any(isinstance(value, (list, tuple, dict)) for value in self.values):
            raise SettingError(f"{self.values!r} is not a choice; give at least one number or word.")
        if len(set(map(repr, self.values))) < len(self.values):
            raise SettingError(f"{self!s} names a value twice; give each once.")

    def __contains__(self, value: object) -> bool:
        return value in self.values

    def __str__(self) -> str:
        return ",".join(text_of(value) for value in self.values)


Dimension = Range | Choice
Space = Mapping[str, Dimension]

# The paper's Section 6.1.4: what it searches for every model, and for each sampler. Where it names a value and no
# search (LFM-D's 20 candidates, PRIS, IRGAN), nothing is searched.
_PAPER_ALL: Space = {"dim": Choice((16, 64, 128)), "reg": Choice((0.0005, 0.001, 0.005, 0.01))}
_BETA, _MARGIN, _RHO = Choice((0.25, 0.5, 0.75, 1.0)), Choice((1.0, 2.0, 3.0, 4.0)), Choice((0.01, 0.05, 0.1, 0.5))
_PAPER: Mapping[str, Space] = {
    "pop": {"beta": _BETA},
    "aobpr": {"rho": _RHO},
    "cml": {"candidates": Choice((10, 20))},
    "sa": {"candidates": Choice((64, 128, 256))},
    "dns": {"candidates": Choice((10, 20))},
    "lfm-d": {"rho": _RHO},
    "lfm-w": {"margin": _MARGIN},
    "vins": {"beta": _BETA, "kappa": Choice((64, 128)), "margin": _MARGIN},
}

_WIDE_ALL: Space = {"dim": Choice((16, 32, 64, 128)), "reg": Range(1e-4, 0.3, log=True), "lr": Range(5e-4, 0.02, True)}
# What is searched with every model that has a sampler.
SPACES: Mapping[str, Space] = {"paper": _PAPER_ALL, "wide": _WIDE_ALL}


def named_space(name: str, model: str, sampler: str | None) -> dict[str, Dimension]:
    """The space of that name for a model and a sampler, by their names in the registries.

    Examples
    --------
    >>> named_space("paper", "mf", "dns")["candidates"]
    Choice(values=(10, 20))
    """
    if name not in SPACES:
        raise SettingError(f"unknown space {name!r}; choose one of {', '.join(SPACES)}, or give ranges.")
    entry = registry.MODELS.get(model)
    if entry is not None and entry.search is not None:  # a model without a sampler: both spaces are the same
        return _registered(entry.search)
    if name == "paper":
        return {**_PAPER_ALL, **_PAPER.get(sampler or "", {})}
    entry = registry.SAMPLERS.get(sampler or "")
    return {**_WIDE_ALL, **_registered({} if entry is None or entry.search is None else entry.search)}


def _registered(search: Mapping[str, registry.SearchValues]) -> dict[str, Dimension]:
    return {setting: parse_dimension(values) for setting, values in search.items()}


def including(dimension: Dimension, value: Any) -> Dimension:
    """The dimension, widened to contain a value.

    Examples
    --------
    >>> including(Choice((16, 128)), 64), including(Range(0.1, 1.0), 2.0)
    (Choice(values=(16, 64, 128)), Range(low=0.1, high=2.0, log=False))
    >>> including(Range(0.01, 1.0, log=True), 0.0)  # no logarithmic range begins at 0
    Choice(values=(0.0, 0.01, 0.0316, 0.1, 0.316, 1.0))
    """
    if value in dimension:
        return dimension
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if isinstance(dimension, Range):
        if is_number and (value > 0 or not dimension.log):
            return Range(min(dimension.low, value), max(dimension.high, value), dimension.log)
        between = (value_from_share(dimension, number / _SPACED) for number in range(1, _SPACED))
        dimension = Choice(tuple(dict.fromkeys((dimension.low, *between, dimension.high))))
    values = (value, *dimension.values)
    return Choice(tuple(sorted(values)) if is_number and not any(isinstance(v, str) for v in values) else values)


def value_from_share(dimension: Dimension, share: float) -> object:
    """The value that lies at this share of a dimension; real ones with three digits.

    Examples
    --------
    >>> value_from_share(Range(1, 64, log=True), 0.5), value_from_share(Choice(("a", "b")), 0.5)
    (8, 'b')
    """
    if isinstance(dimension, Choice):
        return dimension.values[min(int(share * len(dimension.values)), len(dimension.values) - 1)]
    low, high = dimension.low, dimension.high
    value = low * (high / low) ** share if dimension.log else low + (high - low) * share
    if isinstance(low, int) and isinstance(high, int):
        return round(value)
    return min(max(float(f"{value:.3g}"), low), high) if value else 0.0


def share_of(dimension: Dimension, value: Any) -> float:
    """The share of a dimension at which a value lies.

    Examples
    --------
    >>> share_of(Range(1, 64, log=True), 8), share_of(Choice(("a", "b")), "b")
    (0.5, 0.75)
    """
    if isinstance(dimension, Choice):
        return (dimension.values.index(value) + 0.5) / len(dimension.values)
    low, high = dimension.low, dimension.high
    return math.log(value / low) / math.log(high / low) if dimension.log else (value - low) / (high - low)


_SPACED = 4
_ENDS = re.compile(r"(?P<low>[^:,]+?)\.\.(?P<high>[^:,]+?)(?P<log>:log)?")


def parse_dimension(value: str | Sequence[Any] | Dimension) -> Dimension:
    """A dimension from its text: ``"0..1"``, ``"1e-4..0.2:log"``, ``"16,32,64"`` or a list.

    Examples
    --------
    >>> parse_dimension("1e-4..0.2:log")
    Range(low=0.0001, high=0.2, log=True)
    >>> parse_dimension("16,32,64"), parse_dimension([16, 32])
    (Choice(values=(16, 32, 64)), Choice(values=(16, 32)))
    """
    if isinstance(value, (Range, Choice)):
        return value
    if not isinstance(value, str):
        return Choice(tuple(value))
    ends = _ENDS.fullmatch(value.strip())
    if ends is None:
        return Choice(tuple(parse_value(part) for part in value.split(",") if part.strip()))
    low, high = parse_value(ends["low"]), parse_value(ends["high"])
    if not all(isinstance(end, (int, float)) and not isinstance(end, bool) for end in (low, high)):
        raise SettingError(f"{value!r} is not a range; write it like 0..1, 1e-4..0.2:log or 16,32,64.")
    return Range(low, high, ends["log"] is not None)


def parse_value(text: str) -> Any:
    """A number, true, false, none, or the word itself.

    Examples
    --------
    >>> parse_value("8"), parse_value("none"), parse_value("log2")
    (8, None, 'log2')
    """
    lowered = text.strip().lower()
    if lowered == "none":
        return None
    try:
        return json.loads(lowered)
    except (ValueError, RecursionError):  # a word, or a number or nesting too long to be one
        return text.strip()


def text_of(value: object) -> str:
    """A value as :func:`parse_value` reads it.

    Examples
    --------
    >>> text_of(None), text_of(True), text_of(0.5), text_of("log2")
    ('none', 'true', '0.5', 'log2')
    """
    if value is None:
        return "none"
    return value if isinstance(value, str) else json.dumps(value)
