"""Samplers that keep all their candidates and weight them by score: SA and PRIS."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.checks import check_bool, check_choice, check_count, check_number, to_builtin_scalars
from vitalrank._util.typing import DeviceArray
from vitalrank.errors import SettingError
from vitalrank.samplers.backends import ArrayBackend
from vitalrank.samplers.base import BoundSampler
from vitalrank.samplers.ceiling import Ceiling, offsets, score_limits
from vitalrank.samplers.draws import Draw, SampleRequest
from vitalrank.samplers.item_proposal import BoundItemProposal
from vitalrank.samplers.refreshing import RefreshedByEpoch, copy_in_place
from vitalrank.samplers.settings import LATER, Sampler

_ROUNDS = 10  # of k-means


def softmax_rows(xp: ModuleType, logits: DeviceArray) -> DeviceArray:
    """Each row's exponentials over their sum; a row of -inf gives zeros."""  # (B, k)
    if logits.shape[1] == 0:
        return logits
    top = xp.amax(logits, 1)[:, None]
    powers = xp.exp(logits - xp.where(xp.isfinite(top), top, 0.0))
    result: DeviceArray = powers / powers.sum(1)[:, None].clip(1e-30)
    return result


@dataclass(frozen=True, repr=False)
class SA(Sampler):
    """Self-adversarial negatives: ``candidates`` uniform draws, weighted ``w_j = softmax_j(temperature * s_uj)``.

    The loss is ``sum_j w_j * l(s_ui, s_uj)``; the weights are constants of it (detached).

    Read the plain definition first: ``tests/reference/weighted.py``.

    Parameters
    ----------
    candidates
        Negatives kept per positive, drawn with replacement among the items the user has not seen.
    temperature
        alpha: 0 weighs all alike, large values leave only the hardest.
    ceiling
        A candidate that outscores the positive by more than this is no negative: a number, a share of the positive's
        score (``"10%"``), or None for no ceiling. It has id -1 and weight 0.

    References
    ----------
    Sun, Deng, Nie and Tang, "RotatE: knowledge graph embedding by relational rotation in complex space", ICLR 2019.

    Examples
    --------
    >>> import numpy as np, vitalrank as vr
    >>> log = vr.Interactions.from_arrays([0, 1, 1], [0, 1, 2])
    >>> draw = vr.SA(candidates=4).bind(log, seed=0)(np.ones((1, 2)), np.zeros((3, 2)), [0], [0])
    >>> draw.weights.tolist()  # equal scores, equal weights
    [[0.25, 0.25, 0.25, 0.25]]
    """

    candidates: int = 256
    temperature: float = 1.0
    ceiling: Ceiling = field(default=None, metadata=LATER)

    detach = True

    def __post_init__(self) -> None:
        to_builtin_scalars(self)
        check_count("candidates", self.candidates)
        check_number("temperature", self.temperature, least=0)
        offsets(self.ceiling)

    def proposal_weights(self, degrees: NDArray[np.int64]) -> NDArray[np.float32]:
        """All items alike."""
        return np.ones(len(degrees), np.float32)

    def logits(self, scores: DeviceArray, log_q: DeviceArray) -> DeviceArray:
        """What the weights are the softmax of."""
        result: DeviceArray = scores * self.temperature
        return result

    def _bound(self) -> type[BoundSampler]:
        return BoundSoftmaxWeighted


# Weight of an item of degree d (at least 1) in PRIS's proposal.
PROPOSALS: dict[str, Callable[[NDArray[np.float32]], NDArray[np.float32]]] = {
    "uniform": np.ones_like,
    "popularity": np.log1p,
}


@dataclass(frozen=True, repr=False)
class PRIS(Sampler):
    """Personalized ranking with importance sampling: ``w_j = softmax_j(s_uj - ln q(j | u))`` over k draws from q.

    The proposal groups the items by k-means of their vectors: ``P(c | u) ~ exp(q_u . center_c) * (unseen mass of c)``,
    then an unseen item of c by its weight, so ``q(j | u) = P(c | u) pi(j) / (unseen mass of c)``.
    With ``clusters=0``, or a ``score=`` without vectors, the proposal is static: ``q(j | u) = pi(j) / (unseen mass)``.

    Read the plain definition first: ``tests/reference/weighted.py``.

    Parameters
    ----------
    candidates
        k, negatives kept per positive.
    clusters
        Groups of items; 0 for the static proposal.
    proposal
        ``"uniform"`` (pi = 1) or ``"popularity"`` (pi = ln(1 + d)).
    refresh
        Steps between two clusterings; None: once an epoch. Not without clusters.
    detach
        False lets the gradient flow through the weights, as the published code does; True holds them constant.
    ceiling
        As for :class:`SA`.

    References
    ----------
    Lian, Liu and Chen, "Personalized ranking with importance sampling", WWW 2020.

    Examples
    --------
    >>> import numpy as np, vitalrank as vr
    >>> log = vr.Interactions.from_arrays([0, 1, 1], [0, 1, 2])
    >>> sampler = vr.PRIS(candidates=3, clusters=0, proposal="uniform").bind(log, seed=0)
    >>> draw = sampler([[1.0]], [[0.0], [1.0], [2.0]], [0], [0])
    >>> draw.ids.shape, np.exp(draw.log_q).tolist()  # two items are open
    ((1, 3), [[0.5, 0.5, 0.5]])
    """

    candidates: int = 5
    clusters: int = 100
    proposal: str = "popularity"
    refresh: int | None = None
    detach: bool = False
    ceiling: Ceiling = field(default=None, metadata=LATER)

    def __post_init__(self) -> None:
        to_builtin_scalars(self)
        check_count("candidates", self.candidates)
        check_count("clusters", self.clusters, least=0)
        if self.refresh is not None:
            check_count("refresh", self.refresh)
        check_choice("proposal", self.proposal, PROPOSALS)
        check_bool("detach", self.detach)
        offsets(self.ceiling)
        if not self.clusters and self.refresh is not None:
            raise SettingError(f"refresh is {self.refresh}, but clusters=0 groups no items; leave out one of them.")

    def proposal_weights(self, degrees: NDArray[np.int64]) -> NDArray[np.float32]:
        """``pi`` of every item."""
        return np.asarray(PROPOSALS[self.proposal](np.maximum(degrees, 1).astype(np.float32)), np.float32)

    def logits(self, scores: DeviceArray, log_q: DeviceArray) -> DeviceArray:
        """What the weights are the softmax of."""
        result: DeviceArray = scores - log_q
        return result

    def _bound(self) -> type[BoundSampler]:
        return BoundClustered if self.clusters else BoundSoftmaxWeighted


class BoundSoftmaxWeighted(BoundItemProposal):
    """All candidates of a static proposal, weighted by the softmax of their scores."""

    settings: PRIS | SA

    keeps_candidates = True
    weighs_by_score = True

    def __init__(self, settings: SA | PRIS, *args: Any) -> None:
        super().__init__(settings, *args)
        self.differentiable_weights = not settings.detach
        self.ceiling: Ceiling = settings.ceiling

    def _item_weights(self) -> NDArray[np.float32]:
        weights: NDArray[np.float32] = self.settings.proposal_weights(self.train.item_degree)
        return weights

    def logits(self, scores: DeviceArray, log_q: DeviceArray) -> DeviceArray:
        return self.settings.logits(scores, log_q)

    def _propose(self, request: SampleRequest) -> tuple[DeviceArray, DeviceArray]:
        """Candidates and the log of their proposal probability."""  # (B, C) each
        ids = self._candidates(self.proposal, request, self.settings.candidates)[:, 0]
        return ids, self._log_q(request, ids)

    def _draw(self, request: SampleRequest) -> Draw:
        if request.k != 1:
            raise SettingError(f"k is {request.k}, but {self.settings!r} keeps its candidates: set candidates instead.")
        xp = request.backend.xp
        ids, log_q = self._propose(request)
        drawn = ids >= 0
        scores = xp.where(drawn, request.score(ids), 0.0)
        tries = request.backend.cast(drawn.sum(1), np.int32)
        if self.ceiling is not None:
            own = request.score(request.backend.cast(request.positives[:, None], np.int64))  # (B, 1)
            drawn = drawn & (scores <= score_limits(self.ceiling, own))
            ids = xp.where(drawn, ids, -1)
        weights = softmax_rows(xp, xp.where(drawn, self.logits(scores, log_q), -np.inf))
        return Draw(ids, request.backend.cast(weights, np.float32), tries, log_q)


class BoundClustered(RefreshedByEpoch, BoundSoftmaxWeighted):
    """PRIS's cluster proposal, grouped anew each epoch."""

    settings: PRIS

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._groups: tuple[Any, ...] = (None,) * 5  # centers, owners, members, where each begins, their running mass

    def _propose(self, request: SampleRequest) -> tuple[DeviceArray, DeviceArray]:
        if not request.has_vectors:
            return super()._propose(request)
        backend = request.backend
        ids = backend.full((len(request), self.settings.candidates), -1, np.int64)
        log_q = backend.full(tuple(ids.shape), 0.0, np.float32)
        if len(self.pool):
            (seen, users), weights = self._seen(request), backend.cached_to_device(self.weights)
            backend.kernels.draw_clustered(
                *self._groups, weights, seen, request.counter, request.queries, users, ids, log_q
            )
        return ids, log_q

    def _refresh_interval(self, draws: int) -> int:
        return self.settings.refresh or math.ceil(len(self.train) / max(draws, 1))

    def _rebuild(self, backend: ArrayBackend, table: DeviceArray, step: int) -> None:
        owner = np.full(self.train.n_items, -1, np.int32)
        pool = self.pool.astype(np.int32)
        clusters = min(self.settings.clusters, len(pool))
        centers = backend.kernels.cluster(table, pool, clusters, _ROUNDS, self.seed, step, owner)
        members = pool[np.argsort(owner[pool], kind="stable")]
        starts = np.searchsorted(owner[members], np.arange(clusters + 1))
        running = np.concatenate([[0.0], np.cumsum(self.weights[members], dtype=np.float64)])
        anew = (centers, *(backend.to_device(part) for part in (owner, members, starts, running)))
        self._groups = tuple(map(copy_in_place, self._groups, anew))
