"""What the file of a finished run may hold: all that tables and the page rely on, checked once after reading."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

Check = Callable[[Any], bool]
_LARGEST = 1e300  # of a number: sums of a few stay finite


def _is_text(value: object) -> bool:
    """Text that a file can hold: JSON can name lone surrogates, which UTF-8 has no bytes for."""
    return isinstance(value, str) and not any("\ud800" <= character <= "\udfff" for character in value)


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63


def _is_number(value: object) -> bool:
    return (_is_whole(value) or isinstance(value, float)) and math.isfinite(value) and abs(value) < _LARGEST


def _optional(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _list(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(check, value))


def _table(check: Check) -> Check:
    return lambda value: isinstance(value, dict) and all(map(_is_text, value)) and all(map(check, value.values()))


def _fields(required: Mapping[str, Check], optional: Mapping[str, Check], others: Check | None = None) -> Check:
    """An object with these fields; further ones pass ``others``, or are not looked at."""

    def check(value: object) -> bool:
        if not isinstance(value, dict) or not required.keys() <= value.keys():
            return False
        known = {**required, **optional}
        return all(known.get(name, others or (lambda _: True))(one) for name, one in value.items())

    return check


def _is_projection(value: object) -> bool:
    """Columns of one length; norms came later than the others."""
    columns = {
        "items": _list(_is_text), "degree": _list(_is_whole), "degree_class": _list(lambda one: one in (0, 1, 2)),
        "points": _list(lambda one: len(one) == 2 and all(map(_is_number, one)) if isinstance(one, list) else False),
    }  # fmt: skip
    norm = {"norm": _list(_is_number)}
    if not isinstance(value, dict) or not _fields({"method": _is_text, **columns}, norm)(value):
        return False
    return len({len(value[name]) for name in (*columns, *norm) if name in value}) == 1


_QUARTILES = _table(_optional(_is_number))
_EXPOSURE = _fields(dict.fromkeys(("head", "middle", "tail"), _is_number), {}, _optional(_is_number))
_INSPECTION = _fields(
    {},
    {
        "exposure": _EXPOSURE, "clustering": _optional(_fields({"score": _is_number}, {})),
        "norm_correlation": _optional(_is_number), "vanished": _optional(_is_number), "advice": _list(_is_text),
    },
)  # fmt: skip
_RECORD = _fields({"epoch": _is_whole}, {"imbalance": _QUARTILES, "lr": _is_number}, _optional(_is_number))
_SCHEMA: Mapping[str, tuple[Check, str]] = {
    "label": (_is_text, "text"),
    "model": (_is_text, "text"),
    "sampler": (_optional(_is_text), "text or null"),
    "seed": (_is_whole, "a whole number"),
    "metrics": (_table(_is_number), "an object of numbers"),
    "bands": (_table(_is_number), "an object of numbers"),
    "records": (_list(_RECORD), "a list of epochs with numbers"),
    "best_epoch": (_optional(_is_whole), "a whole number or null"),
    "seconds": (lambda value: _is_number(value) and value >= 0, "a number"),
    "inspection": (_INSPECTION, "an inspection"),
    "projection": (_optional(_is_projection), "a projection or null"),
    "training": (_optional(lambda value: isinstance(value, dict)), "an object or null"),
}


_FLOATS = (np.float64, np.float32)  # a study keeps the narrower ones


def check_outcome(plain: Mapping[str, Any], per_user: NDArray[Any]) -> None:
    """Raise ValueError if a field is not what it should be; which may be missing is not said here.

    Examples
    --------
    >>> check_outcome({"seed": "one"}, np.zeros(3))
    Traceback (most recent call last):
    ...
    ValueError: seed is not a whole number
    """
    for name, (check, meaning) in _SCHEMA.items():
        if name in plain and not check(plain[name]):
            raise ValueError(f"{name} is not {meaning}")
    if (
        per_user.ndim != 1
        or per_user.dtype not in _FLOATS
        or not bool((np.abs(per_user, dtype=np.float64) < _LARGEST).all())
    ):
        raise ValueError("per_user is not one finite float64 or float32 number per user")
