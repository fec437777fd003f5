"""The loss of a batch of scores in torch, and what an epoch counts of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from vitalrank.config import TrainConfig
from vitalrank.engines.correcting import check_loss, positive_weight, score_scale
from vitalrank.losses import VANISHED, find_loss
from vitalrank.samplers.adapter import SamplerAdapter
from vitalrank.samplers.base import BoundSampler
from vitalrank.samplers.draws import Draw


class BatchLoss:
    """A loss with its settings, over the scores of positives and of the negatives that a sampler drew.

    Parameters
    ----------
    loss
        Mean loss of positives (B,), negatives (B, k) and weights (B, k).
    sampler, config
        Whose weights it takes, and the settings of the loss.
    n_items
        Size of the catalogue.
    """

    def __init__(
        self, loss: Callable[..., Tensor], sampler: BoundSampler | SamplerAdapter, config: TrainConfig, n_items: int
    ) -> None:
        check_loss(config, sampler)
        self._loss, self._sampler, self._config, self._n_items = loss, sampler, config, n_items
        self._kind, self._scale = find_loss(config.loss), score_scale(config)

    def scores(self, scores: Tensor, draw: Draw) -> Tensor:
        """The scores as the loss reads them: negatives mixed with the positive, all divided by the temperature."""
        mix: Tensor | None = draw.mix
        if mix is not None:
            negatives = scores[:, 1:]
            scores = torch.cat([scores[:, :1], negatives + mix * (scores[:, :1] - negatives)], 1)
        return scores if self._scale == 1.0 else scores * self._scale

    def weights(self, draw: Draw, negatives: Tensor) -> Tensor:
        """The sampler's weights; recomputed from the scores where they carry a gradient."""  # (B, k)
        if not self._sampler.differentiable_weights:
            weights: Tensor = draw.weights
            return weights
        logits: Any = self._sampler.logits(negatives, draw.log_q)
        return torch.softmax(logits.masked_fill(draw.ids < 0, -math.inf), 1)

    def mean(self, scores: Tensor, weights: Tensor, sample_weight: Tensor | None) -> Tensor:
        """The mean loss of a batch, each positive's scaled by its weight where the log has weights."""
        given: dict[str, Any] = {} if sample_weight is None else {"sample_weight": sample_weight}
        if self._kind.is_calibrated:
            given["positive_weight"] = positive_weight(self._config, weights.shape[1], self._n_items)
        return self._loss(scores[:, 0], scores[:, 1:], weights, **given)

    def sums(self, draw: Draw, scores: Tensor, loss: Tensor, sample_weight: Tensor | None) -> dict[str, Tensor]:
        """What a batch adds to the totals of an epoch."""
        start = self.mean(torch.zeros_like(scores), draw.weights, sample_weight) * len(scores)  # at equal scores
        if self._kind.is_bilateral:  # it may be negative then
            start = start.abs() + draw.weights.sum()
        parts = {
            "loss": loss,
            "start_loss": start,
            "vanished": (self._max_slope(scores) < VANISHED).sum(),
            "tries": draw.tries.sum(),
        }
        return parts if draw.violated is None else {**parts, "violated": draw.violated.sum()}

    def _max_slope(self, scores: Tensor) -> Tensor:
        """The largest slope of the loss by any score of a row, without the weights."""  # (B,)
        scores.requires_grad_()
        loss = self._loss(scores[:, 0], scores[:, 1:], None) * len(scores)
        slopes = torch.autograd.grad(loss, scores)[0].abs()
        # In a pairwise loss the positive's slope is the sum over its pairs, not one of them.
        return (slopes[:, 1:] if self._kind.is_pairwise else slopes).amax(1)
