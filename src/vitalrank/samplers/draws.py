"""A call of a sampler and its answer: what is asked of a batch, and the negatives drawn for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.typing import DeviceArray
from vitalrank.errors import SettingError
from vitalrank.kernels.proposals import Seen
from vitalrank.samplers.backends import ArrayBackend

# fn(rows (R,), ids (R, C)) -> (R, C): the score of each candidate for each row of the batch.
ScoreFunction = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Draw:
    """Negatives for a batch of B positives.

    Parameters
    ----------
    ids
        Internal item ids, (B, k) int64; -1 where the user has no unseen item.
    weights
        Factor of each pair in the loss, (B, k) float32; 0 where the id is -1.
    tries
        Candidates looked at for each positive, (B,) int32: K of Algorithm 2 where the sampler draws until.
    log_q
        Log of the probability with which each id was proposed, (B, k) float32, if the proposal has a density.
    violated
        Whether each of the k negatives came within the margin, (B,) bool, if the sampler has a margin.
    mix
        Share m of the positive in each negative, (B, k) float32, from 0 to 1: its vector is ``m v_i + (1 - m) v_j``,
        so its score is ``m s_i + (1 - m) s_j``. None: nothing is mixed.
    """

    ids: Any  # arrays or tensors, as the caller gave them
    weights: Any
    tries: Any
    log_q: Any = None
    violated: Any = None
    mix: Any = None


@dataclass(frozen=True)
class WholeBatch:
    """The batch of which a request is a part, where the ranks of a group share it.

    Attributes
    ----------
    size
        Positives of the batch.
    rows
        Those of the request: their numbers in the batch, (B,).
    positives
        All positives of the batch, (size,), for a sampler that draws from them.
    """

    size: int
    rows: DeviceArray
    positives: DeviceArray | None = None


@dataclass(frozen=True)
class SampleRequest:
    """One checked call, as the kernels read it: NumPy arrays, or tensors of a GPU.

    An engine makes it from arrays it knows to be right; ``BoundSampler.__call__`` makes it from a caller's.
    """

    backend: ArrayBackend
    users: DeviceArray  # (B,) int32
    positives: DeviceArray  # (B,) int32
    counter: Any
    step: int
    k: int
    queries: DeviceArray | None = None  # (B, d) float32
    table: DeviceArray | None = None  # (n, d) float32
    scorer: ScoreFunction | None = None
    with_log_q: bool = True
    check_finite: bool = False  # whether scores that are not finite are an error; engines check their loss instead
    whole: WholeBatch | None = None  # None: the request is the batch
    seen: Seen | None = None  # of the rows themselves, which count later items as seen; None: that of the users

    @property
    def batch_size(self) -> int:
        """Positives of the whole batch."""
        return len(self) if self.whole is None else self.whole.size

    def __len__(self) -> int:
        return len(self.users)

    @property
    def has_vectors(self) -> bool:
        """Whether scores are dot products that a sampler may look into."""
        return self.queries is not None and self.table is not None

    def vectors(self, who: object) -> tuple[DeviceArray, DeviceArray]:
        """Queries and item table, or a sentence that they are missing."""
        if self.queries is None or self.table is None:
            raise SettingError(f"{who!r} needs vectors: call it with queries (B, d) and item_table (n, d).")
        return self.queries, self.table

    def score(self, ids: DeviceArray, rows: DeviceArray | None = None) -> DeviceArray:
        """Scores of candidates (R, C) of some rows of the batch (default: all), by scorer or dot product."""
        if self.scorer is not None:
            given: NDArray[Any] = np.asarray(self.scorer(np.arange(len(self)) if rows is None else rows, ids))
            scores: DeviceArray = given
        else:
            scores = self.backend.empty(tuple(ids.shape), np.float32)
            queries = self.queries if rows is None or self.queries is None else self.queries[rows]
            self.backend.kernels.score(queries, self.table, ids, scores)
        return self.checked_scores(scores, ids >= 0) if self.check_finite else scores

    def checked_scores(self, scores: DeviceArray, wanted: DeviceArray | bool = True) -> DeviceArray:
        """The scores, or an error if one of those ``wanted`` (a mask of the same shape) is NaN or infinite."""
        xp = self.backend.xp
        if not bool((xp.isfinite(scores) | (wanted ^ True)).all()):
            raise SettingError(
                "a candidate's score is NaN or infinite; check the vectors or score= for values that are not finite "
                "or too large."
            )
        return scores
