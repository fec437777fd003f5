"""The base class of bound samplers: one call that picks negatives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from vitalrank._util.checks import to_int_below
from vitalrank._util.threads import limited
from vitalrank._util.typing import DeviceArray, GivenArray
from vitalrank.errors import SettingError
from vitalrank.interactions import Interactions, check_log
from vitalrank.kernels.proposals import Proposal
from vitalrank.samplers.available import Available
from vitalrank.samplers.backends import ArrayBackend, backend_of
from vitalrank.samplers.checking import checked_ids, checked_vectors
from vitalrank.samplers.counting import Counts
from vitalrank.samplers.draws import Draw, SampleRequest, ScoreFunction, WholeBatch
from vitalrank.samplers.proposals import pool_of, seen_by
from vitalrank.samplers.settings import Sampler

_SCORING_BYTES = 24  # for each candidate, while it is scored: the scorer's ids, its scores, and ours of them


class BoundSampler(ABC):
    """A sampler bound to a log and a seed: call it with a batch, get a ``Draw``."""

    needs_scores = True
    has_margin = False  # whether a draw says which rows came within a margin
    graph_capturable = True  # whether every call does the same work, so that it can be captured once and replayed
    needs_refresh = False  # whether it keeps an index of the item table, which ``refresh`` rebuilds when it is stale
    weighs_by_score = False  # whether its weights follow the scores
    follows_batch = False  # whether it draws from the positives of the batch
    keeps_candidates = False  # whether it gives all its candidates in place of k negatives
    fits_blocks = True  # whether it may draw from a random part of the items; known negatives lie in any part
    differentiable_weights = False  # whether weights are the softmax of ``logits``, with the gradient through them

    def __init__(
        self,
        settings: Sampler,
        train: Interactions,
        seed: int,
        allowed: ArrayLike | None,
        threads: int | None,
        count: bool,
    ) -> None:
        check_log("train", train)
        number = to_int_below("seed", seed, 0, 2**64)
        self.settings = settings
        self.train = train
        self.seed: Any = np.uint64(number)
        self.threads = None if threads is None else to_int_below("threads", threads, 1, 2**16)
        self.pool = pool_of(train.n_items, allowed)
        self.seen = seen_by(train, self.pool)
        self.counts = Counts(train.n_items) if count else None
        self._available: Available | None = None
        self.next_step = 0  # of a call that names no step
        self._device_backends: dict[str, ArrayBackend] = {}

    def __repr__(self) -> str:
        return f"{self.settings!r} on {self.train.n_users:,} users, {len(self.pool):,} of {self.train.n_items:,} items"

    def keep_to_available(self) -> None:
        """Draw only items that existed at the time of the positive from now on."""
        self._available = Available(self.train, self.seen, self.pool)

    def reset(self) -> None:
        """Drop an index of earlier tables (sorted factors, clusters): called at the start of an epoch."""
        return

    def use_blocks(self, blocks: int) -> None:
        """The items of its log are one of so many random blocks: estimate ranks among the items of all."""
        return

    def refresh(
        self, backend: ArrayBackend, table: DeviceArray, step: int, draws: int, *, check_finite: bool = False
    ) -> None:
        """Rebuild the index if it is stale at this step, with so many draws a step.

        ``draw`` calls it; a captured graph cannot, so an engine that replays one does.
        """
        return

    def log_density(self, request: SampleRequest, ids: DeviceArray) -> DeviceArray | None:
        """Log of the probability of proposing these ids (B, k) for each row; None without a density."""
        return None

    def logits(self, scores: DeviceArray, log_q: DeviceArray) -> DeviceArray:
        """Logits whose softmax is the weights, where ``differentiable_weights``."""  # (B, k)
        raise NotImplementedError

    def __call__(
        self,
        queries: GivenArray | None = None,
        item_table: GivenArray | None = None,
        users: GivenArray | None = None,
        positives: GivenArray | None = None,
        *,
        step: int | None = None,
        k: int = 1,
        rows: GivenArray | None = None,
        score: ScoreFunction | None = None,
        check_finite: bool = True,
        whole: WholeBatch | None = None,
    ) -> Draw:
        """Pick k negatives for each positive.

        Parameters
        ----------
        queries, item_table
            Vectors whose dot product is the score, (B, d) and (n, d); NumPy or torch.
        users, positives
            Internal ids, (B,).
        step
            Number of the training step: the same step draws the same negatives, another step others. A loop that
            is to be resumed, or repeated from its middle, gives it. None stands for one more than in the call
            before (``next_step``; 0 in the first), so that a loop that leaves it out does not train on the same
            negatives over and over.
        k
            Negatives per positive; samplers that keep all their candidates take k from their settings.
        rows
            Row numbers for the random counters, (B,); default 0 to B-1. A row's draw follows its number, so that
            a batch may be cut or reordered without changing what is drawn.
        score
            ``fn(rows (R,), ids (R, C)) -> (R, C)`` in place of the dot product; ``rows`` are positions in the batch.
        check_finite
            Whether vectors and scores that are NaN or infinite are an error. Of ``item_table`` the rows that the call
            reads are checked. Without the check such candidates may be drawn, though never one that the user has seen,
            and weights may be NaN.
        whole
            The batch that this call is a part of, where ranks share one.
        """
        backend = backend_of(queries, item_table, users, positives)
        if backend.device != "cpu" and score is None and self._available is None:
            backend = self.device_backend(backend.device)
        step = self.next_step if step is None else to_int_below("step", step, 0, 2**32)
        if users is None or positives is None:
            raise SettingError("a sampler needs users and positives, both (B,) internal ids.")
        k = to_int_below("k", k, 1, 2**24)
        who, what, numbers = checked_ids(backend, self.train, users, positives, rows)
        asked, table = checked_vectors(backend, queries, item_table, self.train.n_items, what, check_finite)
        if score is None and self.needs_scores and (table is None or asked is None):
            raise SettingError(f"{self.settings!r} scores candidates: give queries and item_table, or score=.")
        scorer = None if score is None else backend.wrap_scorer(score)
        counter = backend.counter(self.seed, step, numbers)
        request = SampleRequest(
            backend, who, what, counter, step, k, asked, table, scorer, check_finite=check_finite, whole=whole
        )
        self.next_step = (step + 1) % 2**32
        given: Draw = backend.to_caller(self.draw(request))
        if self.counts is not None:
            self.counts.gather()
        return given

    def draw(self, request: SampleRequest) -> Draw:
        """Pick negatives for a batch that is checked already."""
        with limited(self.threads):
            if self._available is not None:
                request = self._available.apply(request)
            if self.needs_refresh and request.queries is not None and request.table is not None:
                draws = request.batch_size * request.k
                self.refresh(request.backend, request.table, request.step, draws, check_finite=request.check_finite)
            draw = self._draw(request)
        if self.counts is not None:
            self.counts.on(request.backend).add(request.positives, draw)
        return draw

    def device_backend(self, device: str) -> ArrayBackend:
        """The array backend of a device, with what this sampler caches there."""
        if device not in self._device_backends:
            import torch

            from vitalrank.samplers.cuda_backend import CudaBackend

            self._device_backends[device] = CudaBackend(torch.device(device))
        return self._device_backends[device]

    @abstractmethod
    def _draw(self, request: SampleRequest) -> Draw: ...

    def _tries(self, request: SampleRequest, each: int) -> DeviceArray:
        """``each`` tries for every row that had something to draw."""  # (B,)
        seen, rows = self._seen(request)
        result: DeviceArray = request.backend.cast((request.backend.gather(seen.unseen, rows) > 0) * each, np.int32)
        return result

    def _candidates(self, proposal: Proposal, request: SampleRequest, count: int) -> DeviceArray:
        """``count`` unseen candidates for each of the k negatives of each row."""  # (B, k, count)
        backend = request.backend
        ids = backend.empty((len(request), request.k, count), np.int64, _SCORING_BYTES)
        turns = backend.full((len(request), request.k), 0, np.int64)
        (seen, users), proposal = self._seen(request), backend.cached_to_device(proposal)
        backend.kernels.draw_candidates(proposal, seen, request.counter, users, request.positives, 0, turns, ids)
        result: DeviceArray = ids
        return result

    def _seen(self, request: SampleRequest) -> tuple[Any, DeviceArray]:
        """Seen items as kernels read them, and what stands for each row's user in them."""  # (B,)
        if request.seen is not None:
            return request.seen, np.arange(len(request), dtype=np.int32)
        return request.backend.cached_to_device(self.seen), request.users
