"""Bound samplers that are not of this library: called as they are, with cautious answers to what else is asked."""

from __future__ import annotations

from typing import Any

from vitalrank.samplers.base import BoundSampler


class ForeignSampler:
    """A bound sampler of the caller's own, in the words of :class:`BoundSampler`.

    It must be callable as one; ``reset``, ``needs_scores``, ``weights_flow`` with ``logits``, ``seed`` and ``counts``
    count where it has them. It is never captured for a replay, in which its call would not run.

    Examples
    --------
    >>> ForeignSampler(lambda **call: None, seed=3).needs_scores
    True
    """

    is_steady = False
    renews = False

    def __init__(self, sampler: Any, seed: int) -> None:
        self._sampler = sampler
        self.seed = getattr(sampler, "seed", seed)
        self.needs_scores = bool(getattr(sampler, "needs_scores", True))
        self.weights_flow = bool(getattr(sampler, "weights_flow", False))
        self.has_margin = False  # until a draw of it says what violated

    def __call__(self, *given: Any, **options: Any) -> Any:
        """The sampler's own draw."""
        draw = self._sampler(*given, **options)
        self.has_margin = getattr(draw, "violated", None) is not None
        return draw

    def reset(self) -> None:
        """An epoch begins."""
        if hasattr(self._sampler, "reset"):
            self._sampler.reset()

    def logits(self, scores: Any, log_q: Any) -> Any:
        """As the sampler has them, where its weights flow."""
        return self._sampler.logits(scores, log_q)

    @property
    def counts(self) -> Any:
        """The sampler's own, if it keeps some."""
        return getattr(self._sampler, "counts", None)


def as_bound(sampler: Any, seed: int) -> Any:
    """A bound sampler of ours as it is, any other behind a :class:`ForeignSampler` with that seed unless it has one.

    Examples
    --------
    >>> import vitalrank as vr
    >>> bound = vr.Uniform().bind(vr.Interactions.from_arrays([0, 1], [0, 1]))
    >>> as_bound(bound, seed=0) is bound
    True
    """
    return sampler if isinstance(sampler, BoundSampler) else ForeignSampler(sampler, seed)
