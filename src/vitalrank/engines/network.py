"""The contract of a torch network that the torch engine trains."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from vitalrank.config import TrainConfig
from vitalrank.losses import find_loss


class RandomModule(nn.Module):
    """A layer that draws random numbers in training, such as dropout.

    Attributes
    ----------
    rng
        Where it draws on the CPU; None is torch's global generator.
    counter, layer
        The step's Philox counter on a GPU, and the layer's own stream of it; set by the engine.
    """

    def __init__(self) -> None:
        super().__init__()
        self.rng: torch.Generator | None = None
        self.counter: Any = None
        self.layer = 0


class Network(nn.Module, ABC):
    """Scores of items for users, in two steps, so that a user's part is computed once for all candidates.

    Every lookup by calling an ``nn.Embedding`` is an occurrence of its rows, to which the L2 term applies; a lookup
    with ``torch.nn.functional.embedding`` is free of it.

    Attributes
    ----------
    length
        Items of the history that ``encode`` gets.
    needs_history
        Leave out positives that have none.
    all_positions
        Whether ``encode_positions`` makes a query after every item of a sequence in one pass. A training row is then a
        window of a user's sequence, and all its items are positives.
    clip
        Largest norm of the gradient of all parameters that are not embeddings, or None.
    graph_capturable
        Whether every step does the same work, so that it can be captured once as a CUDA graph and replayed; not with
        ``all_positions``, whose batches differ in size.
    depends_on_threads
        Whether another number of threads may give other bits, as matrix products and sums over a whole batch do.
    couples_batch
        Whether the loss is no sum over the positives of a batch, so that ranks cannot share one.
    uses_global_rng
        Whether its modules draw from torch's global generator, as those of other libraries do.
    rng
        Else its own, so that runs in several threads do not share one.
    sample_weight
        The weights of the batch's positives (B,), for `auxiliary_loss`; None where the log has none. Set by the engine.
    """

    length: int = 0
    needs_history: bool = False
    all_positions: bool = False
    clip: float | None = 5.0
    graph_capturable: bool = False
    depends_on_threads: bool = True
    couples_batch: bool = False
    uses_global_rng: bool = False
    rng: torch.Generator | None = None
    sample_weight: Tensor | None = None

    @abstractmethod
    def encode(self, users: Tensor, context: Tensor | None) -> Tensor:
        """The users' part of the score; ``context`` is (B, length), oldest first, -1 behind a shorter history."""

    def encode_positions(self, users: Tensor, context: Tensor) -> Tensor:
        """Queries (B, L, d) after each item of the context (B, L), where ``all_positions``.

        No query depends on an item behind it. L is at most ``length``; queries at -1 are not read.
        """
        raise NotImplementedError

    @abstractmethod
    def score(self, encoded: Tensor, ids: Tensor) -> Tensor:
        """Scores of ``ids`` (B, C) for the encoded users."""  # (B, C)

    @abstractmethod
    def sampler_inputs(self, encoded: Tensor) -> dict[str, Any]:
        """How a sampler scores candidates: arguments of its call."""

    def loss(self, config: TrainConfig) -> Callable[..., Tensor]:
        """The loss as a function of the positives' scores (B,), the negatives' (B, k) and the weights (B, k).

        Where the log has weights, ``sample_weight`` (B,) as well.
        """
        loss = find_loss(config.loss)
        if loss.has_margin:
            return partial(loss.function, margin=config.margin)
        if loss.has_temperature:
            return partial(loss.function, temperature=config.temperature)
        return partial(loss.function, bilateral=config.bilateral) if loss.is_bilateral else loss.function

    def auxiliary_loss(self) -> Tensor | None:
        """One more term of the loss, summed over the batch, from what the last batch left behind."""
        return None

    def after_step(self, touched: Mapping[str, Tensor]) -> None:
        """Project what the optimizer updated onto the constraints, if any; ``touched`` are rows by parameter."""
        return

    def reseed(self, seed: int) -> None:
        """Seed the random numbers of a step."""
        if self.uses_global_rng:
            _reseed_global(device_of(self), seed)
            return
        if self.rng is None:
            self.rng = torch.Generator(device_of(self))
            for module in self.modules():
                if isinstance(module, RandomModule):
                    module.rng = self.rng
        self.rng.manual_seed(seed)


def _reseed_global(device: torch.device, seed: int) -> None:
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.default_generators[device.index].manual_seed(seed)


def device_of(module: nn.Module) -> torch.device:
    """The device of the module's parameters.

    Examples
    --------
    >>> device_of(nn.Linear(2, 2))
    device(type='cpu')
    """
    return next((parameter.device for parameter in module.parameters()), torch.device("cpu"))


def modes_of(module: nn.Module) -> dict[nn.Module, bool]:
    """Which parts of a module are in training mode."""
    return {part: part.training for part in module.modules()}


def set_modes(modes: Mapping[nn.Module, bool]) -> None:
    """Restore the modes that :func:`modes_of` gave."""
    for part, training in modes.items():
        part.training = training


@contextmanager
def eval_mode(module: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients inside, the former modes afterwards.

    Examples
    --------
    >>> layer = nn.Dropout()
    >>> with eval_mode(layer):
    ...     layer.training
    False
    >>> layer.training
    True
    """
    modes = modes_of(module)
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        set_modes(modes)
