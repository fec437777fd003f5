"""IRGAN: a generator proposes items, a discriminator tells them from real ones; both factorize a matrix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from vitalrank import samplers
from vitalrank._util.checks import check_choice, to_int
from vitalrank.config import TrainConfig
from vitalrank.engines.base import Table
from vitalrank.engines.torch_engine import TorchEngine
from vitalrank.interactions import Interactions
from vitalrank.models.networks import DotNetwork, embedding
from vitalrank.models.torch_model import TorchModel
from vitalrank.samplers.settings import CallableSampler, Sampler

ROLES = ("generator", "discriminator")
_SHARE = 0.2  # of the generator's draws that come from the user's own items


class IRGAN(TorchModel):
    """Two matrix factorizations with item biases that play against each other; one of them is served.

    The discriminator ``D`` learns to tell positives from what the generator ``G`` proposes, by cross entropy; its
    negatives come from ``q(j | u) = softmax_j(s_G(u, j) / 0.2)`` over the items u has not seen. The generator
    maximises the reward ``r_j = 2 sigma(s_D(u, j)) - 1`` of ``p = softmax(s_G)`` over all items by policy gradient:
    draws from ``p_n = 0.8 p + 0.2 (uniform over u's items)``, weighted by ``p / p_n``. Both move in every step.
    A step costs O(n d) for each positive, in the sampler and in the generator: a small catalogue is needed.

    Parameters
    ----------
    dim
        Columns of a vector; one more holds the item's bias.
    role
        Which is served: ``"generator"``, as published, or ``"discriminator"``, for which the generator is a sampler.
    warm
        Epochs of matrix factorization with DNS negatives that the generator begins from.
    draws
        The generator's draws for each positive.

    References
    ----------
    Wang, Yu, Zhang, Gong, Xu, Wang, Zhang and Zhang, "IRGAN: a minimax game for unifying generative and
    discriminative information retrieval models", SIGIR 2017.

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.datasets.synthetic(users=50, items=40, interactions=600, seed=0)
    >>> model = vr.IRGAN(dim=8, role="discriminator", warm=2).fit(log, epochs=2, seed=0)
    >>> model.recommend(log.user_ids[:2], n=5)[0].shape
    (2, 5)
    """

    constant_columns = 1
    tables: ClassVar[Mapping[str, Table] | None] = None  # its first epochs pre-train the generator
    defaults: ClassVar[Mapping[str, Any]] = {"loss": "cross_entropy", "lr": 1e-3, "batch": 512}

    def __init__(self, dim: int = 64, role: str = "generator", warm: int = 10, draws: int = 2) -> None:
        super().__init__()
        check_choice("role", role, ROLES)
        self.dim = to_int("dim", dim)
        self.role = role
        self.warm = to_int("warm", warm, least=0)
        self.draws = to_int("draws", draws)

    def settings(self) -> dict[str, Any]:
        return {"dim": self.dim, "role": self.role, "warm": self.warm, "draws": self.draws}

    def default_sampler(self, config: TrainConfig) -> Sampler:
        return samplers.IRGAN()

    def new_network(self, train: Interactions) -> IRGANNetwork:
        return IRGANNetwork(train, self.dim, self.role, self.draws)

    def build(self, train: Interactions, sampler: CallableSampler, config: TrainConfig) -> TorchEngine:
        engine = super().build(train, sampler, config)
        if self.warm:
            network = self.network
            assert isinstance(network, IRGANNetwork)
            self._warm_up(network.generator, train, config)
        return engine

    def _warm_up(self, generator: Factors, train: Interactions, config: TrainConfig) -> None:
        from vitalrank.models.mf import MF
        from vitalrank.samplers import DNS

        options: Any = {"threads": config.threads, "device": config.device, "seed": config.seed, "progress": False}
        start = MF(dim=self.dim, bias=True).fit(train, DNS(), epochs=self.warm, **options)
        with torch.no_grad():
            generator.users.weight.copy_(torch.from_numpy(start.queries(np.arange(train.n_users))[:, : self.dim]))
            generator.items.weight.copy_(torch.from_numpy(start.item_table))


class IRGANNetwork(DotNetwork):
    """Both players. In training the scores are the discriminator's; in eval mode, those of the one to serve."""

    def __init__(self, train: Interactions, dim: int, role: str, draws: int) -> None:
        super().__init__()
        self._n_items = train.n_items
        self._role = role
        self._draws = draws
        self._users = self._positives = torch.zeros(0, dtype=torch.int64)  # of the last batch
        self.generator = Factors(train.n_users, train.n_items, dim)
        self.discriminator = Factors(train.n_users, train.n_items, dim)
        self._pairs: Tensor  # (N,) the log as sorted numbers user * I + item
        self._shares: Tensor  # (U,) one over the number of a user's items
        pairs = np.repeat(np.arange(train.n_users) * train.n_items, train.user_degree) + train.sorted_items
        self.register_buffer("_pairs", torch.from_numpy(pairs), persistent=False)
        shares = (1.0 / np.maximum(train.user_degree, 1)).astype(np.float32)
        self.register_buffer("_shares", torch.from_numpy(shares), persistent=False)

    @property
    def _player(self) -> Factors:
        return self.discriminator if self.training or self._role == "discriminator" else self.generator

    def encode(self, users: Tensor, context: Tensor | None) -> Tensor:
        self._users = users
        return _with_one(self._player.users(users))

    def rows(self, ids: Tensor) -> Tensor:
        vectors: Tensor = self._player.items(ids)
        return vectors

    def table(self) -> Tensor:
        return self._player.items.weight.detach()

    def score(self, encoded: Tensor, ids: Tensor) -> Tensor:
        self._positives = ids[:, 0]
        return super().score(encoded, ids)

    def sampler_inputs(self, encoded: Tensor) -> dict[str, Any]:
        queries = _with_one(self.generator.users.weight.detach()[self._users])
        return {"queries": queries, "item_table": self.generator.items.weight.detach()}

    def auxiliary_loss(self) -> Tensor:
        """The generator's loss; a lookup without L2, as published."""
        own = functional.embedding(self._users, self.generator.users.weight, sparse=True)
        log_p = torch.log_softmax(_with_one(own) @ self.generator.items.weight.T, 1)  # (B, I)
        with torch.no_grad():
            picks, worth = self._played(log_p)
            if self.sample_weight is not None:
                worth *= self.sample_weight[:, None]
        rows = torch.arange(len(picks), device=picks.device)[:, None]
        # Not gather: on a GPU the gradient of that is added up in any order.
        return -(log_p[rows, picks] * worth).sum() / self._draws

    def _played(self, log_p: Tensor) -> tuple[Tensor, Tensor]:
        """Items drawn for each row, and their rewards times ``p / p_n``."""  # (B, draws) each
        p = log_p.exp()
        picks = torch.multinomial(p, self._draws, replacement=True, generator=self.rng)
        # The row's positive is itself a uniform draw from the user's items, since an epoch visits each of them once.
        own = torch.rand(picks.shape, device=picks.device, generator=self.rng) < _SHARE
        picks = torch.where(own, self._positives[:, None], picks)
        p_pick = p.gather(1, picks)
        proposed = (1.0 - _SHARE) * p_pick + _SHARE * self._uniform_share(picks)
        judge = self.discriminator
        vectors = judge.items.weight[picks]  # (B, draws, d + 1)
        score = (vectors * _with_one(judge.users.weight[self._users]).unsqueeze(1)).sum(-1)
        return picks, (2.0 * torch.sigmoid(score) - 1.0) * p_pick / proposed

    def _uniform_share(self, picks: Tensor) -> Tensor:
        """Probability of each pick under the uniform distribution over the items of its user."""
        wanted = self._users[:, None] * self._n_items + picks
        place = torch.searchsorted(self._pairs, wanted).clamp(max=len(self._pairs) - 1)
        return (self._pairs[place] == wanted) * self._shares[self._users, None]


class Factors(nn.Module):
    """Vectors of users, and of items with a bias beside them."""

    def __init__(self, n_users: int, n_items: int, dim: int) -> None:
        super().__init__()
        self.users = embedding(n_users, dim)
        self.items = embedding(n_items, dim + 1)
        nn.init.zeros_(self.items.weight[:, dim])


def _with_one(vectors: Tensor) -> Tensor:
    """One more column, for the bias."""
    return torch.cat([vectors, vectors.new_ones(len(vectors), 1)], 1)
