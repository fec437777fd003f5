"""A part of many users or items, drawn at random."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.checks import MOST_SEED, to_int


def some(count: int, sample: int | None, seed: int) -> NDArray[np.int64]:
    """At most ``sample`` of the numbers below ``count``, in order; None is all of them.

    Examples
    --------
    >>> some(3, 5, seed=0).tolist(), len(some(1000, 5, seed=0))
    ([0, 1, 2], 5)
    """
    rng = np.random.default_rng(to_int("seed", seed, least=0, most=MOST_SEED))
    if sample is None or to_int("sample", sample) >= count:
        return np.arange(count)
    return np.sort(rng.choice(count, sample, replace=False))
