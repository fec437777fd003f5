"""IRGAN's generator: a softmax over all unseen items."""

from __future__ import annotations

import math

from reference.philox import PROPOSE, fine_unit
from reference.proposing import at_point
from reference.row import Answer, Row
from reference.weighted import softmax


def irgan(row: Row, k: int, temperature: float) -> Answer:
    """``q(j | u) = softmax(s / temperature)``."""
    if not row.open:
        return Answer([-1] * k, [0.0] * k, 0, [0.0] * k)
    law = dict(zip(row.open, softmax([row.score(j) / temperature for j in row.open]), strict=True))
    blocks = [row.stream(c).words(PROPOSE, 0) for c in range(k)]
    ids = [at_point(law, row.open, fine_unit(high, low)) for high, low, _, _ in blocks]
    return Answer(ids, [1.0] * k, len(row.pool), [math.log(law[j]) for j in ids])
