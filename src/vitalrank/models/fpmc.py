"""Factorized personalized Markov chains: who the user is, and what came just before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vitalrank._util.checks import to_int
from vitalrank._util.typing import Array
from vitalrank.engines.base import Table
from vitalrank.engines.network import device_of
from vitalrank.interactions import Interactions
from vitalrank.models.networks import DotNetwork, embedding, embedding_with_none, mean_rows
from vitalrank.models.torch_model import TorchModel, solve_first_half


class FPMC(TorchModel):
    """``score(u, i) = UI_u . IU_i + mean over the last items l of (LI_l . IL_i)``.

    One dot product: ``[UI_u ; mean LI] . [IU_i ; IL_i]``. A positive without history is trained by the first half
    alone.

    Parameters
    ----------
    dim
        Columns of each of the two halves of a vector.
    length
        Items of the basket: the last ones before the positive.

    References
    ----------
    Rendle, Freudenthaler and Schmidt-Thieme, "Factorizing personalized Markov chains for next-basket
    recommendation", WWW 2010.

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.datasets.synthetic(users=50, items=40, interactions=600, seed=0)
    >>> model = vr.FPMC(dim=8).fit(log, sampler=vr.Uniform(), epochs=2, seed=0)
    >>> model.recommend(log.user_ids[:2], n=5)[0].shape
    (2, 5)
    """

    tables: ClassVar[Mapping[str, Table]] = {
        "network.users.weight": Table("user"),
        "network.items.weight": Table("item"),
        "network.baskets.weight": Table("item"),
    }

    def __init__(self, dim: int = 64, length: int = 1) -> None:
        super().__init__()
        self.dim = to_int("dim", dim)
        self.length = to_int("length", length)

    def settings(self) -> dict[str, Any]:
        return {"dim": self.dim, "length": self.length}

    def new_network(self, train: Interactions) -> FPMCNetwork:
        return FPMCNetwork(train.n_users, train.n_items, self.dim, self.length)

    def query_of(self, items: Array) -> NDArray[np.float32]:
        """The query of someone with this history, oldest first: their basket is known, their own half solved for."""
        network = self.network
        assert isinstance(network, FPMCNetwork)
        recent = torch.from_numpy(items[None, -self.length :]).long().to(device_of(network))
        with torch.no_grad():
            basket = mean_rows(network.baskets, recent)[0]  # (d,)
        return solve_first_half(self.item_table, basket.cpu().numpy(), items)


class FPMCNetwork(DotNetwork):
    """Three tables: users, baskets, and the two halves of the items in one."""

    graph_capturable = True
    depends_on_threads = False

    def __init__(self, n_users: int, n_items: int, dim: int, length: int) -> None:
        super().__init__()
        self.length = length
        self.users = embedding(n_users, dim)  # UI
        self.baskets = embedding_with_none(n_items, dim)  # LI
        self.items = embedding(n_items, 2 * dim)  # [IU ; IL]

    def encode(self, users: Tensor, context: Tensor | None) -> Tensor:
        assert context is not None
        return torch.cat([self.users(users), mean_rows(self.baskets, context)], 1)  # (B, 2d)

    def rows(self, ids: Tensor) -> Tensor:
        return self.items(ids)  # type: ignore[no-any-return]

    def table(self) -> Tensor:
        return self.items.weight.detach()
