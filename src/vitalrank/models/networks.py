"""Layers of the torch models, and the network whose score is one dot product."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from vitalrank.engines.network import Network, RandomModule

DEVIATION = 0.01  # of initial values
_LEVELS = 1 << 16  # of the random number that decides whether an element is dropped


class DotNetwork(Network):
    """A network whose score is one dot product: ``encode`` gives queries (B, d).

    Attributes
    ----------
    normalize
        Whether scores are cosines: queries and rows are divided by their lengths where they are scored and served.
    """

    normalize = False

    @abstractmethod
    def rows(self, ids: Tensor) -> Tensor:
        """Item vectors, with gradient."""  # (..., d)

    @abstractmethod
    def table(self) -> Tensor:
        """All item vectors, without gradient; the live memory where there is one."""  # (I, d)

    def score(self, encoded: Tensor, ids: Tensor) -> Tensor:
        # Not a batched matrix product: for vectors this short its overhead is three times the work.
        return (self.unit(self.rows(ids).float()) * self.unit(encoded.float()).unsqueeze(1)).sum(-1)  # (B, C)

    def sampler_inputs(self, encoded: Tensor) -> dict[str, Any]:
        return {"queries": self.unit(encoded.detach().float()), "item_table": self.unit(self.table().float())}

    def unit(self, vectors: Tensor) -> Tensor:
        """The vectors as they are scored: at length 1 where scores are cosines."""
        return functional.normalize(vectors, dim=-1) if self.normalize else vectors


class SequenceNetwork(DotNetwork):
    """A network that reads a user's last items in one pass: ``encode_positions`` gives a query after each of them."""

    needs_history = True
    all_positions = True

    @abstractmethod
    def encode_positions(self, users: Tensor, context: Tensor) -> Tensor: ...

    def encode(self, users: Tensor, context: Tensor | None) -> Tensor:
        assert context is not None
        return query_after_last(self.encode_positions(users, context), context)


def query_after_last(queries: Tensor, context: Tensor) -> Tensor:
    """The query (B, d) after the last item of each context (B, L), of queries (B, L, d); 0 without any item.

    Examples
    --------
    >>> queries = torch.arange(1.0, 7.0).view(2, 3, 1)
    >>> query_after_last(queries, torch.tensor([[5, 2, -1], [-1, -1, -1]])).tolist()
    [[2.0], [0.0]]
    """
    last = (context >= 0).sum(1) - 1  # (B,), -1 without history
    picked = queries[torch.arange(len(context), device=context.device), last.clamp(min=0)]
    return torch.where(last[:, None] >= 0, picked, 0.0)


def embedding(rows: int, dim: int, deviation: float = DEVIATION) -> nn.Embedding:
    """A table of normal numbers whose gradient names the rows it touches."""
    table = nn.Embedding(rows, dim, sparse=True)
    nn.init.normal_(table.weight, std=deviation)
    return table


def embedding_with_none(rows: int, dim: int) -> nn.Embedding:
    """The same with one row more, of zeros, that stands for no row."""
    table = embedding(rows + 1, dim)
    nn.init.zeros_(table.weight[rows])
    return table


def mean_rows(table: nn.Embedding, context: Tensor) -> Tensor:
    """Mean of the rows in each context, over those that are there; 0 without any. -1 names the table's last row."""
    present = context >= 0  # (B, L)
    rows = table(torch.where(present, context, table.num_embeddings - 1))  # (B, L, d)
    # The last row gets no gradient, so it stays 0; L2 of 0 is 0 too.
    share = present / present.sum(1, keepdim=True).clamp(min=1)  # (B, L)
    mean: Tensor = (rows * share.unsqueeze(-1)).sum(1)
    return mean  # (B, d)


class Dropout(RandomModule):
    """``nn.Dropout``, with 16 random bits per element on the CPU: a fifth of its time there, half of a MARank epoch.

    On a GPU it draws by the engine's counter, without one from torch's global generator.
    """

    def __init__(self, share: float) -> None:
        super().__init__()
        self.dropped = round(share * _LEVELS)  # of so many levels

    def forward(self, x: Tensor) -> Tensor:
        """Same shape; the elements that remain are scaled up to keep the mean."""
        if not self.training or not self.dropped:
            return x
        if x.is_cuda:
            return self._on_gpu(x)
        words = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None, generator=self.rng)
        kept = words.view(torch.int16)[: x.numel()] >= self.dropped - _LEVELS // 2
        return x * kept.view(x.shape).to(x.dtype).mul_(_LEVELS / (_LEVELS - self.dropped))

    def _on_gpu(self, x: Tensor) -> Tensor:
        share = self.dropped / _LEVELS
        if self.counter is None:
            return functional.dropout(x, share)
        from vitalrank.kernels.gpu.training.dropout import drop

        return drop(x, share, self.counter, self.layer)
