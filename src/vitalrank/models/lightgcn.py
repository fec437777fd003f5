"""LightGCN: matrix factorization whose vectors are smoothed over the graph of users and items."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from vitalrank import serving
from vitalrank._util.checks import check_bool, to_int
from vitalrank._util.typing import Array
from vitalrank.config import TrainConfig
from vitalrank.engines.network import device_of
from vitalrank.interactions import Interactions
from vitalrank.models.networks import DotNetwork, embedding
from vitalrank.models.torch_model import TorchModel

DEVIATION = 0.1  # of initial values


class LightGCN(TorchModel):
    """``score(u, i) = e_u . e_i`` with ``e = mean over k = 0 .. layers of A^k E``.

    ``E`` holds a vector of each user and item, and ``A`` the log as a graph: the edge of a user and an item weighs
    ``1 / sqrt(degree_u degree_i)``. So a vector takes up those of its neighbours, their neighbours, and so on, without
    weights or nonlinearities in between. Samplers read the vectors after propagation.

    Parameters
    ----------
    dim
        Columns of a vector.
    layers
        Times that the vectors are propagated; 0 is matrix factorization.
    normalize
        Scores are cosines of the propagated vectors; take a loss with a ``temperature`` then.

    References
    ----------
    He, Deng, Wang, Li, Zhang and Wang, "LightGCN: Simplifying and powering graph convolution network for
    recommendation", SIGIR 2020.

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.datasets.synthetic(users=50, items=40, interactions=600, seed=0)
    >>> model = vr.LightGCN(dim=8, layers=2).fit(log, sampler=vr.Uniform(), epochs=2, seed=0)
    >>> model.recommend(log.user_ids[:2], n=5)[0].shape
    (2, 5)
    """

    defaults: ClassVar[Mapping[str, Any]] = {"lr": 1e-3, "reg": 1e-4, "batch": 2048}

    def __init__(self, dim: int = 64, layers: int = 3, normalize: bool = False) -> None:
        super().__init__()
        check_bool("normalize", normalize)
        self.normalize = normalize
        self.dim = to_int("dim", dim)
        self.layers = to_int("layers", layers, least=0)

    def settings(self) -> dict[str, Any]:
        return {"dim": self.dim, "layers": self.layers, "normalize": self.normalize}

    def new_network(self, train: Interactions) -> LightGCNNetwork:
        return LightGCNNetwork(train, self.dim, self.layers, self.normalize)

    def query_of(self, items: Array) -> NDArray[np.float32]:
        """The query of someone with this history, as a node without a vector of its own: what reaches it in the graph.

        Without layers it is solved for, as that of matrix factorization is.
        """
        if not self.layers:
            return self.unit(serving.solve_query(self.item_table, items))
        known = np.unique(items)
        weights, below = self._paths(known)
        with torch.no_grad():
            reached = sum(weights @ table for table in below)
        assert isinstance(reached, Tensor)
        return self.unit(np.asarray((reached / (self.layers + 1)).cpu().numpy(), np.float32))

    def shares(self, items: Array) -> NDArray[np.float64]:
        """What reaches a node of this history from each of its items."""
        if not self.layers:
            return super().shares(items)
        weights, below = self._paths(items)
        with torch.no_grad():
            reached = weights[:, None] * torch.stack(below).sum(0)
        return np.asarray((reached / (self.layers + 1)).cpu().numpy(), np.float64)

    def _paths(self, items: Array) -> tuple[Tensor, list[Tensor]]:
        """The weights of the edges from distinct items to a new node, and their vectors in the layers below each."""
        network = self.network
        assert isinstance(network, LightGCNNetwork)
        degree = np.maximum(self.train.item_degree[items], 1)
        weights = torch.from_numpy((degree * len(items)) ** -0.5).float().to(device_of(network))
        with torch.no_grad():
            tables = network.layer_tables()[:-1]  # what the layers 1 .. K are made of
        return weights, [table[network.n_users + items] for table in tables]


class LightGCNNetwork(DotNetwork):
    """The vectors of users and items and the graph.

    Both tables are propagated once a step, when the users are encoded, and once between two trainings.
    """

    def __init__(self, train: Interactions, dim: int, layers: int, normalize: bool = False) -> None:
        super().__init__()
        self.normalize = normalize
        self.n_users, self.layers = train.n_users, layers
        self.users = embedding(train.n_users, dim, DEVIATION)
        self.items = embedding(train.n_items, dim, DEVIATION)
        self.register_buffer("graph", graph_of(train), persistent=False)
        self._reg = 0.0
        self._propagated: Tensor | None = None  # (U + I, d)
        self._versions = (-1, -1)
        self._looked_up: list[Tensor] = []

    def loss(self, config: TrainConfig) -> Callable[..., Tensor]:
        self._reg = config.reg
        return super().loss(config)

    def train(self, mode: bool = True) -> LightGCNNetwork:
        """Forget what was propagated when training ends: the compiled optimizer has moved the vectors."""
        if mode != self.training:
            self._propagated, self._looked_up = None, []
        super().train(mode)
        return self

    def layer_tables(self) -> list[Tensor]:
        """``A^k E`` for k = 0 to ``layers``."""  # (U + I, d) each
        tables = [torch.cat([self.users.weight, self.items.weight])]
        for _ in range(self.layers):
            tables.append(Propagation.apply(self.graph, tables[-1]))  # type: ignore[no-untyped-call]
        return tables

    def propagated(self) -> Tensor:
        """The vectors that are scored; those of this step in training."""  # (U + I, d)
        versions = (self.users.weight._version, self.items.weight._version)
        if self._propagated is None or versions != self._versions:
            self._propagated, self._versions = torch.stack(self.layer_tables()).mean(0), versions
        return self._propagated

    def encode(self, users: Tensor, context: Tensor | None) -> Tensor:
        if torch.is_grad_enabled():  # a step begins
            self._propagated, self._looked_up = None, [self.users.weight, users]
        return functional.embedding(users, self.propagated())

    def rows(self, ids: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            self._looked_up += [self.items.weight, ids]
        return functional.embedding(ids + self.n_users, self.propagated())

    def table(self) -> Tensor:
        return self.propagated().detach()[self.n_users :]

    def auxiliary_loss(self) -> Tensor | None:
        """L2 of the vectors before propagation, for each time that a row of them was looked up."""
        if not self._reg:
            return None
        pairs = zip(self._looked_up[::2], self._looked_up[1::2], strict=True)
        squares = [functional.embedding(ids, weight).square().sum() for weight, ids in pairs]
        return self._reg / 2 * torch.stack(squares).sum()


class Propagation(torch.autograd.Function):
    """``graph @ table``; the graph is symmetric, so that gradients are propagated in the same way."""

    @staticmethod
    def forward(context: Any, graph: Tensor, table: Tensor) -> Tensor:
        context.graph = graph
        with torch.autocast(table.device.type, enabled=False):  # no sparse product in bfloat16
            return product(graph, table)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return None, product(context.graph, gradient.contiguous())


def product(graph: Tensor, table: Tensor) -> Tensor:
    """``graph @ table``, summed in a fixed order on a GPU too, where the library's product is not."""
    if not table.is_cuda:
        return graph @ table
    terms = graph.values()[:, None] * table[graph.col_indices()]  # (edges, d)
    return torch.segment_reduce(terms, "sum", offsets=graph.crow_indices(), axis=0, initial=0.0)


def graph_of(train: Interactions) -> Tensor:
    """The symmetric adjacency of users and items, each edge over the root of the product of both degrees."""
    users, items = train.users.astype(np.int64), train.items.astype(np.int64) + train.n_users
    weights = (train.user_degree[train.users].astype(np.float64) * train.item_degree[train.items]) ** -0.5
    size = train.n_users + train.n_items
    ends = np.concatenate([users, items]), np.concatenate([items, users])
    graph = scipy.sparse.csr_array((np.tile(weights.astype(np.float32), 2), ends), shape=(size, size))
    graph.sort_indices()
    begins, columns = (torch.from_numpy(part.astype(np.int64)) for part in (graph.indptr, graph.indices))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
        values = torch.from_numpy(graph.data)
        return torch.sparse_csr_tensor(begins, columns, values, (size, size), check_invariants=True)
