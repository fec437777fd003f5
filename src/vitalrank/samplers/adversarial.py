"""The sampler in which a second model proposes: IRGAN's generator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vitalrank._util.checks import check_positive, to_builtin_scalars
from vitalrank.samplers.base import BoundSampler
from vitalrank.samplers.draws import Draw, SampleRequest
from vitalrank.samplers.full_scores import full_scan_weights, score_blocks
from vitalrank.samplers.settings import Sampler


@dataclass(frozen=True)
class IRGAN(Sampler):
    """The sampling half of IRGAN: ``q(j | u) = softmax_j(s_uj / temperature)`` over the items u has not seen.

    The vectors passed to the call are the generator's. The draw is exact and costs O(n d) a row, which is why
    IRGAN is slow on large catalogues.

    Read the plain definition first: ``tests/reference/adversarial.py``.

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
    >>> np.exp(draw.log_q).round(2).tolist()  # two unseen items, equal scores
    [[0.5]]
    """

    temperature: float = 0.2

    def __post_init__(self) -> None:
        to_builtin_scalars(self)
        check_positive("temperature", self.temperature)

    def _bound(self) -> type[BoundSampler]:
        return BoundGenerator


class BoundGenerator(BoundSampler):
    """Exact draws from a softmax over the whole pool, a block of rows at a time."""

    settings: IRGAN

    def _draw(self, request: SampleRequest) -> Draw:
        backend = request.backend
        ids = backend.full((len(request), request.k), -1, np.int64)
        log_q = backend.full(tuple(ids.shape), 0.0, np.float32)
        temperature = self.settings.temperature
        (seen, users), pool = self._seen(request), backend.cached_to_device(self.pool)
        for part, counter, scores in score_blocks(request, self.pool):
            backend.kernels.draw_softmax(scores, temperature, pool, seen, counter, users[part], ids[part], log_q[part])
        return Draw(ids, *full_scan_weights(request, self.pool, ids), log_q)
