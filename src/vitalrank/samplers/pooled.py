"""Samplers that draw a pool and pick by rank: DNS and LFM-D."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.checks import MOST_CANDIDATES, check_count, check_positive, to_builtin_scalars
from vitalrank._util.typing import DeviceArray
from vitalrank.errors import SettingError
from vitalrank.samplers.base import BoundSampler
from vitalrank.samplers.ceiling import Ceiling, drop_above, offsets, score_limits
from vitalrank.samplers.draws import Draw, SampleRequest
from vitalrank.samplers.proposals import uniform_proposal
from vitalrank.samplers.settings import LATER, Sampler

if TYPE_CHECKING:
    from vitalrank.samplers.bayesian import BNS
    from vitalrank.samplers.metric import CML
    from vitalrank.samplers.score_pooled import AHNS, MixGCF


@dataclass(frozen=True, repr=False)
class DNS(Sampler):
    """Dynamic negative sampling: of ``candidates`` uniform draws the best-scoring, or one of the ``top`` best.

    Read the plain definition first: ``tests/reference/pooled.py``.

    Parameters
    ----------
    candidates
        Size N of the pool, drawn with replacement among the items the user has not seen.
    top
        M: each of the M best is as likely; 1 always takes the best, ``argmax over j of s_uj``.
    ceiling
        A candidate that outscores the positive by more than this is no negative: a number, a share of the positive's
        score (``"10%"``), or None for no ceiling. Where none is left there is no negative.

    References
    ----------
    Zhang, Chen, Wang and Yu, "Optimizing top-N collaborative filtering via dynamic negative item sampling",
    SIGIR 2013. Shi, Chen, Feng, Zhang, Wu, Gao and He, "On the theories behind hard negative sampling for
    recommendation", WWW 2023, for DNS(M, N).

    Examples
    --------
    >>> import numpy as np, vitalrank as vr
    >>> log = vr.Interactions.from_arrays([0, 1, 1], [0, 1, 2])
    >>> table = np.array([[0.0], [1.0], [2.0]])
    >>> vr.DNS(candidates=32).bind(log, seed=0)([[1.0]], table, [0], [0]).ids.tolist()
    [[2]]
    """

    candidates: int = 16
    top: int = 1
    ceiling: Ceiling = field(default=None, metadata=LATER)

    def __post_init__(self) -> None:
        to_builtin_scalars(self)
        check_count("candidates", self.candidates)
        check_count("top", self.top)
        if self.top > self.candidates:
            raise SettingError(f"top is {self.top}; it must be at most candidates, which is {self.candidates}.")
        offsets(self.ceiling)

    def rank_probabilities(self) -> NDArray[np.float64]:
        """Probability of each rank of the pool, best first."""
        return np.full(self.top, 1.0 / self.top)

    def _bound(self) -> type[BoundSampler]:
        return BoundPool


@dataclass(frozen=True, repr=False)
class LFMD(Sampler):
    """LambdaFM, dynamic sampler (LFM-D): of ``m`` uniform draws the r-th best, ``p(r) ~ exp(-r / (m rho))``.

    Read the plain definition first: ``tests/reference/pooled.py``.

    Parameters
    ----------
    candidates
        ``m``, the size of the pool.
    rho
        Expected place of the pick as a share of the pool: small is hard, large is nearly uniform.
    ceiling
        A candidate that outscores the positive by more than this is no negative: a number, a share of the positive's
        score (``"10%"``), or None for no ceiling. Where none is left there is no negative.

    References
    ----------
    Yuan, Guo, Jose, Chen, Yu and Zhang, "LambdaFM: learning optimal ranking with factorization machines using
    lambda surrogates", CIKM 2016, Algorithm 2.

    Examples
    --------
    >>> import vitalrank as vr
    >>> vr.LFMD(candidates=10, rho=0.3).rank_probabilities()[:4].round(3).tolist()
    [0.294, 0.211, 0.151, 0.108]
    """

    candidates: int = 20
    rho: float = 0.1
    ceiling: Ceiling = field(default=None, metadata=LATER)

    def __post_init__(self) -> None:
        to_builtin_scalars(self)
        check_count("candidates", self.candidates, most=MOST_CANDIDATES)
        check_positive("rho", self.rho)
        offsets(self.ceiling)

    def rank_probabilities(self) -> NDArray[np.float64]:
        """Probability of each rank of the pool, best first."""
        mass = np.exp(-np.arange(self.candidates) / (self.candidates * self.rho))
        return np.asarray(mass / mass.sum())

    def _bound(self) -> type[BoundSampler]:
        return BoundPool


class BoundPool(BoundSampler):
    """A pool of uniform draws for each negative, one of them picked by its rank."""

    settings: DNS | LFMD | AHNS | MixGCF | BNS | CML

    def __init__(self, settings: DNS | LFMD | AHNS | MixGCF | BNS | CML, *args: Any) -> None:
        super().__init__(settings, *args)
        self.proposal = uniform_proposal(self.train, self.pool)
        self._size = settings.candidates
        self._cumulative = np.cumsum(settings.rank_probabilities())
        self._cumulative[-1] = 1.0  # so that rounding never reaches past the last rank

    def _pool(self, request: SampleRequest) -> tuple[DeviceArray, DeviceArray]:
        """Candidates and their scores."""  # (B, k, C) each
        ids = self._candidates(self.proposal, request, self._size)
        return ids, request.score(ids.reshape(len(request), request.k * self._size)).reshape(ids.shape)

    def _draw(self, request: SampleRequest) -> Draw:
        pool, scores = self._pool(request)
        if self.settings.ceiling is not None:
            limits = score_limits(self.settings.ceiling, self._positive_scores(request))
            pool, scores = drop_above(request.backend, limits, pool, scores)
        ids = self._pick(request, pool, scores)
        weights, tries = request.backend.unit_weights(ids, self._size)
        if self.settings.ceiling is not None:  # a pool of which nothing was left has been looked at too
            tries = self._tries(request, request.k * self._size)
        return Draw(ids, weights, tries)

    def _positive_scores(self, request: SampleRequest) -> DeviceArray:
        return request.score(request.backend.cast(request.positives[:, None], np.int64))  # (B, 1)

    def _pick(self, request: SampleRequest, pool: DeviceArray, scores: DeviceArray) -> DeviceArray:
        """One candidate of each pool, by its rank."""  # (B, k)
        backend = request.backend
        ids = backend.empty(tuple(pool.shape[:2]), np.int64)
        backend.kernels.pick_by_rank(scores, pool, backend.cached_to_device(self._cumulative), request.counter, ids)
        result: DeviceArray = ids
        return result
