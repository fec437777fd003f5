"""The network of a caller's module that scores pairs of a user and an item."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from vitalrank._util.typing import Array
from vitalrank.engines.network import Network, device_of, eval_mode
from vitalrank.errors import SettingError
from vitalrank.interactions import Interactions
from vitalrank.models.custom_modules import explain_failure, first_and_last

_CELLS = 1 << 20  # scores computed at once
_NEIGHBOURS = 32  # users who stand in for one outside the log


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

    def pair_scores(self, users: Array, start: int, stop: int) -> NDArray[np.float32]:
        """Scores of items ``start..stop-1`` for each user, in blocks."""  # (B, stop - start)
        device = device_of(self)
        rows = torch.from_numpy(np.asarray(users, np.int64)).to(device)
        ids = torch.arange(start, stop, device=device)
        out = np.empty((len(users), stop - start), np.float32)
        block = max(1, _CELLS // max(1, stop - start))
        with eval_mode(self):
            for first in range(0, len(users), block):
                part = rows[first : first + block]
                out[first : first + block] = self.score(part, ids.repeat(len(part), 1)).cpu().numpy()
        return out

    def check(self, n_users: int, n_items: int) -> None:
        """Refuse a module that does not score the ids of a log."""
        users, items = first_and_last(n_users, self), first_and_last(n_items, self)
        pairs = f"user ids 0 and {n_users - 1} and item ids 0 and {n_items - 1}"
        with eval_mode(self), explain_failure("score module", pairs):
            self.score(users, items.repeat(2, 1))


def similar_histories(log: Interactions, items: Array) -> tuple[Array, NDArray[np.float32]]:
    """The users whose items are most like a history, by the cosine of the sets; equal ones by id.

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.Interactions.from_arrays([1, 1, 2, 3, 3], [7, 8, 7, 8, 9])
    >>> similar_histories(log, np.array([0]))[0].tolist()
    [1, 0]
    """
    wanted = np.unique(items)
    is_wanted = np.zeros(log.n_items, bool)
    is_wanted[wanted] = True
    shared = np.bincount(log.users[is_wanted[log.items]], minlength=log.n_users)  # (U,)
    likeness = np.zeros(log.n_users, np.float32)
    np.divide(shared, np.sqrt(log.user_degree * len(wanted)), out=likeness, where=shared > 0, casting="same_kind")
    order = np.argsort(-likeness, kind="stable")[:_NEIGHBOURS]
    order = order[likeness[order] > 0] if likeness.any() else order  # nobody has any of them: all count alike
    return order, likeness[order] if likeness.any() else np.ones(len(order), np.float32)
