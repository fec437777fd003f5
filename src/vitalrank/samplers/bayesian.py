"""The sampler that weighs how likely a candidate is a false negative: BNS."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.checks import check_count, check_number, to_builtin_scalars
from vitalrank._util.typing import DeviceArray
from vitalrank.interactions import Interactions
from vitalrank.samplers.base import BoundSampler
from vitalrank.samplers.ceiling import Ceiling, offsets, score_limits
from vitalrank.samplers.draws import Draw, SampleRequest
from vitalrank.samplers.pooled import BoundPool
from vitalrank.samplers.settings import LATER, Sampler


@dataclass(frozen=True, repr=False)
class BNS(Sampler):
    """Bayesian negative sampling: of a pool the candidate of least risk, ``info(j) (1 - (1 + alpha) unbias(j))``.

    ``info(j) = sigma(s_uj - s_ui)`` is the gradient that j would give, and ``unbias(j) = (1 - F)(1 - P) / ((1 - F)(1 -
    P) + F P)`` the posterior probability that j is a true negative: P is j's share of the interactions, F the share
    of the user's unseen items that score at most ``s_uj``. F is estimated from the pool and ``sample`` draws more,
    instead of from the whole catalogue.

    Read the plain definition first: ``tests/reference/pooled.py``.

    Parameters
    ----------
    candidates
        Size of the pool, drawn with replacement among the items the user has not seen.
    sample
        Draws beside the pool, from which F is estimated.
    alpha
        What a true negative is worth: 0 avoids false negatives and gradient alike, more looks for gradient.
    ceiling
        A candidate that outscores the positive by more than this is no negative: a number, a share of the positive's
        score (``"10%"``), or None for no ceiling. Where none is left there is no negative.

    References
    ----------
    Liu and Wang, "Bayesian negative sampling for recommendation", ICDE 2023, where alpha is called lambda.

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.Interactions.from_arrays([0, 1, 1, 1], [0, 1, 2, 3])
    >>> table = [[1.0], [-1.0], [0.8], [0.9]]  # item 3 gives the most gradient, but scores above all others
    >>> vr.BNS(candidates=32, sample=96).bind(log, seed=0)([[1.0]], table, [0], [0]).ids.tolist()
    [[2]]
    """

    candidates: int = 5
    sample: int = 32
    alpha: float = 5.0
    ceiling: Ceiling = field(default=None, metadata=LATER)

    def __post_init__(self) -> None:
        to_builtin_scalars(self)
        check_count("candidates", self.candidates)
        check_count("sample", self.sample, least=0)
        check_number("alpha", self.alpha, least=0)
        offsets(self.ceiling)

    def rank_probabilities(self) -> NDArray[np.float64]:
        """The candidate of least risk, always."""
        return np.ones(1)

    def _bound(self) -> type[BoundSampler]:
        return BoundBayesianPool


class BoundBayesianPool(BoundPool):
    """The candidate of a pool whose risk is least, by the user's scores and the items' popularity."""

    settings: BNS

    def __init__(self, settings: BNS, train: Interactions, *args: Any) -> None:
        super().__init__(settings, train, *args)
        self._size = settings.candidates + settings.sample
        self.use_blocks(1)

    def use_blocks(self, blocks: int) -> None:
        degrees = self.train.item_degree  # in a block those of its items, of which there are about as many in each
        self._shares = degrees / max(int(degrees.sum()) * blocks, 1)  # (n,)

    def _draw(self, request: SampleRequest) -> Draw:
        backend, xp, many = request.backend, request.backend.xp, self.settings.candidates
        drawn, scores = self._pool(request)  # (B, k, candidates + sample)
        own = self._positive_scores(request)  # (B, 1)
        pool, theirs = drawn[:, :, :many], scores[:, :, :many]
        kept = theirs <= score_limits(self.settings.ceiling, own)[:, :, None]
        good = xp.where(kept, -self._risk(request, pool, scores, own), -math.inf)
        pool = xp.where(kept.any(2)[:, :, None], pool, -1)
        ids = self._pick(request, pool, backend.cast(good, np.float32))
        weights, tries = backend.unit_weights(ids, self._size)
        if self.settings.ceiling is not None:  # a pool of which nothing was left has been looked at too
            tries = self._tries(request, request.k * self._size)
        return Draw(ids, weights, tries)

    def _risk(self, request: SampleRequest, pool: DeviceArray, scores: DeviceArray, own: DeviceArray) -> DeviceArray:
        """The risk of each candidate of the pool (B, k, C), by the scores of all draws (B, k, C + sample)."""
        backend, xp = request.backend, request.backend.xp
        many = self.settings.candidates
        below = xp.stack([(scores <= scores[:, :, c : c + 1]).sum(2) for c in range(many)], 2)
        share_below = backend.cast(below, np.float64) / (self._size + 1)  # F, below 1
        prior = backend.gather(backend.cached_to_device(self._shares), pool.clip(0))  # P
        gaps = backend.cast(own[:, :, None], np.float64) - backend.cast(scores[:, :, :many], np.float64)
        with np.errstate(over="ignore"):
            info = 1.0 / (1.0 + xp.exp(gaps))
        true = (1.0 - share_below) * (1.0 - prior)
        risk: DeviceArray = info * (1.0 - (1.0 + self.settings.alpha) * true / (true + share_below * prior))
        return risk
