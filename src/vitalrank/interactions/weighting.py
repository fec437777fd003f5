"""The weights of rows, and what becomes of repeated pairs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vitalrank._util.checks import check_choice
from vitalrank.errors import DataError
from vitalrank.interactions.encoding import to_floats

REPEATS = {
    "first": "the first of each pair kept",
    "last": "the last of each pair kept",
    "sum": "the last of each pair kept, with the sum of the weights",
    "count": "the last of each pair kept, weighted by the number of its rows",
}
WEIGHT_HELP = "weights must be finite numbers >= 0; mend or drop these rows."
_LARGEST = float(np.finfo(np.float32).max)


def check_repeats(repeats: str, allowed: Iterable[str]) -> None:
    """Refuse what is no way to treat repeated pairs."""
    check_choice("repeats", repeats, tuple(allowed))


def as_weights(values: ArrayLike) -> NDArray[np.float32]:
    """Weights as float32; `DataError` names the first that is negative, infinite or NaN.

    Examples
    --------
    >>> as_weights([1, 0.5])
    array([1. , 0.5], dtype=float32)
    """
    numbers = to_floats(values, "weights")
    bad = bad_weight(numbers)
    if bad is not None:
        raise DataError(f"weights: row {bad} is {numbers[bad]}; {WEIGHT_HELP}")
    return numbers.astype(np.float32)


def as_summed(sums: NDArray[np.float64]) -> NDArray[np.float32]:
    """Sums of weights as float32; `DataError` if one is too large for that."""
    if sums.max(initial=0.0) > _LARGEST:
        raise DataError("The weights of a repeated pair add up to more than 3.4e38; divide all weights by a number.")
    return sums.astype(np.float32)


def bad_weight(numbers: NDArray[Any]) -> int | None:
    """The first row that is no weight, if any."""
    if not len(numbers) or (numbers.min() >= 0 and numbers.max() <= _LARGEST):
        return None
    return int(np.argmax(~((numbers >= 0) & (numbers <= _LARGEST))))


def check_weights(weights: NDArray[np.float32]) -> None:
    """Refuse weights by which nothing would be trained."""
    if not weights.any():
        raise DataError("All weights are 0, so nothing would be learned; give one above 0, or no weights.")
