"""Self-attentive sequential recommendation: a causal transformer over the last items."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from vitalrank._util.checks import check_bool, to_float, to_int
from vitalrank._util.typing import Array
from vitalrank.config import TrainConfig
from vitalrank.engines.network import device_of
from vitalrank.errors import SettingError
from vitalrank.interactions import Interactions
from vitalrank.models.lookup_scores import PRODUCT_ROWS, lookup_scores
from vitalrank.models.networks import Dropout, SequenceNetwork, embedding
from vitalrank.models.torch_model import TorchModel

DEVIATION = 0.02  # of initial values


class SASRec(TorchModel):
    """``score(u, i) = h_t . e_i``, where ``h_t`` is a transformer's output at the user's last item.

    Items and their positions are embedded, ``x_t = sqrt(d) e_{i_t} + p_t``, and pass through ``layers`` blocks of
    causal self-attention and a pointwise network, each with a residual connection and layer normalization. The output
    is scored against the same item table. All positions of a sequence are trained in one pass: after each item, the
    next one is a positive with negatives of its own.

    A training row, of which ``batch`` counts, is a window of up to ``length`` positives of one user. Users' first
    items have no history and are no positives; the history counts them as ``without_history``.

    Parameters
    ----------
    dim
        Columns of a vector.
    length
        Last items that are read, and positives of a window.
    layers, heads
        Blocks; attention heads in each, a divisor of ``dim``.
    dropout
        Share dropped of the embeddings, of the attention's output and within the pointwise network.
    normalize
        Scores are cosines; take a loss with a ``temperature`` then.

    References
    ----------
    Kang and McAuley, "Self-attentive sequential recommendation", ICDM 2018.

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.datasets.synthetic(users=50, items=40, interactions=600, seed=0, sequence=0.8)
    >>> model = vr.SASRec(dim=8, length=10).fit(log, sampler=vr.Uniform(), epochs=2, seed=0)
    >>> model.history[-1]["without_history"]  # each user's first item
    50
    >>> model.fold_in(log.item_ids[:3], n=5)[0].shape
    (5,)
    """

    defaults: ClassVar[Mapping[str, Any]] = {"loss": "cross_entropy", "lr": 1e-3, "reg": 0.0, "batch": 128}

    def __init__(
        self, dim: int = 64, length: int = 50, layers: int = 2, heads: int = 1, dropout: float = 0.2,
        normalize: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.dim = to_int("dim", dim)
        self.length = to_int("length", length)
        self.layers = to_int("layers", layers)
        self.heads = to_int("heads", heads)
        self.dropout = to_float("dropout", dropout, least=0)
        check_bool("normalize", normalize)
        self.normalize = normalize
        if self.dropout >= 1.0:
            raise SettingError(f"dropout is {dropout!r}; it must be at least 0 and below 1.")
        if self.dim % self.heads:
            raise SettingError(f"heads is {heads!r}, which does not divide dim={dim!r}; choose a divisor.")

    def settings(self) -> dict[str, Any]:
        names = ("dim", "length", "layers", "heads", "dropout", "normalize")
        return {name: getattr(self, name) for name in names}

    def new_network(self, train: Interactions) -> SASRecNetwork:
        return SASRecNetwork(train.n_items, **self.settings())

    def query_of(self, items: Array) -> NDArray[np.float32]:
        """The query of someone with this history, oldest first: the network reads its last items."""
        context = np.full((1, self.length), -1)
        context[0, : min(len(items), self.length)] = items[-self.length :]
        tensor = torch.from_numpy(context).to(device_of(self.network))
        with torch.no_grad():
            return self.unit(np.asarray(self.network.encode(tensor[:, 0], tensor)[0].cpu().numpy()))


class SASRecNetwork(SequenceNetwork):
    """The item table, the positions and the blocks."""

    def __init__(
        self, n_items: int, dim: int, length: int, layers: int, heads: int, dropout: float, normalize: bool = False
    ) -> None:
        super().__init__()
        self.normalize = normalize
        self.length = length
        self._reg = 0.0
        self.items = embedding(n_items, dim, DEVIATION)
        self.positions = nn.Parameter(torch.empty(length, dim).normal_(std=DEVIATION))
        self.dropout = Dropout(dropout)
        self.blocks = nn.ModuleList(TransformerBlock(dim, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)

    def encode_positions(self, users: Tensor, context: Tensor) -> Tensor:
        # Contexts are padded behind their end, where causal attention does not look: no mask for them.
        present = context >= 0
        # A lookup that is free of L2, of the items that are there: the others' rows must not move.
        found = functional.embedding(context[present], self.items.weight, sparse=True)  # (P, d)
        vectors = found.new_zeros(*context.shape, found.shape[1]).masked_scatter(present[..., None], found)
        x = vectors * found.shape[1] ** 0.5 + self.positions[: context.shape[1]]
        x = self.dropout(x)
        for block in self.blocks:
            x = block(x)
        out: Tensor = self.norm(x)
        return out

    def loss(self, config: TrainConfig) -> Callable[..., Tensor]:
        self._reg = config.reg
        return super().loss(config)

    def score(self, encoded: Tensor, ids: Tensor) -> Tensor:
        if ids.is_cuda and (self.normalize or self.items.num_embeddings > PRODUCT_ROWS * ids.shape[1]):
            return super().score(encoded, ids)
        scores = lookup_scores(self.unit(encoded.float()), self.items.weight, ids, self._reg)
        return scores / self._lengths(ids) if self.normalize else scores

    def _lengths(self, ids: Tensor) -> Tensor:
        """The lengths of looked-up rows, free of L2; each row is read once."""
        named = torch.zeros(self.items.num_embeddings, dtype=torch.bool)
        named[ids.flatten()] = True
        rows = functional.embedding(named.nonzero()[:, 0], self.items.weight, sparse=True)
        place = named.cumsum(0) - 1
        return functional.embedding(place[ids], rows.norm(dim=1, keepdim=True)).squeeze(-1)

    def rows(self, ids: Tensor) -> Tensor:
        return self.items(ids)  # type: ignore[no-any-return]

    def table(self) -> Tensor:
        return self.items.weight.detach()


class TransformerBlock(nn.Module):
    """Causal self-attention, then a pointwise network."""

    def __init__(self, dim: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.norm_attention, self.norm_pointwise = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.of_query, self.of_key, self.of_value, self.out = (_linear(dim) for _ in range(4))
        self.hidden, self.last = _linear(dim), _linear(dim)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Same shape (B, L, d); a position does not depend on those behind it."""
        normed: Tensor = self.norm_attention(x)
        x = self.norm_pointwise(normed + self.dropout(self.attention(normed, x)))
        out: Tensor = x + self.dropout(self.last(self.dropout(torch.relu(self.hidden(x)))))
        return out

    def attention(self, queries: Tensor, values: Tensor) -> Tensor:
        """``softmax(Q K^T / sqrt(d))`` over the positions up to each one, times V."""  # (B, L, d)
        split = (*values.shape[:2], self.heads, -1)
        parts = (self.of_query(queries), self.of_key(values), self.of_value(values))
        q, k, v = (part.view(split).transpose(1, 2) for part in parts)  # (B, H, L, d / H)
        with _deterministic(q.device):
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        out: Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return out


@contextmanager
def _deterministic(device: torch.device) -> Iterator[None]:
    """On a GPU the fused kernels add up gradients in no fixed order; matrix products do."""
    if device.type != "cuda":
        yield
        return
    with sdpa_kernel(SDPBackend.MATH):
        yield


def _linear(dim: int) -> nn.Linear:
    layer = nn.Linear(dim, dim)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer
