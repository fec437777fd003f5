"""The inner product of two rows of float32 tables."""

from __future__ import annotations

from typing import Any

import numpy as np

from vitalrank.kernels.compiling import FAST, LEAN, njit


@njit(inline="always", cache=True, fastmath=FAST, **LEAN)
def dot(left: Any, row: Any, right: Any, other: Any) -> Any:
    """Inner product of ``left[row]`` and ``right[other]``."""
    total = np.float32(0.0)
    for f in range(left.shape[1]):
        total += left[row, f] * right[other, f]
    return total
