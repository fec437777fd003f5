"""Multi-order attentive ranking: attention over the last items, at several depths, keyed by the user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from vitalrank import serving
from vitalrank._util.checks import to_float, to_int
from vitalrank._util.typing import Array
from vitalrank.engines.base import Table
from vitalrank.engines.network import device_of
from vitalrank.errors import SettingError
from vitalrank.interactions import Interactions
from vitalrank.interactions.histories import repeat_last
from vitalrank.models.networks import DEVIATION, DotNetwork, Dropout, embedding
from vitalrank.models.torch_model import TorchModel


class MARank(TorchModel):
    """``score(u, i) = user_u . item_i + h(u, last items) . context_i``.

    ``h`` looks at the context vectors ``x_1 .. x_L`` of the last L items, a shorter history repeating its last one.
    User and items pass through residual layers ``v -> relu(v + W v + b)``; at each depth, or order, attention keyed
    by the user's vector sums up the items'. So does attention over the raw vectors, plus ``x_L``. A second attention
    weighs these results, and residual layers with a skip make ``h`` of their sum. Attention is additive:
    ``a = softmax_l(w . tanh(A x_l + B u + b))``.

    A positive without history is left out of the training and counted in the history as ``without_history``.

    Parameters
    ----------
    dim
        Columns of each of the two halves of a vector.
    length
        L, how many of the last items are looked at.
    orders, layers
        Residual layers before the attention; residual layers after it.
    dropout
        Share of inputs of every layer that is dropped in training.

    References
    ----------
    Yu, Zhang, Liang and Zhang, "Multi-order attentive ranking model for sequential recommendation", AAAI 2019.

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.datasets.synthetic(users=50, items=40, interactions=600, seed=0)
    >>> model = vr.MARank(dim=8).fit(log, sampler=vr.Uniform(), epochs=2, seed=0)
    >>> model.history[-1]["without_history"]  # each user's first item
    50
    """

    tables: ClassVar[Mapping[str, Table]] = {
        "network.users.weight": Table("user"),
        "network.items.weight": Table("item", rows=2),
    }
    defaults: ClassVar[Mapping[str, Any]] = {"lr": 1e-3, "reg": 5e-4, "batch": 1024}

    def __init__(self, dim: int = 64, length: int = 6, orders: int = 2, layers: int = 2, dropout: float = 0.5) -> None:
        super().__init__()
        self.dim = to_int("dim", dim)
        self.length = to_int("length", length)
        self.orders = to_int("orders", orders, least=0)
        self.layers = to_int("layers", layers, least=0)
        self.dropout = to_float("dropout", dropout, least=0)
        if self.dropout >= 1.0:
            raise SettingError(f"dropout is {dropout!r}; it must be at least 0 and below 1.")

    def settings(self) -> dict[str, Any]:
        names = ("dim", "length", "orders", "layers", "dropout")
        return {name: getattr(self, name) for name in names}

    def new_network(self, train: Interactions) -> MARankNetwork:
        return MARankNetwork(train.n_users, train.n_items, **self.settings())

    def query_of(self, items: Array) -> NDArray[np.float32]:
        """The query of someone with this history, oldest first: their own half is solved for, then encoded."""
        network = self.network
        assert isinstance(network, MARankNetwork)
        own = serving.solve_query(np.ascontiguousarray(self.item_table[:, : self.dim]), items)
        context = np.full((1, self.length), -1)
        context[0, : min(len(items), self.length)] = items[-self.length :]
        device = device_of(network)
        with torch.no_grad():
            query = network.query(*(torch.from_numpy(part).to(device) for part in (own[None], context)))
        return np.asarray(query[0].cpu().numpy())


class MARankNetwork(DotNetwork):
    """Users, items and the attention between them.

    ``items`` has two rows per item, its own vector and its context vector, so that a context touches the second
    alone; the same memory read as (I, 2d) is the item table.
    """

    needs_history = True
    graph_capturable = True

    def __init__(
        self, n_users: int, n_items: int, dim: int, length: int, orders: int, layers: int, dropout: float
    ) -> None:
        super().__init__()
        self.length = length
        self.users = embedding(n_users, dim)
        self.items = embedding(2 * n_items, dim)
        self.user_layers = nn.ModuleList(Residual(dim, dropout) for _ in range(orders))
        self.item_layers = nn.ModuleList(Residual(dim, dropout) for _ in range(orders))
        self.over_items = nn.ModuleList(Attention(dim, dropout) for _ in range(orders + 1))
        self.over_orders = Attention(dim, dropout, keyed=False)
        self.last_layers = nn.Sequential(*(Residual(dim, dropout) for _ in range(layers)))

    def encode(self, users: Tensor, context: Tensor | None) -> Tensor:
        assert context is not None
        return self.query(self.users(users), context)

    def query(self, users: Tensor, context: Tensor) -> Tensor:
        """Queries from the users' own vectors (B, d); without any history their second half is 0."""  # (B, 2d)
        known = context[:, :1] >= 0  # (B, 1)
        filled = repeat_last(context).clamp(min=0)
        # A lookup that is free of L2: the term is for the triple alone.
        items = functional.embedding(2 * filled + 1, self.items.weight, sparse=True)  # (B, L, d)
        return torch.cat([users, self.summary(users, items) * known], 1)

    def summary(self, users: Tensor, items: Tensor) -> Tensor:
        """``h`` of users (B, d) and the context vectors of their last items (B, L, d)."""  # (B, d)
        raw, *deeper = self.over_items
        results = [raw(items, users) + items[:, -1]]
        own, theirs = users, items
        for user_layer, item_layer, attention in zip(self.user_layers, self.item_layers, deeper, strict=True):
            own, theirs = user_layer(own), item_layer(theirs)
            results.append(attention(theirs, own))
        mixed: Tensor = self.over_orders(torch.stack(results, 1))
        deep: Tensor = self.last_layers(mixed)
        return deep + mixed

    def rows(self, ids: Tensor) -> Tensor:
        pairs = torch.stack([2 * ids, 2 * ids + 1], -1)  # (..., 2)
        vectors: Tensor = self.items(pairs)
        return vectors.flatten(-2)

    def table(self) -> Tensor:
        weight = self.items.weight.detach()
        return weight.view(len(weight) // 2, -1)


class Residual(nn.Module):
    """``relu(x + W x + b)``."""

    def __init__(self, dim: int, dropout: float) -> None:
        super().__init__()
        self.linear = _linear(dim, dim)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Same shape out."""
        return torch.relu(x + self.linear(self.dropout(x)))


class Attention(nn.Module):
    """Additive attention: a mean of vectors weighted by ``softmax_l(w . tanh(A x_l + B key + b))``."""

    def __init__(self, dim: int, dropout: float, keyed: bool = True) -> None:
        super().__init__()
        self.of_vector = _linear(dim, dim)
        self.of_key = _linear(dim, dim, bias=False) if keyed else None
        self.out = _linear(dim, 1, bias=False)
        self.dropout = Dropout(dropout)

    def weights(self, vectors: Tensor, key: Tensor | None = None) -> Tensor:
        """How much each of the vectors (B, L, d) counts for a key (B, d)."""  # (B, L)
        hidden = self.of_vector(self.dropout(vectors))
        if self.of_key is not None:
            hidden = hidden + self.of_key(self.dropout(key)).unsqueeze(1)
        return torch.softmax(self.out(torch.tanh(hidden)).squeeze(-1), 1)

    def forward(self, vectors: Tensor, key: Tensor | None = None) -> Tensor:
        """The weighted mean."""  # (B, d)
        return (self.weights(vectors, key).unsqueeze(-1) * vectors).sum(1)


def _linear(width: int, out: int, bias: bool = True) -> nn.Linear:
    """Weights as small as the embeddings, except the one that turns hidden numbers into a logit."""
    layer = nn.Linear(width, out, bias=bias)
    nn.init.normal_(layer.weight, std=1.0 if out == 1 else DEVIATION)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer
