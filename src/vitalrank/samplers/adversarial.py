"""The sampler in which a second model proposes: IRGAN's generator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vitalrank.kernels import cpu
from vitalrank.samplers.base import Batch, BoundSampler, Draw, Sampler, plain_weights
from vitalrank.samplers.checks import check_positive

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
        ids = np.full((len(batch), batch.k), -1, np.int64)
        log_q = np.zeros(ids.shape, np.float32)
        size = len(self.pool)
        block = max(1, _CELLS // max(size, 1))
        for start in range(0, len(batch) if size else 0, block):
            part = slice(start, min(start + block, len(batch)))
            rows = np.arange(part.start, part.stop)
            if batch.scorer is None:
                queries, table = batch.vectors(self.settings)
                scores = np.empty((len(rows), size), np.float32)
                cpu.score_all(queries[part], table, self.pool, scores)
            else:
                scores = batch.scorer(rows, np.tile(self.pool, (len(rows), 1)))
            counter = batch.counter._replace(rows=batch.counter.rows[part])
            temperature = self.settings.temperature
            users = batch.users[part]
            cpu.draw_softmax(scores, temperature, self.pool, self.seen, counter, users, ids[part], log_q[part])
        weights = plain_weights(ids)
        return Draw(ids, weights, (weights.max(axis=1, initial=0.0) * size).astype(np.int32), log_q)
