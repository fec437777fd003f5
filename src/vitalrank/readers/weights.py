"""The weight column of a file: finite numbers from 0 on."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vitalrank._util.display import quoted
from vitalrank.interactions.encoding import numbers_of
from vitalrank.interactions.weighting import bad_weight
from vitalrank.readers.lines import SlowPathNeeded


def read_weights(column: pa.Array) -> NDArray[np.float64]:
    """Numbers of a whole column; `SlowPathNeeded` when any value is no weight."""
    if pa.types.is_temporal(column.type):
        raise SlowPathNeeded
    try:
        numbers: NDArray[np.float64] = numbers_of(column.cast(pa.float64(), safe=False))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise SlowPathNeeded from None
    if column.null_count or bad_weight(numbers) is not None:
        raise SlowPathNeeded
    return numbers


def read_weight(value: object) -> float:
    """One value as a number; ValueError says what is wrong with it.

    Examples
    --------
    >>> read_weight("4.5")
    4.5
    """
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise ValueError(f"weight {quoted(value)} is no number") from None
    if bad_weight(np.array([number])) is not None:
        raise ValueError(f"weight {quoted(value)} is not a finite number >= 0")
    return number
