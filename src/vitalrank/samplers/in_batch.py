"""In-batch negatives: the other positives of the batch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.checks import check_count, to_builtin_scalars
from vitalrank.samplers.base import BoundSampler
from vitalrank.samplers.draws import Draw, SampleRequest
from vitalrank.samplers.settings import Sampler


@dataclass(frozen=True)
class InBatch(Sampler):
    """The other positives of the batch; what the user has seen, an accidental hit, has id -1 and weight 0.

    A batch is a random part of the log, so an item is among them with ``q(j) = d_j / (number of interactions)``, which
    is ``log_q``: with ``loss="softmax", correct="logq"`` it is taken off. Unlike the other samplers' draws these
    follow the batch: rows that are cut off or reordered have other negatives.

    Read the plain definition first: ``tests/reference/given.py``.

    Parameters
    ----------
    candidates
        So many rows after a positive's own, around the end of the batch; None: all the others.

    References
    ----------
    Yi et al., "Sampling-bias-corrected neural modeling for large corpus item recommendations", RecSys 2019.

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.Interactions.from_arrays([0, 0, 1, 2], [0, 1, 1, 2])
    >>> vr.InBatch().bind(log)(users=[0, 1, 2], positives=[0, 1, 2]).ids.tolist()
    [[-1, 2], [2, 0], [0, 1]]
    """

    candidates: int | None = None

    def __post_init__(self) -> None:
        to_builtin_scalars(self)
        if self.candidates is not None:
            check_count("candidates", self.candidates)

    def _bound(self) -> type[BoundSampler]:
        return BoundInBatch


class BoundInBatch(BoundSampler):
    """The positives of the rows that follow each row."""

    settings: InBatch

    needs_scores = False
    keeps_candidates = True
    follows_batch = True

    @cached_property
    def _log_share(self) -> NDArray[np.float32]:
        """Log of each item's share of the interactions."""  # (n,)
        degrees = self.train.item_degree  # in a block those of all users, more than its rows here
        return np.log(np.maximum(degrees, 1) / max(int(degrees.sum()), 1)).astype(np.float32)

    @cached_property
    def _inside(self) -> NDArray[np.bool_]:
        inside = np.zeros(self.train.n_items, np.bool_)
        inside[self.pool] = True
        return inside

    @property
    def is_by_rows(self) -> bool:
        """Whether the negatives of a row are those of the rows after it, but for what its user has seen: an engine may
        then score them without asking for their ids.
        """
        return self.counts is None and self._available is None

    def many(self, size: int) -> int:
        """How many rows of a batch of that size give a negative."""
        others = max(size - 1, 1)
        return others if self.settings.candidates is None else min(self.settings.candidates, others)

    def weights_of(self, positives: NDArray[np.int32], corrected: bool) -> NDArray[np.float32]:
        """The weight of each positive of a batch as a negative of other rows, ``1 / (k q_j)`` if it is corrected."""
        inside = self._inside[positives].astype(np.float32)
        if not corrected:
            return inside
        return np.asarray(inside * (np.exp(-self._log_share[positives]) / self.many(len(positives))), np.float32)

    def _draw(self, request: SampleRequest) -> Draw:
        backend, size = request.backend, request.batch_size
        many = self.many(size)
        numbers = backend.cast(backend.row_numbers(size + many), np.int64)
        whole = request.whole
        rows = numbers[:size] if whole is None else backend.cast(whole.rows, np.int64)
        positives = request.positives if whole is None else whole.positives
        after = (rows[:, None] + 1 + numbers[None, :many]) % max(size, 1)  # (B, C)
        ids = backend.gather(backend.cast(positives, np.int64), after)
        allowed = backend.gather(backend.cached_to_device(self._inside), ids) & (after != rows[:, None])
        ids = backend.xp.where(allowed, ids, -1)
        backend.kernels.drop_seen(*self._seen(request), ids)
        weights, tries = backend.unit_weights(ids, each=1)
        log_q = None
        if request.with_log_q:
            share = backend.gather(backend.cached_to_device(self._log_share), ids.clip(0))
            log_q = backend.xp.where(ids >= 0, share, 0.0)
        return Draw(ids, weights, tries, None if log_q is None else backend.cast(log_q, np.float32))
