"""Known and InBatch: negatives that come with the log, or with the batch."""

from __future__ import annotations

import math
from collections.abc import Sequence

from reference.philox import PROPOSE, fine_unit
from reference.row import Answer, Row


def known(row: Row, k: int, negatives: Sequence[int]) -> Answer:
    """All known negatives of the user alike; a pair that was also an interaction is a positive."""
    left = sorted(j for j in negatives if j in row.open)
    if not left:
        return Answer([-1] * k, [0.0] * k, 0, [0.0] * k)
    units = [fine_unit(*row.stream(c).words(PROPOSE, 0)[:2]) for c in range(k)]
    ids = [left[min(int(unit * len(left)), len(left) - 1)] for unit in units]
    return Answer(ids, [1.0] * k, k, [-math.log(len(left))] * k)


def in_batch(rows: Sequence[Row], b: int, candidates: int | None, interactions: int) -> Answer:
    """The positives of the rows after row ``b``, around the end of the batch; what the user has seen is left out."""
    others = len(rows) - 1
    after = [rows[(b + 1 + c) % len(rows)].positive for c in range(min(candidates or others, others))]
    ids = [j if j in rows[b].open else -1 for j in after]
    log_q = [math.log(max(rows[b].degree[j], 1) / interactions) if j >= 0 else 0.0 for j in ids]
    return Answer(ids, [float(j >= 0) for j in ids], sum(j >= 0 for j in ids), log_q)
