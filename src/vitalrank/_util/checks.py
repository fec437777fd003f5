"""Validation of settings, shared by models, samplers and studies."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import fields
from numbers import Integral, Real
from operator import index
from typing import TYPE_CHECKING, Any, TypeGuard

from vitalrank.errors import SettingError

if TYPE_CHECKING:
    import torch
    from _typeshed import DataclassInstance

_SHARD = re.compile(r"([0-9]{1,9})/([0-9]{1,9})")
_METRIC = re.compile(r"(?P<name>[^@]+)@(?P<length>[1-9][0-9]*)")
MOST = 2**31 - 1  # of anything that is counted
MOST_CANDIDATES = 2**24  # of which each has a weight or a probability in memory
MOST_SEED = 2**64 - 1


def check_beta(beta: float) -> None:
    """The exponent of the degree."""
    if not (is_number(beta) and 0.0 <= beta <= 1.0):
        raise SettingError(f"beta is {beta!r}; it must be from 0 (uniform) to 1 (by degree).")


def check_count(name: str, value: object, least: int = 1, most: int = MOST) -> None:
    """A number of candidates, shots, steps."""
    if not is_count(value, least):
        raise SettingError(f"{name} is {value!r}; it must be a whole number of at least {least}.")
    if value > most:
        raise SettingError(f"{name} is {value!r}; it must be at most {most}.")


def check_positive(name: str, value: float) -> None:
    """A ratio, a temperature."""
    if not (is_number(value) and value > 0):
        raise SettingError(f"{name} is {value!r}; it must be a number above 0.")


def check_number(name: str, value: object, least: float = -math.inf) -> None:
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


def to_int_below(name: str, value: object, least: int, limit: int) -> int:
    """An integer from ``least`` to below ``limit`` as a Python int; those of NumPy and torch are accepted."""
    with suppress(TypeError):  # only integers have an index
        number = index(value)  # type: ignore[arg-type]
        if least <= number < limit:
            return number
    raise SettingError(f"{name} is {value!r}; it must be a whole number from {least} to {limit - 1}.")


def is_tensor(value: object) -> TypeGuard[torch.Tensor]:
    """Whether it is a torch tensor; torch is not imported for this, since a tensor exists only where it is."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def to_int(name: str, value: object, least: int = 1, most: int = MOST) -> int:
    """A checked count as a Python int.

    Examples
    --------
    >>> to_int("dim", 2.7)
    Traceback (most recent call last):
    ...
    vitalrank.errors.SettingError: dim is 2.7; it must be a whole number of at least 1.
    """
    check_count(name, value, least, most)
    return int(value)  # type: ignore[call-overload, no-any-return]


def to_float(name: str, value: object, least: float = -math.inf) -> float:
    """A checked number as a Python float.

    Examples
    --------
    >>> to_float("shrinkage", 10, least=0)
    10.0
    """
    check_number(name, value, least)
    return float(value)  # type: ignore[arg-type]


def to_builtin_scalar(value: object) -> Any:
    """A NumPy scalar as a Python one, which JSON can hold and ``repr`` shows plainly; anything else unchanged.

    Examples
    --------
    >>> import numpy as np
    >>> to_builtin_scalar(np.int64(8)), to_builtin_scalar(np.float32(0.5)), to_builtin_scalar("log2")
    (8, 0.5, 'log2')
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        return value
    return int(value) if isinstance(value, Integral) else float(value)


def to_builtin_scalars(settings: DataclassInstance) -> None:
    """Convert every field of a frozen dataclass, in its ``__post_init__``."""
    for field in fields(settings):
        object.__setattr__(settings, field.name, to_builtin_scalar(getattr(settings, field.name)))


def parse_metric(metric: str) -> tuple[str, int]:
    """The name and the list length of a metric.

    Examples
    --------
    >>> parse_metric("recall@20")
    ('recall', 20)
    >>> parse_metric("ndcg")
    Traceback (most recent call last):
    ...
    vitalrank.errors.SettingError: metric 'ndcg' is not a name and a length; write it like 'ndcg@10'.
    """
    found = _METRIC.fullmatch(str(metric))
    if found is None:
        raise SettingError(f"metric {metric!r} is not a name and a length; write it like 'ndcg@10'.")
    return found["name"], int(found["length"])


def is_count(value: object, least: int = 1) -> TypeGuard[int]:
    """Whether it is an integer, of Python or NumPy, of at least ``least``; bools are not."""
    return not isinstance(value, bool) and isinstance(value, Integral) and int(value) >= least


def is_number(value: object) -> TypeGuard[float]:
    """Whether it is a finite number, of Python or NumPy; bools are not."""
    return not isinstance(value, bool) and isinstance(value, Real) and math.isfinite(value)


def parse_shard(shard: object) -> tuple[int, int]:
    """``"3/16"``, the third of sixteen, as numbers.

    Examples
    --------
    >>> parse_shard("3/16")
    (3, 16)
    """
    found = _SHARD.fullmatch(shard) if isinstance(shard, str) else None
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise SettingError(f"shard {shard!r:.80} is not I/N with I from 1 to N, such as 1/8.")
    return int(found[1]), int(found[2])
