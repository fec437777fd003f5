"""The sampling half of collaborative metric learning: the nearest of a pool, weighted by an estimated rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.checks import check_count, check_positive, to_builtin_scalars
from vitalrank.samplers.base import BoundSampler
from vitalrank.samplers.ceiling import Ceiling
from vitalrank.samplers.draws import Draw, SampleRequest
from vitalrank.samplers.pooled import BoundPool
from vitalrank.samplers.settings import Sampler


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
    ceiling: ClassVar[Ceiling] = None  # all of the pool are counted, and the nearest is what it draws

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

    settings: CML

    has_margin = True
    _blocks = 1

    def use_blocks(self, blocks: int) -> None:
        self._blocks = blocks

    def _draw(self, request: SampleRequest) -> Draw:
        backend = request.backend
        pool, scores = self._pool(request)
        bar = self._positive_scores(request) - self.settings.margin / 2  # (B, 1)
        impostors = backend.cast((scores > bar[:, :, None]).sum(2), np.float64)  # (B, k)
        ids = self._pick(request, pool, scores)
        drawn, tries = backend.unit_weights(ids, self.settings.candidates)
        weights = backend.xp.log1p(self._blocks * len(self.pool) * impostors / self.settings.candidates) * drawn
        return Draw(ids, backend.cast(weights, np.float32), tries, violated=(impostors > 0).all(1))
