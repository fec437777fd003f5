"""Checks of settings that models, samplers and studies share."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import fields
from numbers import Integral, Real
from operator import index
from typing import Any

from vitalrank.errors import SettingError

_METRIC = re.compile(r"(?P<name>[^@]+)@(?P<length>[1-9][0-9]*)")
MOST = 2**31 - 1  # of anything that is counted
MOST_SEED = 2**64 - 1


def check_beta(beta: float) -> None:
    """The decay of the degree."""
    if not (is_number(beta) and 0.0 <= beta <= 1.0):
        raise SettingError(f"beta is {beta!r}; it must be from 0 (uniform) to 1 (by degree).")


def check_count(name: str, value: Any, least: int = 1, most: int = MOST) -> None:
    """A number of candidates, shots, steps."""
    if not is_count(value, least):
        raise SettingError(f"{name} is {value!r}; it must be a whole number of at least {least}.")
    if value > most:
        raise SettingError(f"{name} is {value!r}; it must be at most {most}.")


def check_positive(name: str, value: float) -> None:
    """A ratio, a temperature."""
    if not (is_number(value) and value > 0):
        raise SettingError(f"{name} is {value!r}; it must be a number above 0.")


def check_number(name: str, value: float, least: float = -math.inf) -> None:
    """A margin, or a weight that is at least 0."""
    if not (is_number(value) and value >= least):
        bound = "" if least == -math.inf else f" of at least {least:g}"
        raise SettingError(f"{name} is {value!r}; it must be a number{bound}.")


def check_bool(name: str, value: bool) -> None:
    """A switch; a word such as "no" would count as true."""
    if not isinstance(value, bool):
        raise SettingError(f"{name} is {value!r}; it must be True or False.")


def check_choice(name: str, value: str, choices: Iterable[str]) -> None:
    """One of some words."""
    known = tuple(choices)  # in a dict a list could not be looked for
    if value not in known:
        raise SettingError(f"unknown {name} {value!r}; choose one of {', '.join(known)}.")


def whole_below(name: str, value: Any, least: int, limit: int) -> int:
    """A seed, a step, a number of threads as Python's own number; NumPy's and torch's whole numbers count as such."""
    with suppress(TypeError):  # what is no whole number has no index
        number = index(value)
        if least <= number < limit:
            return number
    raise SettingError(f"{name} is {value!r}; it must be a whole number from {least} to {limit - 1}.")


def is_tensor(value: Any) -> bool:
    """Whether it is one of torch's, which is not loaded to find out: nobody has a tensor without it."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def whole(name: str, value: Any, least: int = 1, most: int = MOST) -> int:
    """A checked count as Python's own number.

    Examples
    --------
    >>> whole("dim", 2.7)
    Traceback (most recent call last):
    ...
    vitalrank.errors.SettingError: dim is 2.7; it must be a whole number of at least 1.
    """
    check_count(name, value, least, most)
    return int(value)


def real(name: str, value: Any, least: float = -math.inf) -> float:
    """A checked number as Python's own.

    Examples
    --------
    >>> real("shrinkage", 10, least=0)
    10.0
    """
    check_number(name, value, least)
    return float(value)


def own(value: Any) -> Any:
    """A number of NumPy as Python's own, which JSON holds and ``repr`` tells plainly; anything else as it is.

    Examples
    --------
    >>> import numpy as np
    >>> own(np.int64(8)), own(np.float32(0.5)), own("log2")
    (8, 0.5, 'log2')
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        return value
    return int(value) if isinstance(value, Integral) else float(value)


def to_builtin_scalars(settings: Any) -> None:
    """The same for every field of a frozen dataclass, in its ``__post_init__``."""
    for field in fields(settings):
        object.__setattr__(settings, field.name, own(getattr(settings, field.name)))


def parts_of(metric: str) -> tuple[str, int]:
    """The name and the list length of a metric.

    Examples
    --------
    >>> parts_of("recall@20")
    ('recall', 20)
    >>> parts_of("ndcg")
    Traceback (most recent call last):
    ...
    vitalrank.errors.SettingError: metric 'ndcg' is not a name and a length; write it like 'ndcg@10'.
    """
    found = _METRIC.fullmatch(str(metric))
    if found is None:
        raise SettingError(f"metric {metric!r} is not a name and a length; write it like 'ndcg@10'.")
    return found["name"], int(found["length"])


def is_count(value: Any, least: int = 1) -> bool:
    """Whether it is a whole number, Python's or NumPy's, of at least so much; True and False are none."""
    return not isinstance(value, bool) and isinstance(value, Integral) and int(value) >= least


def is_number(value: Any) -> bool:
    """Whether it is a finite number, Python's or NumPy's; True and False are none."""
    return not isinstance(value, bool) and isinstance(value, Real) and math.isfinite(value)
