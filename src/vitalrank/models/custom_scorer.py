"""Any torch module that scores pairs of a user and an item, as a recommender."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from vitalrank.engines.network import Network, device_of, eval_mode
from vitalrank.errors import SettingError
from vitalrank.interactions import Interactions
from vitalrank.models.base import Array
from vitalrank.models.custom_modules import CustomModel, check_kind, checked_clip, explain_failure, first_and_last

_CELLS = 1 << 20  # scores computed at once


class TorchScorer(CustomModel):
    """``score(u, i) = module(u, i)``: what ``TorchRecommender(score=module)`` gives.

    Examples
    --------
    >>> import torch, vitalrank as vr
    >>> class Sum(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.users, self.items = torch.nn.Embedding(50, 1), torch.nn.Embedding(40, 1)
    ...     def forward(self, users, ids):
    ...         return self.users(users) + self.items(ids)[..., 0]
    >>> log = vr.datasets.synthetic(users=50, items=40, interactions=600, seed=0)
    >>> vr.TorchRecommender(score=Sum()).fit(log, vr.VINS(), epochs=2, seed=0).recommend(log.user_ids[0], n=3)[0].shape
    (3,)
    """

    def __init__(self, score: nn.Module, *, clip: float | None = 5.0) -> None:
        super().__init__()
        self.clip = checked_clip(clip)
        check_kind("score", score, nn.Module)
        self._network = ScoreNetwork(score, self.clip)

    def new_network(self, train: Interactions) -> Network:
        network = self.network
        users, items = (first_and_last(count, network) for count in (train.n_users, train.n_items))
        pairs = f"user ids 0 and {train.n_users - 1} and item ids 0 and {train.n_items - 1}"
        with eval_mode(network), explain_failure("score module", pairs):
            network.score(users, items.repeat(2, 1))
        return network

    def settings(self) -> dict[str, Any]:
        return {"clip": self.clip}

    def meta(self) -> dict[str, Any]:
        return {**super().meta(), "class": "TorchRecommender"}

    def scores(self, users: Array, start: int, stop: int) -> NDArray[np.float32]:
        device = device_of(self.network)
        asked = torch.from_numpy(np.asarray(users, np.int64)).to(device)
        ids = torch.arange(start, stop, device=device)
        out = np.empty((len(users), stop - start), np.float32)
        block = max(1, _CELLS // max(1, stop - start))
        with eval_mode(self.network):
            for first in range(0, len(users), block):
                part = asked[first : first + block]
                out[first : first + block] = self.network.score(part, ids.repeat(len(part), 1)).cpu().numpy()
        return out

    def history_scores(self, items: Array) -> NoReturn:
        raise SettingError("a model given by score= knows its own users only; it cannot fold in a history.")

    def similarities(self, item: int) -> NoReturn:
        raise SettingError("a model given by score= has no item vectors to compare.")


class ScoreNetwork(Network):
    """The network of a caller's scorer; the users' part of the score is their ids."""

    uses_global_rng = True

    def __init__(self, scorer: nn.Module, clip: float | None) -> None:
        super().__init__()
        self.scorer = scorer
        self.clip = clip

    def encode(self, users: Tensor, context: Tensor | None) -> Tensor:
        return users

    def score(self, encoded: Tensor, ids: Tensor) -> Tensor:
        scores: Tensor = self.scorer(encoded, ids)
        if scores.shape != ids.shape:  # else a loss would stretch them to fit
            raise SettingError(
                f"the score module makes {tuple(scores.shape)} of ids {tuple(ids.shape)}; "
                "it must give one score for each id, in the same shape."
            )
        return scores

    def sampler_inputs(self, encoded: Tensor) -> dict[str, Any]:
        def score(rows: Tensor, ids: Tensor) -> Tensor:
            with eval_mode(self):
                return self.score(encoded[rows], ids).float()

        return {"score": score}
