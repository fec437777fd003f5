"""What the torch engine trains: modules that turn users and their histories into scores of items."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from vitalrank.config import TrainConfig
from vitalrank.losses import find_loss

DEVIATION = 0.01  # of initial values
_LEVELS = 1 << 16  # of a random number that decides on a drop


class Network(nn.Module):
    """Scores of items for users, in two steps, so that a user's part is computed once for all candidates.

    Every lookup by calling an ``nn.Embedding`` is an occurrence of its rows, to which the L2 term applies; a lookup
    with ``torch.nn.functional.embedding`` is free of it.
    """

    length: int = 0  # items of the history that ``encode`` gets
    needs_history: bool = False  # leave out positives that have none
    clip: float | None = 5.0  # most the gradient of all that is not an embedding may measure
    graph_capturable: bool = (
        False  # whether every step does the same work, so that a GPU can capture it once and replay it
    )
    shares_dice: bool = False  # whether its modules draw from the random numbers of the process, as those of others do
    dice: torch.Generator | None = None  # else its own, so that runs in several threads do not share them

    def reseed(self, seed: int) -> None:
        """Begin the random numbers of a step."""
        if self.shares_dice:
            _reseed_process(device_of(self), seed)
            return
        if self.dice is None:
            self.dice = torch.Generator(device_of(self))
            for module in self.modules():
                if isinstance(module, Dropout):
                    module.dice = self.dice
        self.dice.manual_seed(seed)

    def encode(self, users: Tensor, context: Tensor | None) -> Tensor:
        """The users' part of the score; ``context`` is (B, length), oldest first, -1 behind a shorter history."""
        raise NotImplementedError

    def score(self, encoded: Tensor, ids: Tensor) -> Tensor:
        """Scores of ``ids`` (B, C) for the encoded users."""  # (B, C)
        raise NotImplementedError

    def for_sampler(self, encoded: Tensor) -> dict[str, Any]:
        """How a sampler scores candidates: arguments of its call."""
        raise NotImplementedError

    def loss(self, config: TrainConfig) -> Callable[..., Tensor]:
        """The loss as a function of the positives' scores (B,), the negatives' (B, k) and the weights (B, k)."""
        loss = find_loss(config.loss)
        return partial(loss.function, margin=config.margin) if loss.has_margin else loss.function

    def extra(self) -> Tensor | None:
        """One more term of the loss, summed over the batch, from what the last batch left behind."""
        return None

    def finish(self, touched: Mapping[str, Tensor]) -> None:
        """After a step: bring what moved back to where it must lie; ``touched`` are rows by parameter."""
        return


class DotNetwork(Network):
    """A network whose score is one dot product: ``encode`` gives queries (B, d)."""

    def rows(self, ids: Tensor) -> Tensor:
        """Item vectors, with gradient."""  # (..., d)
        raise NotImplementedError

    def table(self) -> Tensor:
        """All item vectors, without gradient; the live memory where there is one."""  # (I, d)
        raise NotImplementedError

    def score(self, encoded: Tensor, ids: Tensor) -> Tensor:
        # Not a batched matrix product: for vectors this short its overhead is three times the work.
        return (self.rows(ids).float() * encoded.float().unsqueeze(1)).sum(-1)  # (B, C)

    def for_sampler(self, encoded: Tensor) -> dict[str, Any]:
        return {"queries": encoded.detach().float(), "item_table": self.table().float()}


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
    # The last row feels nothing, so it stays 0; L2 of 0 is 0 too.
    share = present / present.sum(1, keepdim=True).clamp(min=1)  # (B, L)
    mean: Tensor = (rows * share.unsqueeze(-1)).sum(1)
    return mean  # (B, d)


class Dropout(nn.Module):
    """``nn.Dropout``, with 16 random bits a number on the CPU: a fifth of its time there, half of a MARank epoch.

    On a GPU it draws by the counter that the engine gives it, else from its network's random numbers, where there are
    such; alone, from those of the process.
    """

    def __init__(self, share: float) -> None:
        super().__init__()
        self.dropped = round(share * _LEVELS)  # of so many levels
        self.dice: torch.Generator | None = None
        self.counter: Any = None
        self.layer = 0

    def forward(self, x: Tensor) -> Tensor:
        """Same shape; what is kept is scaled up to keep the mean."""
        if not self.training or not self.dropped:
            return x
        if x.is_cuda:
            return self._on_gpu(x)
        words = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None, generator=self.dice)
        kept = words.view(torch.int16)[: x.numel()] >= self.dropped - _LEVELS // 2
        return x * kept.view(x.shape).to(x.dtype).mul_(_LEVELS / (_LEVELS - self.dropped))

    def _on_gpu(self, x: Tensor) -> Tensor:
        share = self.dropped / _LEVELS
        if self.counter is None:
            return functional.dropout(x, share)
        from vitalrank.kernels.gpu.training.dropout import drop

        return drop(x, share, self.counter, self.layer)


def _reseed_process(device: torch.device, seed: int) -> None:
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.default_generators[device.index].manual_seed(seed)


def device_of(module: nn.Module) -> torch.device:
    """Where the module's parameters lie."""
    return next((parameter.device for parameter in module.parameters()), torch.device("cpu"))


def modes_of(module: nn.Module) -> dict[nn.Module, bool]:
    """Which parts of a module are in training mode."""
    return {part: part.training for part in module.modules()}


def set_modes(modes: Mapping[nn.Module, bool]) -> None:
    """Bring parts of a module back to the modes they had."""
    for part, training in modes.items():
        part.training = training


@contextmanager
def eval_mode(module: nn.Module) -> Iterator[None]:
    """Without gradient and dropout, then as it was."""
    modes = modes_of(module)
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        set_modes(modes)
