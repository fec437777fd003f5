"""Samplers that draw a pool and pick by rank or score: DNS, LFM-D, MixGCF, AHNS and CML's hardest of k."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.checks import MOST_CANDIDATES, check_count, check_number, check_positive, to_builtin_scalars
from vitalrank.errors import SettingError
from vitalrank.kernels.rng import MIX
from vitalrank.samplers.base import LATER, BoundSampler, Draw, Sampler, SampleRequest
from vitalrank.samplers.ceiling import Ceiling, drop_above, offsets, score_limits
from vitalrank.samplers.proposals import uniform_proposal


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
        if self.settings.ceiling is not None:
            limits = score_limits(self.settings.ceiling, self._positive_scores(request))
            pool, scores = drop_above(request.backend, limits, pool, scores)
        ids = self._pick(request, pool, scores)
        weights, tries = request.backend.unit_weights(ids, self.settings.candidates)
        if self.settings.ceiling is not None:  # a pool of which nothing was left has been looked at too
            tries = self._tries(request, request.k * self.settings.candidates)
        return Draw(ids, weights, tries)

    def _positive_scores(self, request: SampleRequest) -> Any:
        return request.score(request.backend.cast(request.positives[:, None], np.int64))  # (B, 1)

    def _pick(self, request: SampleRequest, pool: Any, scores: Any) -> Any:
        """One candidate of each pool, by its rank."""  # (B, k)
        backend = request.backend
        ids = backend.empty(tuple(pool.shape[:2]), np.int64)
        backend.kernels.pick_by_rank(scores, pool, backend.cached_to_device(self._cumulative), request.counter, ids)
        return ids


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

    def _pick(self, request: SampleRequest, pool: Any, scores: Any) -> Any:
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
        bar = self._positive_scores(request) - self.settings.margin / 2  # (B, 1)
        impostors = backend.cast((scores > bar[:, :, None]).sum(2), np.float64)  # (B, k)
        ids = self._pick(request, pool, scores)
        drawn, tries = backend.unit_weights(ids, self.settings.candidates)
        weights = backend.xp.log1p(len(self.pool) * impostors / self.settings.candidates) * drawn
        return Draw(ids, backend.cast(weights, np.float32), tries, violated=(impostors > 0).all(1))
