"""Collaborative metric learning: users and items as points, near means liked."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vitalrank import samplers
from vitalrank._util.checks import to_float, to_int
from vitalrank.config import TrainConfig
from vitalrank.engines.base import Table
from vitalrank.errors import SettingError
from vitalrank.interactions import Interactions
from vitalrank.losses import hinge
from vitalrank.models.networks import DotNetwork, embedding
from vitalrank.models.torch_model import TorchModel
from vitalrank.samplers.settings import Sampler


class CML(TorchModel):
    """``score(u, i) = u . v_i - |v_i|^2 / 2``, which orders items as ``-|u - v_i|^2`` does.

    The loss is the hinge in squared distance, ``w_j max(0, margin + |u - v_i|^2 - |u - v_j|^2)``. Negatives and
    weights come from :class:`vitalrank.samplers.CML` unless another sampler is given. After each step every point
    lies in the unit ball.

    Parameters
    ----------
    dim
        Dimensions of the space.
    covariance
        Weight of a term that keeps the dimensions from repeating each other: the sum of the squared covariances of
        different coordinates over the points of a batch. 0 leaves it out.

    References
    ----------
    Hsieh, Yang, Cui, Lin, Belongie and Estrin, "Collaborative metric learning", WWW 2017.

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.datasets.synthetic(users=50, items=40, interactions=600, seed=0)
    >>> model = vr.CML(dim=8).fit(log, epochs=2, seed=0)
    >>> bool((abs(model.queries(log.users)[:, :8]) <= 1.0).all())
    True
    """

    constant_columns = 1
    tables: ClassVar[Mapping[str, Table]] = {
        "network.users.weight": Table("user"),
        "network.items.weight": Table("item"),
    }
    defaults: ClassVar[Mapping[str, Any]] = {"loss": "hinge", "margin": 1.5, "reg": 0.0}

    def __init__(self, dim: int = 64, covariance: float = 0.0) -> None:
        super().__init__()
        self.dim = to_int("dim", dim)
        self.covariance = to_float("covariance", covariance, least=0)

    def settings(self) -> dict[str, Any]:
        return {"dim": self.dim, "covariance": self.covariance}

    def default_sampler(self, config: TrainConfig) -> Sampler:
        return samplers.CML(margin=config.margin)

    def new_network(self, train: Interactions) -> CMLNetwork:
        return CMLNetwork(train.n_users, train.n_items, self.dim, self.covariance)

    def complete_warm_start(self, users: NDArray[Any], items: NDArray[Any]) -> None:
        network = self.network
        assert isinstance(network, CMLNetwork)
        network.after_step({"users.weight": torch.from_numpy(users), "items.weight": torch.from_numpy(items)})

    def similarities(self, item: int) -> NDArray[np.float32]:
        points = self.item_table[:, : self.dim]
        return np.asarray(-((points - points[item]) ** 2).sum(1), np.float32)


class CMLNetwork(DotNetwork):
    """Points of users, and of items with ``-|v|^2 / 2`` kept beside them."""

    graph_capturable = True

    def __init__(self, n_users: int, n_items: int, dim: int, covariance: float) -> None:
        super().__init__()
        self._dim = dim
        self._covariance = covariance
        self.depends_on_threads = self.couples_batch = bool(covariance)  # by a matrix product over the batch
        self._points: list[Tensor] = []  # of the last batch, for the covariance
        self.users = embedding(n_users, dim, deviation=1.0 / math.sqrt(dim))
        self.items = embedding(n_items, dim + 1, deviation=1.0 / math.sqrt(dim))
        self.after_step({"users.weight": torch.arange(n_users), "items.weight": torch.arange(n_items)})

    def loss(self, config: TrainConfig) -> Callable[..., Tensor]:
        if config.loss != "hinge":
            raise SettingError(f"CML trains with loss='hinge' in squared distance, not {config.loss!r}.")
        margin = config.margin

        def in_squared_distance(
            pos: Tensor, neg: Tensor, weights: Tensor | None = None, *, sample_weight: Tensor | None = None
        ) -> Tensor:
            # |u - v|^2 = |u|^2 - 2 s, so a squared distance differs by twice what the score does.
            loss: Tensor = 2.0 * hinge(pos, neg, weights, margin=margin / 2.0, sample_weight=sample_weight)
            return loss

        return in_squared_distance

    def encode(self, users: Tensor, context: Tensor | None) -> Tensor:
        points: Tensor = self.users(users)
        self._points = [points]
        return torch.cat([points, points.new_ones(len(points), 1)], 1)  # (B, d + 1)

    def rows(self, ids: Tensor) -> Tensor:
        points = self.items(ids)[..., : self._dim]
        self._points.append(points.flatten(0, -2))
        return torch.cat([points, -0.5 * (points * points).sum(-1, keepdim=True)], -1)

    def table(self) -> Tensor:
        return self.items.weight.detach()

    def auxiliary_loss(self) -> Tensor | None:
        points, self._points = self._points, []
        if not self._covariance:
            return None
        shared = _covariance(torch.cat(points))
        return self._covariance * (shared.square().sum() - shared.diagonal().square().sum())

    @torch.no_grad()
    def after_step(self, touched: Mapping[str, Tensor]) -> None:
        for name, rows in touched.items():
            table = self.get_parameter(name)
            points = table[rows, : self._dim]
            points /= torch.linalg.vector_norm(points, dim=1, keepdim=True).clamp(min=1.0)
            if table is self.items.weight:
                points = torch.cat([points, -0.5 * (points * points).sum(1, keepdim=True)], 1)
            table[rows] = points


def _covariance(points: Tensor) -> Tensor:
    """Of the coordinates, over points (n, d); ``torch.cov`` makes the host wait for the device."""  # (d, d)
    apart = points - points.mean(0)
    return apart.T @ apart / max(len(points) - 1, 1)
