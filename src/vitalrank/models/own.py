"""Any torch model: bring the modules, gain training, evaluation, recommendation and checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from vitalrank.checks import check_positive, own, whole
from vitalrank.errors import SettingError
from vitalrank.interactions import Interactions
from vitalrank.models.base import Array
from vitalrank.models.network_state import load_network, network_arrays
from vitalrank.models.networks import DotNetwork, Network, at_rest, device_of
from vitalrank.models.torch_engine import TorchEngine
from vitalrank.models.torch_model import TorchModel, Trained
from vitalrank.training.history import History
from vitalrank.training.settings import TrainConfig

ItemTable = nn.Module | nn.Parameter
_VECTORS = ("queries", "items")  # what a saved model serves while its modules are not at hand
_CELLS = 1 << 20  # scores computed at once


class OwnModel(Trained):
    """A model over modules of the caller's, which are trained from the values they have."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: dict[str, Array] | None = None  # parameters of a loaded model, until modules are attached

    def new_network(self, train: Interactions) -> Network:
        return self.network

    def build(self, train: Interactions, sampler: Any, config: TrainConfig) -> TorchEngine:
        tables = [module for module in self.network.modules() if isinstance(module, nn.Embedding)]
        self._were_sparse = {table: table.sparse for table in tables}
        for table in tables:
            table.sparse = not table.scale_grad_by_freq  # a step then costs what it touches
        try:
            return super().build(train, sampler, config)
        except BaseException:
            self._give_back()
            raise

    def settle(self) -> None:
        super().settle()
        self._give_back()

    def _give_back(self) -> None:
        """The tables with the kind of gradient they had."""
        for table, sparse in self._were_sparse.items():
            table.sparse = sparse

    def _take(self, network: Network) -> None:
        """Serve from this network, with the kept values in it."""
        if self._kept is not None:
            try:
                load_network(network, self._kept)
            except ValueError as error:
                raise SettingError(f"these are not the modules that were saved: {error}.") from error
        self._network, self._kept = network.eval(), None

    def __repr__(self) -> str:
        """Tells networks apart by their size, so that a checkpoint is not resumed with other modules."""
        values = self._kept if self._network is None else network_arrays(self._network)
        size = sum(array.size for array in values.values()) if values else 0
        return f"{super().__repr__()[:-1]}, {size} values)"

    def _unready(self) -> str:
        if self._kept is None:
            return "TorchRecommender takes modules of your own; give it an encoder and an item_table, or score=."
        return "the folder holds parameters of modules that are not here; give the modules to attach() first."


class TorchRecommender(OwnModel, TorchModel):
    """``score(u, i) = encoder(u) . item_table[i]`` for modules of your own.

    A saved model keeps the vectors it serves, so a loaded one recommends at once; to train it further, or to go on
    from a checkpoint, give its modules to :meth:`attach`. Training begins from the values the modules have, and moves
    them to its device, where they stay. Tables of
    ``nn.Embedding`` move by the rows a batch touches, and each row looked up by calling the module takes the L2 term;
    other parameters move as a whole, without it.

    Parameters
    ----------
    encoder
        Module that makes queries (B, d) from internal user ids (B,); with ``length``, from ids and contexts.
    item_table
        The item vectors: an ``nn.Embedding``, an ``nn.Parameter`` (I, d), or a module that makes vectors (..., d)
        from internal item ids. Such a module is run over all items in each step if the sampler reads scores.
    score
        In place of both: a module that makes scores (B, C) from user ids (B,) and item ids (B, C). The model is then
        no dot product: it cannot fold in, find similar items or be exported, and a loaded one needs its module.
    length
        With 1 or more, ``encoder(users, context)`` also gets the last items before each positive, (B, length), oldest
        first, -1 behind a shorter history.
    clip
        The most that the gradient of all that is not an embedding may measure, or None.

    Examples
    --------
    >>> import torch, vitalrank as vr
    >>> log = vr.datasets.synthetic(users=50, items=40, interactions=600, seed=0)
    >>> encoder = torch.nn.Sequential(torch.nn.Embedding(50, 8), torch.nn.Linear(8, 8))
    >>> model = vr.TorchRecommender(encoder, torch.nn.Embedding(40, 8)).fit(log, vr.DNS(), epochs=2, seed=0)
    >>> model.recommend(log.user_ids[:2], n=5)[0].shape
    (2, 5)
    """

    def __new__(cls, *args: Any, score: nn.Module | None = None, **options: Any) -> Any:
        """A :class:`TorchScorer` where ``score`` is given."""
        if score is None:
            return super().__new__(cls)
        if args or options.keys() - {"clip"}:
            raise SettingError("score= takes the place of encoder, item_table and length; give it alone.")
        return TorchScorer(score, **options)

    def __init__(
        self,
        encoder: nn.Module | None = None,
        item_table: ItemTable | None = None,
        *,
        score: nn.Module | None = None,
        length: int = 0,
        clip: float | None = 5.0,
    ) -> None:
        super().__init__()
        self.length = whole("length", length, least=0)
        self.clip = _checked(clip)
        self._vectors: Mapping[str, Array] | None = None
        if (encoder is None) != (item_table is None):
            raise SettingError("TorchRecommender needs both an encoder and an item_table.")
        if encoder is not None and item_table is not None:
            self._network = OwnNetwork(encoder, item_table, self.length, self.clip)

    def attach(
        self, encoder: nn.Module | None = None, item_table: ItemTable | None = None, *, score: nn.Module | None = None
    ) -> Any:
        """The loaded model over these modules, with the saved values in them."""
        if score is not None:
            model: Any = TorchScorer(score, clip=self.clip)
        else:
            model = TorchRecommender(encoder, item_table, length=self.length, clip=self.clip)
        model.train, model.held_out, model.history, model._kept = self.train, self.held_out, self.history, self._kept
        model._take(model.network)
        model.new_network(self.train)
        return model

    def new_network(self, train: Interactions) -> Network:
        network = self.network
        network.n_items = train.n_items
        with at_rest(network):
            found = tuple(network.table().shape)
            user = torch.zeros(1, dtype=torch.int64, device=device_of(network))
            context = user.new_full((1, self.length), -1) if self.length else None
            asked = tuple(network.encode(user, context).shape)
        if len(found) != 2 or found[0] != train.n_items or asked != (1, found[1]):
            raise SettingError(
                f"item_table is {found} and the encoder makes {asked} of one user; they must be "
                f"({train.n_items}, d) and (1, d) for this log."
            )
        return network

    @property
    def network(self) -> OwnNetwork:
        network = super().network
        assert isinstance(network, OwnNetwork)
        return network

    def settings(self) -> dict[str, Any]:
        return {"length": self.length, "clip": self.clip}

    def queries(self, users: Array) -> NDArray[np.float32]:
        return super().queries(users) if self._vectors is None else np.asarray(self._vectors["queries"][users])

    @property
    def item_table(self) -> NDArray[np.float32]:
        return super().item_table if self._vectors is None else np.asarray(self._vectors["items"])

    def tensors(self) -> dict[str, Array]:
        vectors = {"queries": self.queries(np.arange(self.train.n_users)), "items": self.item_table}
        return {**(super().tensors() if self._kept is None else self._kept), **vectors}

    def restore(self, tensors: Mapping[str, Array], record: Mapping[str, Any]) -> None:
        self._kept = {name: array for name, array in tensors.items() if name not in _VECTORS}
        self._vectors = tensors if all(name in tensors for name in _VECTORS) else None
        self.history = History.from_saved(record)


class OwnNetwork(DotNetwork):
    """An encoder and an item table of the caller's."""

    shares_dice = True
    n_items = 0

    def __init__(self, encoder: nn.Module, item_table: ItemTable, length: int, clip: float | None) -> None:
        super().__init__()
        self.encoder = encoder
        self.items = _as_embedding(item_table) if isinstance(item_table, nn.Parameter) else item_table
        self.length = length
        self.clip = clip

    def encode(self, users: Tensor, context: Tensor | None) -> Tensor:
        queries: Tensor = self.encoder(users) if context is None else self.encoder(users, context)
        return queries

    def rows(self, ids: Tensor) -> Tensor:
        vectors: Tensor = self.items(ids)
        return vectors

    def table(self) -> Tensor:
        if isinstance(self.items, nn.Embedding):
            return self.items.weight.detach()
        with at_rest(self.items):
            return self.rows(torch.arange(self.n_items, device=device_of(self)))


class TorchScorer(OwnModel):
    """``score(u, i) = module(u, i)``: what ``TorchRecommender(score=module)`` gives.

    Examples
    --------
    >>> import torch, vitalrank as vr
    >>> class Sum(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.users, self.items = torch.nn.Embedding(50, 1), torch.nn.Embedding(40, 1)
    ...     def forward(self, users, ids):
    ...         return self.users(users) + self.items(ids)[..., 0]
    >>> log = vr.datasets.synthetic(users=50, items=40, interactions=600, seed=0)
    >>> vr.TorchRecommender(score=Sum()).fit(log, vr.VINS(), epochs=2, seed=0).recommend(log.user_ids[0], n=3)[0].shape
    (3,)
    """

    def __init__(self, score: nn.Module, *, clip: float | None = 5.0) -> None:
        super().__init__()
        self.clip = _checked(clip)
        self._network = ScoreNetwork(score, self.clip)

    def settings(self) -> dict[str, Any]:
        return {"clip": self.clip}

    def meta(self) -> dict[str, Any]:
        return {**super().meta(), "class": "TorchRecommender"}

    def scores(self, users: Array, start: int, stop: int) -> NDArray[np.float32]:
        device = device_of(self.network)
        asked = torch.from_numpy(np.asarray(users, np.int64)).to(device)
        ids = torch.arange(start, stop, device=device)
        out = np.empty((len(users), stop - start), np.float32)
        block = max(1, _CELLS // max(1, stop - start))
        with at_rest(self.network):
            for first in range(0, len(users), block):
                part = asked[first : first + block]
                out[first : first + block] = self.network.score(part, ids.repeat(len(part), 1)).cpu().numpy()
        return out

    def history_scores(self, items: Array) -> NoReturn:
        raise SettingError("a model given by score= knows its own users only; it cannot fold in a history.")

    def similarities(self, item: int) -> NoReturn:
        raise SettingError("a model given by score= has no item vectors to compare.")


class ScoreNetwork(Network):
    """A scorer of the caller's; the users' part is their ids."""

    shares_dice = True

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

    def for_sampler(self, encoded: Tensor) -> dict[str, Any]:
        def score(rows: Tensor, ids: Tensor) -> Tensor:
            with at_rest(self):
                return self.score(encoded[rows], ids).float()

        return {"score": score}


def _as_embedding(vectors: nn.Parameter) -> nn.Embedding:
    """The parameter itself, to be looked up by row."""
    table = nn.Embedding(vectors.shape[0], vectors.shape[1], sparse=True, _weight=vectors.detach())
    table.weight = vectors
    return table


def _checked(clip: float | None) -> float | None:
    if clip is not None:
        check_positive("clip", clip)
    checked: float | None = own(clip)
    return checked
