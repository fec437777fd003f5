"""Samplers that draw once from a fixed proposal: Uniform and Popularity."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.checks import check_beta, to_builtin_scalars
from vitalrank._util.typing import DeviceArray
from vitalrank.samplers.base import BoundSampler
from vitalrank.samplers.draws import Draw, SampleRequest
from vitalrank.samplers.item_proposal import BoundItemProposal
from vitalrank.samplers.proposals import degree_weights
from vitalrank.samplers.settings import Sampler


@dataclass(frozen=True)
class Popularity(Sampler):
    """Negatives by popularity (POP): ``q(j) = d_j^beta / sum of d^beta over the items u has not seen``.

    ``d_j`` is the number of users who touched j in the training log; an item absent from it counts as 1.

    Read the plain definition first: ``tests/reference/static.py``.

    Parameters
    ----------
    beta
        0 is uniform, 1 is proportional to the degree.

    References
    ----------
    Mikolov, Sutskever, Chen, Corrado and Dean, "Distributed representations of words and phrases", NeurIPS 2013.

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.Interactions.from_arrays(["a", "a", "b"], ["x", "y", "z"])
    >>> sampler = vr.Popularity(beta=0.75).bind(log, seed=0)
    >>> sampler(users=[0], positives=[0]).ids.tolist()  # user "a" has only "z" left
    [[2]]
    """

    beta: float = 0.75

    def __post_init__(self) -> None:
        to_builtin_scalars(self)
        check_beta(self.beta)

    def _bound(self) -> type[BoundSampler]:
        return BoundStatic


@dataclass(frozen=True)
class Uniform(Sampler):
    """Negatives alike (Uni): ``q(j) = 1 / (number of items u has not seen)``.

    Read the plain definition first: ``tests/reference/static.py``.

    References
    ----------
    Rendle, Freudenthaler, Gantner and Schmidt-Thieme, "BPR: Bayesian personalized ranking from implicit feedback",
    UAI 2009.

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.Interactions.from_arrays([0, 0, 1], [0, 1, 2])
    >>> draw = vr.Uniform().bind(log, seed=0)(users=[0, 1], positives=[0, 2], step=3)
    >>> draw.ids.shape, draw.tries.tolist()
    ((2, 1), [1, 1])
    """

    beta = 0.0

    def _bound(self) -> type[BoundSampler]:
        return BoundStatic


class BoundStatic(BoundItemProposal):
    """One draw per negative from ``d^beta`` over the unseen items."""

    settings: Uniform | Popularity

    needs_scores = False

    def _item_weights(self) -> NDArray[np.float32]:
        return degree_weights(self.train, self.settings.beta)

    def log_density(self, request: SampleRequest, ids: DeviceArray) -> DeviceArray:
        return self._log_q(request, ids)

    def _draw(self, request: SampleRequest) -> Draw:
        ids = self._candidates(self.proposal, request, 1)[:, :, 0]  # (B, k)
        weights, tries = request.backend.unit_weights(ids, each=1)
        log_q = self._log_q(request, ids) if request.with_log_q else None
        return Draw(ids, weights, tries, log_q)
