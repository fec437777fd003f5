"""Any torch model: bring the modules, gain training, evaluation, recommendation and checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from vitalrank._util.checks import check_bool, to_int
from vitalrank._util.typing import Array
from vitalrank.engines.network import Network, eval_mode
from vitalrank.errors import SettingError
from vitalrank.history import History
from vitalrank.interactions import Interactions
from vitalrank.models.custom_modules import CustomModel, check_kind, checked_clip, first_and_last
from vitalrank.models.custom_networks import CustomNetwork, CustomSequenceNetwork, ItemModule
from vitalrank.models.custom_scorer import ScoreNetwork, similar_histories
from vitalrank.models.saved import check_finite_table
from vitalrank.models.torch_model import TorchModel

_NO_VECTORS = "a model given by score= has no vectors; give an encoder and an item_table for them."
_VECTORS = ("queries", "items")  # what a saved model serves until its modules are attached


class TorchRecommender(CustomModel, TorchModel):
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
        no dot product: it cannot find similar items or be exported, and a loaded one needs its module.
    length
        With 1 or more, ``encoder(users, context)`` also gets the last items before each positive, (B, length), oldest
        first, -1 behind a shorter history.
    all_positions
        With ``length``: the encoder makes queries (B, L, d), one after each item of a context (B, L), L at most
        ``length``, and all positions of a sequence are trained in one pass. A query may not depend on the items behind
        it, which is checked before training. ``batch`` then counts windows of ``length`` positives of a user.
    clip
        The most that the gradient of all that is not an embedding may measure, or None.
    normalize
        Scores are cosines: queries and item vectors are divided by their lengths where they are scored and served.

    Examples
    --------
    >>> import torch, vitalrank as vr
    >>> log = vr.datasets.synthetic(users=50, items=40, interactions=600, seed=0)
    >>> encoder = torch.nn.Sequential(torch.nn.Embedding(50, 8), torch.nn.Linear(8, 8))
    >>> model = vr.TorchRecommender(encoder, torch.nn.Embedding(40, 8)).fit(log, vr.DNS(), epochs=2, seed=0)
    >>> model.recommend(log.user_ids[:2], n=5)[0].shape
    (2, 5)
    >>> class Sum(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.users, self.items = torch.nn.Embedding(50, 1), torch.nn.Embedding(40, 1)
    ...     def forward(self, users, ids):
    ...         return self.users(users) + self.items(ids)[..., 0]
    >>> model = vr.TorchRecommender(score=Sum()).fit(log, vr.VINS(), epochs=2, seed=0)
    >>> model.recommend(log.user_ids[0], n=3)[0].shape
    (3,)
    """

    def __init__(
        self,
        encoder: nn.Module | None = None,
        item_table: ItemModule | None = None,
        *,
        score: nn.Module | None = None,
        length: int = 0,
        all_positions: bool = False,
        clip: float | None = 5.0,
        normalize: bool = False,
    ) -> None:
        super().__init__()
        check_bool("normalize", normalize)
        self.normalize = normalize
        self.length = to_int("length", length, least=0)
        check_bool("all_positions", all_positions)
        self.all_positions = all_positions
        self.clip = checked_clip(clip)
        if all_positions and not length:
            raise SettingError("all_positions=True needs length=, the most items of a sequence that the encoder reads.")
        self._vectors: Mapping[str, Array] | None = None
        if score is not None:
            if encoder is not None or item_table is not None or length or normalize:
                raise SettingError(
                    "score= takes the place of encoder, item_table, length and normalize; give it alone."
                )
            check_kind("score", score, nn.Module)
            self._network = ScoreNetwork(score, self.clip)
            return
        if (encoder is None) != (item_table is None):
            raise SettingError("TorchRecommender needs both an encoder and an item_table.")
        if encoder is not None and item_table is not None:
            check_kind("encoder", encoder, nn.Module)
            check_kind("item_table", item_table, nn.Module, nn.Parameter)
            kind = CustomSequenceNetwork if self.all_positions else CustomNetwork
            self._network = kind(encoder, item_table, self.length, self.clip)
            self._network.normalize = normalize

    def attach(
        self, encoder: nn.Module | None = None, item_table: ItemModule | None = None, *, score: nn.Module | None = None
    ) -> TorchRecommender:
        """The loaded model over these modules, with the saved values in them."""
        model = TorchRecommender(encoder, item_table, score=score, **self._options())
        model.train, model.held_out, model.history = self.train, self.held_out, self.history
        model._saved_parameters = self._saved_parameters
        model._load_saved(model.network)
        model.new_network(self.train)
        return model

    def new_network(self, train: Interactions) -> Network:
        network = self.network
        if isinstance(network, (CustomNetwork, ScoreNetwork)):
            network.check(train.n_users, train.n_items)
        return network

    def query_of(self, items: Array) -> NDArray[np.float32]:
        """The query of someone with this history, oldest first.

        An encoder of contexts that does not look at user ids reads it; for any other, the query is solved for on the
        item table (:func:`vitalrank.serving.solve_query`).
        """
        if self.length and self._network is not None:
            context = np.full((2, self.length), -1)
            context[:, : min(len(items), self.length)] = items[-self.length :]
            network = self.dot_network
            users = first_and_last(self.train.n_users, network)
            with eval_mode(network):
                queries = network.encode(users, torch.from_numpy(context).to(users.device)).float().cpu().numpy()
            if np.array_equal(queries[0], queries[1]):
                return np.asarray(queries[0], np.float32)
        return super().query_of(items)

    def contributions(self, items: Array, item: int, query: NDArray[np.float32] | None = None) -> NDArray[np.float64]:
        return super().contributions(items, item, query) if self.has_vectors else np.zeros(len(items))

    @property
    def has_vectors(self) -> bool:
        return not isinstance(self._network, ScoreNetwork)

    @property
    def dot_network(self) -> CustomNetwork:
        network = self.network
        if not isinstance(network, CustomNetwork):
            raise SettingError(_NO_VECTORS)
        return network

    def settings(self) -> dict[str, Any]:
        options = self._options()
        if not self.all_positions:  # as version 0.1 saved them
            del options["all_positions"]
        if not self.normalize:
            del options["normalize"]
        return options if self.has_vectors else {"clip": self.clip}

    def _options(self) -> dict[str, Any]:
        given = {"length": self.length, "all_positions": self.all_positions, "clip": self.clip}
        return {**given, "normalize": self.normalize}

    def __repr__(self) -> str:
        # Runs of version 0.1 know a model with score= by this name, and are resumed by it.
        shown = super().__repr__()
        return shown if self.has_vectors else shown.replace("TorchRecommender(", "TorchScorer(", 1)

    @property
    def device(self) -> str:  # type: ignore[override]
        return super().device if self.has_vectors else "cpu"

    def scores(self, users: Array, start: int, stop: int) -> NDArray[np.float32]:
        if isinstance(self._network, ScoreNetwork):
            return self._network.pair_scores(users, start, stop)
        return super().scores(users, start, stop)

    def history_scores(self, items: Array) -> NDArray[np.float32]:
        """Scores of all items for someone with this history, (I,).

        A model given by ``score=`` knows its own users only: it gives the mean of its scores for the users of the log
        whose items are most like the history, weighted by their likeness.
        """
        if isinstance(self._network, ScoreNetwork):
            users, likeness = similar_histories(self.train, items)
            scores = self._network.pair_scores(users, 0, self.train.n_items)
            return np.asarray((likeness[:, None] * scores).sum(0) / likeness.sum(), np.float32)
        return super().history_scores(items)

    def similarities(self, item: int) -> NDArray[np.float32]:
        if not self.has_vectors:
            raise SettingError("a model given by score= has no item vectors to compare.")
        return super().similarities(item)

    def queries(self, users: Array) -> NDArray[np.float32]:
        if self._vectors is not None:
            return np.asarray(self._vectors["queries"][users])
        if not self.has_vectors:
            raise SettingError(_NO_VECTORS)
        return super().queries(users)

    @property
    def item_table(self) -> NDArray[np.float32]:
        return super().item_table if self._vectors is None else np.asarray(self._vectors["items"])

    def tensors(self) -> dict[str, Array]:
        if not self.has_vectors:
            return super().tensors()
        if self._network is None and self._vectors is None and self._saved_parameters is not None:
            return dict(self._saved_parameters)  # of a run folder, whose modules were not attached
        vectors = {"queries": self.queries(np.arange(self.train.n_users)), "items": self.item_table}
        return {**(super().tensors() if self._saved_parameters is None else self._saved_parameters), **vectors}

    def restore(self, tensors: Mapping[str, Array], record: Mapping[str, Any]) -> None:
        self._saved_parameters = {name: array for name, array in tensors.items() if name not in _VECTORS}
        self._vectors = tensors if any(name in tensors for name in _VECTORS) else None
        if self._vectors is not None:
            width = tensors["items"].shape[-1] if tensors["items"].ndim == 2 else 0
            check_finite_table("queries", tensors["queries"], (self.train.n_users, width))
            check_finite_table("items", tensors["items"], (self.train.n_items, width))
        self.history = History.from_saved(record)
