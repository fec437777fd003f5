"""Samplers that draw a pool and pick, or mix, by score: AHNS and MixGCF."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.checks import check_count, check_number, check_positive, to_builtin_scalars
from vitalrank._util.typing import DeviceArray
from vitalrank.kernels.rng import MIX
from vitalrank.samplers.base import BoundSampler
from vitalrank.samplers.ceiling import Ceiling, offsets
from vitalrank.samplers.draws import Draw, SampleRequest
from vitalrank.samplers.pooled import BoundPool
from vitalrank.samplers.settings import LATER, Sampler


@dataclass(frozen=True, repr=False)
class AHNS(Sampler):
    """Adaptive hardness (AHNS): of a pool the candidate whose score is nearest to ``beta (s_ui + alpha)^(p + 1)``.

    With ``p < -1`` the score that is looked for falls as the positive's rises. A sum ``s_ui + alpha`` below 0 counts
    as 0, and so asks for the hardest candidate.

    Read the plain definition first: ``tests/reference/pooled.py``.

    Parameters
    ----------
    candidates
        Size of the pool, drawn with replacement among the items the user has not seen.
    alpha, beta, p
        Shift of the positive's score, scale and exponent of the score to look for; ``beta`` is above 0.
    ceiling
        A candidate that outscores the positive by more than this is no negative: a number, a share of the positive's
        score (``"10%"``), or None for no ceiling. Where none is left there is no negative.

    References
    ----------
    Lai, Chen, Zhao, Chen and Huang, "Adaptive hardness negative sampling for collaborative filtering", AAAI 2024.

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.Interactions.from_arrays([0, 1, 1, 1], [0, 1, 2, 3])
    >>> table = [[1.0], [0.1], [0.4], [0.9]]  # the score to look for is 1 / (1 + 1)
    >>> vr.AHNS(candidates=32, alpha=1.0, beta=1.0).bind(log, seed=0)([[1.0]], table, [0], [0]).ids.tolist()
    [[2]]
    """

    candidates: int = 32
    alpha: float = 1.0
    beta: float = 0.1
    p: float = -2.0
    ceiling: Ceiling = field(default=None, metadata=LATER)

    def __post_init__(self) -> None:
        to_builtin_scalars(self)
        check_count("candidates", self.candidates)
        check_number("alpha", self.alpha)
        check_positive("beta", self.beta)
        check_number("p", self.p)
        offsets(self.ceiling)

    def rank_probabilities(self) -> NDArray[np.float64]:
        """The nearest, always."""
        return np.ones(1)

    def _bound(self) -> type[BoundSampler]:
        return BoundAdaptivePool


class BoundAdaptivePool(BoundPool):
    """The candidate of a pool whose score is nearest to one that depends on the positive's."""

    settings: AHNS

    def _pick(self, request: SampleRequest, pool: DeviceArray, scores: DeviceArray) -> DeviceArray:
        xp, settings = request.backend.xp, self.settings
        scores = xp.where(pool >= 0, scores, 0.0)
        with np.errstate(divide="ignore"):
            wanted = settings.beta * (self._positive_scores(request) + settings.alpha).clip(0.0) ** (settings.p + 1.0)
        # A score outside the pool's range is nearest to one of its ends; within it, distances do not lose digits.
        wanted = xp.minimum(xp.maximum(wanted, xp.amin(scores, 2)), xp.amax(scores, 2))  # (B, k)
        return super()._pick(request, pool, request.backend.cast(-abs(scores - wanted[:, :, None]), np.float32))


@dataclass(frozen=True, repr=False)
class MixGCF(Sampler):
    """MixGCF without its graph: the best-scoring of a pool, with a random share of the positive mixed into its vector.

    The negative is ``m v_i + (1 - m) v_j``, m uniform in [0, 1), ``j = argmax over the pool of s_uj``. With one m for
    the pool the order of the mixed candidates is that of their scores. The share is ``Draw.mix``.

    Read the plain definition first: ``tests/reference/pooled.py``.

    Parameters
    ----------
    candidates
        Size of the pool, drawn with replacement among the items the user has not seen.
    ceiling
        A candidate that outscores the positive by more than this is no negative: a number, a share of the positive's
        score (``"10%"``), or None for no ceiling. Where none is left there is no negative.

    References
    ----------
    Huang, Dong, Ding, Yang, Feng, Wang and Tang, "MixGCF: an improved training method for graph neural network-based
    recommender systems", KDD 2021.

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.Interactions.from_arrays([0, 1, 1], [0, 1, 2])
    >>> draw = vr.MixGCF(candidates=32).bind(log, seed=0)([[1.0]], [[0.0], [1.0], [2.0]], [0], [0])
    >>> draw.ids.tolist(), bool(0 <= draw.mix[0, 0] < 1)
    ([[2]], True)
    """

    candidates: int = 64
    ceiling: Ceiling = field(default=None, metadata=LATER)

    def __post_init__(self) -> None:
        to_builtin_scalars(self)
        check_count("candidates", self.candidates)
        offsets(self.ceiling)

    def rank_probabilities(self) -> NDArray[np.float64]:
        """The best, always."""
        return np.ones(1)

    def _bound(self) -> type[BoundSampler]:
        return BoundMixingPool


class BoundMixingPool(BoundPool):
    """The best of a pool, and a random share of the positive for each."""

    def _draw(self, request: SampleRequest) -> Draw:
        backend = request.backend
        units = backend.empty((len(request), request.k), np.float64)
        backend.kernels.draw_units(request.counter, MIX, units)
        return replace(super()._draw(request), mix=backend.cast(units, np.float32))
