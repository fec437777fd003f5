"""Samplers that draw a pool and pick by rank or score: DNS, LFM-D and CML's hardest of k."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.checks import check_count, check_positive, to_builtin_scalars
from vitalrank.errors import SettingError
from vitalrank.samplers.base import BoundSampler, Draw, Sampler, SampleRequest
from vitalrank.samplers.proposals import uniform_proposal


@dataclass(frozen=True)
class DNS(Sampler):
    """Dynamic negative sampling: of ``candidates`` uniform draws the best-scoring, or one of the ``top`` best.

    Read the plain definition first: ``tests/reference/pooled.py``.

    Parameters
    ----------
    candidates
        Size N of the pool, drawn with replacement among the items the user has not seen.
    top
        M: each of the M best is as likely; 1 always takes the best, ``argmax over j of s_uj``.

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

    def __post_init__(self) -> None:
        to_builtin_scalars(self)
        check_count("candidates", self.candidates)
        check_count("top", self.top)
        if self.top > self.candidates:
            raise SettingError(f"top is {self.top}; it must be at most candidates, which is {self.candidates}.")

    def rank_probabilities(self) -> NDArray[np.float64]:
        """Probability of each rank of the pool, best first."""
        return np.full(self.top, 1.0 / self.top)

    def _bound(self) -> type[BoundSampler]:
        return BoundPool


@dataclass(frozen=True)
class LFMD(Sampler):
    """LambdaFM, dynamic sampler (LFM-D): of ``m`` uniform draws the r-th best, ``p(r) ~ exp(-r / (m rho))``.

    Read the plain definition first: ``tests/reference/pooled.py``.

    Parameters
    ----------
    candidates
        ``m``, the size of the pool.
    rho
        Expected place of the pick as a share of the pool: small is hard, large is nearly uniform.

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

    def __post_init__(self) -> None:
        to_builtin_scalars(self)
        check_count("candidates", self.candidates)
        check_positive("rho", self.rho)

    def rank_probabilities(self) -> NDArray[np.float64]:
        """Probability of each rank of the pool, best first."""
        mass = np.exp(-np.arange(self.candidates) / (self.candidates * self.rho))
        return np.asarray(mass / mass.sum())

    def _bound(self) -> type[BoundSampler]:
        return BoundPool


class BoundPool(BoundSampler):
    """A pool of uniform draws for each negative, one of them picked by its rank."""

    def __init__(self, settings: Any, *args: Any) -> None:
        super().__init__(settings, *args)
        self.proposal = uniform_proposal(self.train, self.pool)
        self._cumulative = np.cumsum(settings.rank_probabilities())
        self._cumulative[-1] = 1.0  # so that rounding never reaches past the last rank

    def _pool(self, request: SampleRequest) -> tuple[Any, Any]:
        """Candidates and their scores."""  # (B, k, C) each
        ids = self._candidates(self.proposal, request, self.settings.candidates)
        return ids, request.score(ids.reshape(len(request), request.k * self.settings.candidates)).reshape(ids.shape)

    def _draw(self, request: SampleRequest) -> Draw:
        pool, scores = self._pool(request)
        ids = self._pick(request, pool, scores)
        return Draw(ids, *request.backend.unit_weights(ids, self.settings.candidates))

    def _pick(self, request: SampleRequest, pool: Any, scores: Any) -> Any:
        """One candidate of each pool, by its rank."""  # (B, k)
        backend = request.backend
        ids = backend.empty(tuple(pool.shape[:2]), np.int64)
        backend.kernels.pick_by_rank(scores, pool, backend.cached_to_device(self._cumulative), request.counter, ids)
        return ids


@dataclass(frozen=True)
class CML(Sampler):
    """The sampling half of collaborative metric learning: the nearest of W draws, weighted by an estimated rank.

    ``w = ln(1 + n M / W)``, where M of the W draws are impostors: ``margin + d^2(u, i) - d^2(u, j) > 0``.
    Scores must order items as the distance does, ``s = (|u|^2 - d^2) / 2``: the query ``[u, 1]`` with the item
    ``[v, -|v|^2 / 2]`` does. A positive without impostors has weight 0.

    Read the plain definition first: ``tests/reference/pooled.py``.

    Parameters
    ----------
    candidates
        W, uniform draws with replacement among the items the user has not seen.
    margin
        In squared distance.

    References
    ----------
    Hsieh, Yang, Cui, Lin, Belongie and Estrin, "Collaborative metric learning", WWW 2017.

    Examples
    --------
    >>> import vitalrank as vr
    >>> vr.samplers.CML(candidates=20, margin=1.5)
    CML(candidates=20, margin=1.5)
    """

    candidates: int = 20
    margin: float = 1.5

    def __post_init__(self) -> None:
        to_builtin_scalars(self)
        check_count("candidates", self.candidates)
        check_positive("margin", self.margin)

    def rank_probabilities(self) -> NDArray[np.float64]:
        """The nearest, always."""
        return np.ones(1)

    def _bound(self) -> type[BoundSampler]:
        return BoundRankWeightedPool


class BoundRankWeightedPool(BoundPool):
    """The hardest of a pool, weighted by how much of the pool comes within the margin."""

    has_margin = True

    def _draw(self, request: SampleRequest) -> Draw:
        backend = request.backend
        pool, scores = self._pool(request)
        bar = request.score(backend.cast(request.positives[:, None], np.int64)) - self.settings.margin / 2  # (B, 1)
        impostors = backend.cast((scores > bar[:, :, None]).sum(2), np.float64)  # (B, k)
        ids = self._pick(request, pool, scores)
        drawn, tries = backend.unit_weights(ids, self.settings.candidates)
        weights = backend.xp.log1p(len(self.pool) * impostors / self.settings.candidates) * drawn
        return Draw(ids, backend.cast(weights, np.float32), tries, violated=(impostors > 0).all(1))
