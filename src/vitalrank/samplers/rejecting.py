"""Samplers that draw until a candidate violates the order: LFM-W (WARP) and VINS, with its RejectSampler."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.checks import MOST_CANDIDATES, check_beta, check_count, check_number, to_builtin_scalars
from vitalrank._util.typing import DeviceArray
from vitalrank.errors import SettingError
from vitalrank.kernels import cpu
from vitalrank.kernels.proposals import Proposal
from vitalrank.samplers.base import BoundSampler
from vitalrank.samplers.ceiling import Ceiling, offsets, score_limits
from vitalrank.samplers.draws import Draw, SampleRequest
from vitalrank.samplers.proposals import degree_weights, reject_proposal
from vitalrank.samplers.rank_weights import weight_name, weights_by_try
from vitalrank.samplers.settings import LATER, Sampler

_BLOCK = 16  # candidates handed to a user's scorer at once


@dataclass(frozen=True, repr=False)
class VINS(Sampler):
    """The vital negative sampler: draw by RejectSampler until ``s_uj + margin > s_ui``, at most ``kappa`` times.

    RejectSampler accepts a uniform draw j with probability ``min(pi(j) / pi(i), 1)``, ``pi(i) = d_i^beta``, so that
    negatives tend to be at least as popular as the positive. After K draws the positive's rank is taken as
    ``r = floor(Z / K)``, ``Z = sum of pi``, and the pair weighs
    ``w = (1 + 0.5 (ceil(log2(r + 1)) - 1)) / (1 + 0.5 (ceil(log2(Z + 1)) - 1))``.
    Items already seen are redrawn and do not count; where nothing violates, the best-scoring candidate is used.

    Read the plain definition first: ``tests/reference/rejecting.py``.

    Parameters
    ----------
    beta
        Decay of the degree: 0 draws uniformly, 1 weighs by the degree itself.
    kappa
        Most draws for one negative: the paper's buffer size.
    margin
        How close to the positive's score a candidate must come.
    shots
        Most shots of RejectSampler, which then takes the heaviest item it saw; None draws from the limit for
        many shots, exactly and without rejecting.
    weight
        ``"log2"`` (the paper's), ``"harmonic"`` (WARP's) or ``"none"``.
    ceiling
        A candidate that outscores the positive by more than this is no negative: a number, a share of the positive's
        score (``"10%"``), or None for no ceiling. Such a candidate counts as a try; if all are, there is no negative.

    References
    ----------
    Yu, Pei, Zhang, Liang, Bai, Chawla and Zhang, "Addressing class-imbalance problem for personalized ranking",
    arXiv 2005.09272, Algorithms 1 and 2.

    Examples
    --------
    >>> import numpy as np, vitalrank as vr
    >>> log = vr.Interactions.from_arrays([0, 1, 1, 2], [0, 1, 2, 2])
    >>> sampler = vr.VINS(beta=0.75, kappa=64, margin=1.0).bind(log, seed=0)
    >>> draw = sampler(np.ones((1, 2)), np.zeros((3, 2)), [0], [0], step=0)
    >>> draw.tries.tolist(), draw.violated.tolist()  # equal scores violate at once
    ([1], [True])
    """

    beta: float = 0.5
    kappa: int = 64
    margin: float = 1.0
    shots: int | None = 8
    weight: str = "log2"
    ceiling: Ceiling = field(default=None, metadata=LATER)

    def __post_init__(self) -> None:
        to_builtin_scalars(self)
        check_beta(self.beta)
        check_count("kappa", self.kappa, most=MOST_CANDIDATES)
        check_number("margin", self.margin)
        object.__setattr__(self, "weight", weight_name(self.weight))
        if self.shots is not None:
            check_count("shots", self.shots)
        _check_band(self.ceiling, self.margin)

    def _bound(self) -> type[BoundSampler]:
        return BoundViolationSearch


@dataclass(frozen=True, repr=False)
class LFMW(Sampler):
    """LambdaFM, WARP-weighted (LFM-W): draw uniformly until ``s_uj + margin > s_ui``, at most ``kappa`` times.

    After K draws the pair weighs ``H(floor(n / K)) / H(n)``, ``H(r) = 1 + 1/2 + ... + 1/r``.
    Items already seen are redrawn and do not count; where nothing violates, the best-scoring candidate is used.

    Read the plain definition first: ``tests/reference/rejecting.py``.

    Parameters
    ----------
    margin
        How close to the positive's score a candidate must come.
    kappa
        Most draws for one negative.
    weight
        ``"harmonic"`` (WARP's), ``"log2"`` (VINS's) or ``"none"``.
    ceiling
        A candidate that outscores the positive by more than this is no negative: a number, a share of the positive's
        score (``"10%"``), or None for no ceiling. Such a candidate counts as a try; if all are, there is no negative.

    References
    ----------
    Weston, Bengio and Usunier, "WSABIE: scaling up to large vocabulary image annotation", IJCAI 2011 (WARP).
    Yuan et al., "LambdaFM", CIKM 2016, Algorithm 3.

    Examples
    --------
    >>> import vitalrank as vr
    >>> vr.LFMW(margin=1.0)
    LFMW(margin=1.0, kappa=1024, weight='harmonic')
    """

    margin: float = 1.0
    kappa: int = 1024
    weight: str = "harmonic"
    ceiling: Ceiling = field(default=None, metadata=LATER)

    beta = 0.0
    shots = None

    def __post_init__(self) -> None:
        to_builtin_scalars(self)
        check_count("kappa", self.kappa, most=MOST_CANDIDATES)
        check_number("margin", self.margin)
        object.__setattr__(self, "weight", weight_name(self.weight))
        _check_band(self.ceiling, self.margin)

    def _bound(self) -> type[BoundSampler]:
        return BoundViolationSearch


def _check_band(ceiling: Ceiling, margin: float) -> None:
    """A violator scores above the positive's score less the margin, and not above the ceiling."""
    above, share = offsets(ceiling)
    if not share and above <= -margin:
        raise SettingError(f"ceiling is {ceiling!r} and margin {margin!r}: no score lies between; raise one of them.")


class BoundViolationSearch(BoundSampler):
    """Algorithm 2 over the unseen items."""

    settings: LFMW | VINS

    has_margin = True

    def __init__(self, settings: VINS | LFMW, *args: Any) -> None:
        super().__init__(settings, *args)
        weights = degree_weights(self.train, settings.beta)
        self.proposal = reject_proposal(weights, self.pool, settings.shots)
        self.Z = max(float(weights[self.pool].sum(dtype=np.float64)), 1.0)
        self._weight_of_try = weights_by_try(settings.weight, self.Z, settings.kappa)

    def use_blocks(self, blocks: int) -> None:
        # K tries in a block estimate the positive's rank in the block; among the items of all it is as many times that.
        self._weight_of_try = weights_by_try(self.settings.weight, blocks * self.Z, self.settings.kappa)

    def _draw(self, request: SampleRequest) -> Draw:
        backend = request.backend
        shape = (len(request), request.k)
        ids, tries = backend.empty(shape, np.int64), backend.empty(shape, np.int32)
        violated = backend.empty(shape, np.bool_)
        if request.scorer is None:
            settings = self.settings
            margin = np.float32(settings.margin)
            ceiling = tuple(map(np.float32, offsets(settings.ceiling)))
            vectors = request.vectors(settings)
            (seen, users), proposal = self._seen(request), backend.cached_to_device(self.proposal)
            backend.kernels.draw_until(
                proposal, seen, request.counter, *vectors, users, request.positives, settings.kappa, margin, ceiling,
                ids, tries, violated,
            )  # fmt: skip
        else:
            ids[:], tries[:], violated[:] = -1, 0, False
            for c in range(request.k):
                self._search(request, c, ids[:, c], tries[:, c], violated[:, c])
        if request.check_finite and request.scorer is None:
            request.score(backend.cast(request.positives[:, None], np.int64))
            request.score(ids)
        weights = backend.gather(backend.cached_to_device(self._weight_of_try), tries)
        if self.settings.ceiling is not None:  # nothing under the ceiling was found
            weights = backend.cast(backend.xp.where(ids >= 0, weights, 0.0), np.float32)
        if request.k == 1:  # nothing to sum
            return Draw(ids, weights, tries[:, 0], violated=violated[:, 0])
        return Draw(ids, weights, backend.cast(tries.sum(1), np.int32), violated=violated.all(1))

    def _search(
        self, request: SampleRequest, c: int, ids: DeviceArray, tries: DeviceArray, violated: DeviceArray
    ) -> None:
        """The same search with a scorer of the caller's: blocks of candidates for the rows still looking."""
        kappa = self.settings.kappa
        margin = np.float32(self.settings.margin)
        own = request.score(request.positives[:, None].astype(np.int64))[:, 0]  # (B,)
        limits: NDArray[np.float32] = score_limits(self.settings.ceiling, own)[:].astype(np.float32)
        thresholds = own - margin
        best = np.full(len(request), -np.inf, np.float32)
        draw_indices = np.zeros((len(request), 1), np.int64)
        seen, users = self._seen(request)
        rows = np.flatnonzero(seen.unseen[users] > 0)
        while len(rows):
            block = np.empty((len(rows), 1, min(_BLOCK, kappa)), np.int64)
            counter = request.counter._replace(rows=request.counter.rows[rows])
            drawn = draw_indices[rows]
            cpu.draw_candidates(self.proposal, seen, counter, users[rows], request.positives[rows], c, drawn, block)
            draw_indices[rows] = drawn
            state = [a[rows] for a in (best, ids, tries, violated)]
            scores = request.score(block[:, 0], rows)
            cpu.advance_search(scores, block[:, 0], thresholds[rows], limits[rows], kappa, *state)
            best[rows], ids[rows], tries[rows], violated[rows] = state
            rows = rows[~violated[rows] & (tries[rows] < kappa)]


def reject_sample(
    proposal: Proposal, positives: NDArray[np.integer[Any]], seed: int = 0, step: int = 0
) -> NDArray[np.int64]:
    """RejectSampler (Algorithm 1) on its own: one item for each positive, seen or not.

    Examples
    --------
    >>> import numpy as np, vitalrank as vr
    >>> from vitalrank.samplers.proposals import degree_weights, reject_proposal
    >>> log = vr.Interactions.from_arrays([0, 1, 2, 2], [0, 0, 0, 1])
    >>> proposal = reject_proposal(degree_weights(log, 1.0), np.arange(2), shots=64)
    >>> picked = reject_sample(proposal, np.zeros(3000, int))  # item 1 has a third of item 0's degree
    >>> round(float((picked == 1).mean()), 1)
    0.2
    """
    chosen = np.empty(len(positives), np.int64)
    cpu.sample_each(proposal, np.asarray(positives, np.int64), np.uint64(seed), step, chosen)
    return chosen
