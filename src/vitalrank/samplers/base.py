"""The base classes of samplers: settings that bind to a log, and one call that picks negatives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import Field, dataclass, fields
from types import MappingProxyType
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from vitalrank._util.checks import to_int_below
from vitalrank._util.threads import limited
from vitalrank._util.typing import DeviceArray, GivenArray
from vitalrank.errors import SettingError
from vitalrank.interactions import Interactions, check_log
from vitalrank.kernels.proposals import Proposal
from vitalrank.samplers.backends import ArrayBackend, backend_of
from vitalrank.samplers.checking import checked_ids, checked_vectors
from vitalrank.samplers.counting import Counts
from vitalrank.samplers.draws import Draw, SampleRequest, Scorer
from vitalrank.samplers.proposals import pool_of, seen_by

LATER: Mapping[str, bool] = MappingProxyType({"later": True})  # of a setting's field: version 0.1 did not have it


@dataclass(frozen=True, repr=False)
class Sampler(ABC):
    """Settings of a negative sampler. They say what to draw; ``bind`` says from which log."""

    def __repr__(self) -> str:
        # Runs of version 0.1 know their sampler by this text: a setting that came later shows once it is set. (Their
        # dataclasses say repr=False.)
        shown = [field for field in fields(self) if not ("later" in field.metadata and self._has_default(field))]
        return f"{type(self).__name__}({', '.join(f'{field.name}={getattr(self, field.name)!r}' for field in shown)})"

    def _has_default(self, field: Field[Any]) -> bool:
        return bool(getattr(self, field.name) == field.default)

    def bind(
        self,
        train: Interactions,
        seed: int = 0,
        *,
        allowed: ArrayLike | None = None,
        threads: int | None = None,
        count: bool = False,
    ) -> BoundSampler:
        """Make the sampler ready for a log.

        Parameters
        ----------
        train
            The log whose pairs are never drawn and whose degrees make the proposal.
        seed
            Key of the random generator. A draw depends on it, the step and the row, not on threads or history.
        allowed
            Draw only from these items: a boolean mask over the catalogue, or internal ids.
        threads
            At most so many threads; the draws are the same for any number.
        count
            Keep counts for the analysis of class imbalance in ``counts``.
        """
        return self._bound()(self, train, seed, allowed, threads, count)

    def __call__(self, *args: Any, **options: Any) -> NoReturn:
        """Settings draw nothing: say how to bind them."""
        raise SettingError(
            f"{self!r} is not bound to a log; bind it first: {type(self).__name__}().bind(train, seed=0), "
            "then call what that returns."
        )

    @abstractmethod
    def _bound(self) -> type[BoundSampler]: ...


class BoundSampler(ABC):
    """A sampler bound to a log and a seed: call it with a batch, get a ``Draw``."""

    needs_scores = True
    has_margin = False  # whether a draw says which rows came within a margin
    graph_capturable = True  # whether every call does the same work, so that it can be captured once and replayed
    needs_refresh = False  # whether it keeps an index of the item table, which ``refresh`` rebuilds when it is stale
    weighs_by_score = False  # whether its weights follow the scores
    follows_batch = False  # whether it draws from the positives of the batch
    keeps_candidates = False  # whether it gives all its candidates in place of k negatives
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
        self.next_step = 0  # of a call that names no step
        self._device_backends: dict[str, ArrayBackend] = {}

    def __repr__(self) -> str:
        return f"{self.settings!r} on {self.train.n_users:,} users, {len(self.pool):,} of {self.train.n_items:,} items"

    def reset(self) -> None:
        """Drop an index of earlier tables (sorted factors, clusters): called at the start of an epoch."""
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
        score: Scorer | None = None,
        check_finite: bool = True,
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
        """
        backend = backend_of(queries, item_table, users, positives)
        if backend.device != "cpu" and score is None:
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
        request = SampleRequest(backend, who, what, counter, step, k, asked, table, scorer, check_finite=check_finite)
        self.next_step = (step + 1) % 2**32
        given: Draw = backend.to_caller(self.draw(request))
        if self.counts is not None:
            self.counts.gather()
        return given

    def draw(self, request: SampleRequest) -> Draw:
        """Pick negatives for a batch that is checked already."""
        with limited(self.threads):
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
        unseen = request.backend.gather(request.backend.cached_to_device(self.seen.unseen), request.users)
        result: DeviceArray = request.backend.cast((unseen > 0) * each, np.int32)
        return result

    def _candidates(self, proposal: Proposal, request: SampleRequest, count: int) -> DeviceArray:
        """``count`` open candidates for each of the k negatives of each row."""  # (B, k, count)
        backend = request.backend
        ids = backend.empty((len(request), request.k, count), np.int64)
        turns = backend.full((len(request), request.k), 0, np.int64)
        proposal, seen = backend.cached_to_device(proposal), backend.cached_to_device(self.seen)
        users, positives = request.users, request.positives
        backend.kernels.draw_candidates(proposal, seen, request.counter, users, positives, 0, turns, ids)
        result: DeviceArray = ids
        return result
