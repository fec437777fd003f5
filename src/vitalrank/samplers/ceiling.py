"""The guard of hard samplers against false negatives: a ceiling on a negative's score, relative to its positive's."""

from __future__ import annotations

import math

import numpy as np

from vitalrank._util.checks import is_number
from vitalrank._util.typing import DeviceArray
from vitalrank.errors import SettingError
from vitalrank.samplers.backends import ArrayBackend

Ceiling = float | str | None


def offsets(ceiling: Ceiling) -> tuple[float, float]:
    """The ceiling over a positive of score s as ``s + first + second * |s|``.

    Examples
    --------
    >>> offsets(0.5), offsets("10%"), offsets(None)
    ((0.5, 0.0), (0.0, 0.1), (inf, 0.0))
    """
    if ceiling is None:
        return math.inf, 0.0
    if isinstance(ceiling, str) and ceiling.endswith("%"):
        try:
            share = float(ceiling[:-1]) / 100
        except ValueError:
            share = math.nan
        if math.isfinite(share):
            return 0.0, share
    elif is_number(ceiling):
        return float(ceiling), 0.0
    raise SettingError(
        f"ceiling is {ceiling!r}; it must be a number, by which a negative may outscore its positive, a share of the "
        "positive's score such as '10%', or None."
    )


def score_limits(ceiling: Ceiling, positive_scores: DeviceArray) -> DeviceArray:
    """The highest score that a negative may have."""  # of the shape of the scores
    above, share = offsets(ceiling)
    result: DeviceArray = positive_scores + above + share * abs(positive_scores)
    return result


def drop_above(
    backend: ArrayBackend, limits: DeviceArray, ids: DeviceArray, scores: DeviceArray
) -> tuple[DeviceArray, DeviceArray]:
    """Candidates (B, k, C) and their scores, without those above the limit (B, 1) of their row.

    The lowest candidate that is left fills the places of those that are not, so a pool keeps its size and a rank
    past its end is the lowest. A pool of which none is left has id -1 throughout.
    """
    xp = backend.xp
    kept = scores <= limits[:, :, None]
    lowest = xp.where(kept, scores, math.inf).argmin(2)[:, :, None]
    some = kept.any(2)[:, :, None]
    fill = xp.where(some, backend.take_along_last(ids, lowest), -1)
    fill_score = xp.where(some, backend.take_along_last(scores, lowest), -math.inf)
    return xp.where(kept, ids, fill), backend.cast(xp.where(kept, scores, fill_score), np.float32)
