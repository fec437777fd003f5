"""The sampler in which a second model proposes: IRGAN's generator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vitalrank.checks import check_positive
from vitalrank.samplers.base import Batch, BoundSampler, Draw, Sampler

_CELLS = 1 << 24  # scores held at once


@dataclass(frozen=True)
class IRGAN(Sampler):
    """The sampling half of IRGAN: ``q(j | u) = softmax_j(s_uj / temperature)`` over the items u has not seen.

    The vectors passed to the call are the generator's. The draw is exact and costs O(n d) a row, which is why
    IRGAN is slow on large catalogues.

    Parameters
    ----------
    temperature
        Below 1 sharpens the generator; the published code draws the discriminator's negatives at 0.2.

    References
    ----------
    Wang, Yu, Zhang, Gong, Xu, Wang, Zhang and Zhang, "IRGAN: a minimax game for unifying generative and
    discriminative information retrieval models", SIGIR 2017.

    Examples
    --------
    >>> import numpy as np, vitalrank as vr
    >>> log = vr.Interactions.from_arrays([0, 1, 1], [0, 1, 2])
    >>> sampler = vr.samplers.IRGAN().bind(log, seed=0)
    >>> draw = sampler([[1.0]], [[0.0], [0.0], [0.0]], [0], [0])
    >>> np.exp(draw.log_q).round(2).tolist()  # two open items, equal scores
    [[0.5]]
    """

    temperature: float = 0.2

    def __post_init__(self) -> None:
        check_positive("temperature", self.temperature)

    def _bound(self) -> type[BoundSampler]:
        return BoundProposed


class BoundProposed(BoundSampler):
    """Exact draws from a softmax over the whole pool, a block of rows at a time."""

    def _draw(self, batch: Batch) -> Draw:
        arrays = batch.arrays
        ids = arrays.full((len(batch), batch.k), -1, np.int64)
        log_q = arrays.full(tuple(ids.shape), 0.0, np.float32)
        block = max(1, _CELLS // max(len(self.pool), 1))
        for start in range(0, len(batch) if len(self.pool) else 0, block):
            self._fill(batch, slice(start, min(start + block, len(batch))), ids, log_q)
        looked = arrays.xp.where(ids[:, 0] >= 0, len(self.pool), 0)
        weights, _ = arrays.drawn(ids, each=1)
        return Draw(ids, weights, arrays.cast(looked, np.int32), log_q)

    def _fill(self, batch: Batch, part: slice, ids: Any, log_q: Any) -> None:
        """Draw for some rows of the batch."""
        arrays, pool = batch.arrays, batch.arrays.hold(self.pool)
        rows = np.arange(part.start, part.stop)
        if batch.scorer is None:
            queries, table = batch.vectors(self.settings)
            scores = arrays.full((len(rows), len(pool)), 0.0, np.float32)
            arrays.kernels.score_all(queries[part], table, pool, scores)
        else:
            scores = batch.scorer(rows, np.tile(self.pool, (len(rows), 1)))
        counter = batch.counter._replace(rows=batch.counter.rows[part])
        temperature, seen, users = self.settings.temperature, arrays.hold(self.seen), batch.users[part]
        arrays.kernels.draw_softmax(scores, temperature, pool, seen, counter, users, ids[part], log_q[part])
