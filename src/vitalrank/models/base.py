"""The base classes of all recommenders: scores of blocks, and the methods people call."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vitalrank import serving
from vitalrank.checkpoint import Saved, write_folder
from vitalrank.errors import SettingError, StorageError
from vitalrank.history import History
from vitalrank.interactions import Interactions, check_parts, check_rows
from vitalrank.interactions.arrays import LogArrays
from vitalrank.ranking.scorers import DotScorer, Scorer

if TYPE_CHECKING:
    from vitalrank.config import TrainConfig
    from vitalrank.samplers.settings import Sampler

Array = NDArray[Any]
_LOGS = "log."  # prefix of the tensors that hold the training log and what was held out of it
_NOT_WHOLE = (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError)
_NEGATIVES = "train negatives"  # no name of a held-out part
_TRAINING = "training."  # prefix of those that a run folder adds


class Recommender(Scorer):
    """A model that scores every item for every user of its training log.

    A subclass gives ``fit``, ``scores``, ``history_scores``, ``similarities`` and, to
    be saved, ``settings``, ``tensors`` and ``restore``. All of these speak internal ids.
    """

    defaults: ClassVar[Mapping[str, Any]] = {}  # options of fit that differ from TrainConfig's
    scoring_settings: ClassVar[frozenset[str]] = frozenset()  # those that fit does not read; see `rescored`
    _train: Interactions | None = None
    _training_history: History | None = None

    @property
    def history(self) -> History:
        """What happened in each epoch; nothing where a model has no steps."""
        if self._training_history is None:
            self._training_history = History()
        return self._training_history

    @history.setter
    def history(self, history: History) -> None:
        self._training_history = history

    @cached_property
    def held_out(self) -> dict[str, Interactions]:
        """Parts held out of the training, such as ``{"test": ...}``: ``save`` keeps them for an honest evaluation."""
        return {}

    @property
    def train(self) -> Interactions:
        """The log the model was fitted on."""
        if self._train is None:
            raise SettingError(f"{type(self).__name__} is not fitted yet: call fit(train) first.")
        return self._train

    @train.setter
    def train(self, log: Interactions) -> None:
        if self._train is not None and log.fingerprint != self._train.fingerprint:
            self.held_out = {}  # of another log
        self._train = log

    def default_sampler(self, config: TrainConfig) -> Sampler | None:
        """The sampler it is trained with unless another is named; None is the library's own default, ``VINS()``."""
        return None

    # ------------------------------------------------------------------------------- what a subclass gives

    @abstractmethod
    def fit(self, train: Interactions) -> Self:
        """Fit the model on a log and set ``self.train``; subclasses take more arguments, none of them needed."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """The arguments that build this model again; what JSON can hold."""

    @abstractmethod
    def tensors(self) -> dict[str, Array]:
        """The fitted arrays by name."""

    @abstractmethod
    def restore(self, tensors: Mapping[str, Array], record: Mapping[str, Any]) -> None:
        """Take back what ``tensors`` and ``record`` gave; ``self.train`` is set already."""

    def record(self) -> dict[str, Any]:
        """Facts worth keeping beside the settings, such as the training history; what JSON can hold."""
        return {}

    # ------------------------------------------------------------------------------- what people call

    def recommend(
        self,
        users: ArrayLike,
        n: int = 10,
        *,
        exclude: Interactions | Sequence[Interactions] | None = None,
        unknown: str = "error",
        threads: int | None = None,
        device: str | None = None,
        **filters: Unpack[serving.FilterOptions],
    ) -> tuple[Array, Array]:
        """The best unseen items of each user: see :func:`vitalrank.serving.recommend`."""
        return serving.recommend(
            self, users, n, exclude=exclude, unknown=unknown, threads=threads, device=device, **filters
        )

    def similar_items(
        self, item: ArrayLike, n: int = 10, **filters: Unpack[serving.FilterOptions]
    ) -> tuple[Array, Array]:
        """The items most like an item, or each of several: see :func:`vitalrank.serving.similar_items`."""
        return serving.similar_items(self, item, n, **filters)

    def fold_in(
        self,
        history: Sequence[Any],
        n: int = 10,
        *,
        unknown: str = "error",
        threads: int | None = None,
        **filters: Unpack[serving.FilterOptions],
    ) -> tuple[Array, Array]:
        """The best items for people outside the log: see :func:`vitalrank.serving.fold_in`."""
        return serving.fold_in(self, history, n, unknown=unknown, threads=threads, **filters)

    def explain(self, user: int | str, item: int | str) -> serving.Explanation:
        """Which of the user's items speak for an item: see :func:`vitalrank.serving.explain`."""
        return serving.explain(self, user, item)

    def contributions(self, items: Array, item: int) -> NDArray[np.float64]:
        """Nothing comes from single items unless a subclass says so."""
        return np.zeros(len(items))

    def export(self, path: str | os.PathLike[str], format: str = "numpy", force: bool = False) -> None:
        """Write the vectors for an inner-product index: see :func:`vitalrank.serving.exporting.export`."""
        serving.export(self, path, format, force)

    def score(self, held_out: Interactions, metric: str = "ndcg@10") -> float:
        """One number for a search over settings: see :func:`vitalrank.evaluate`."""
        from vitalrank.evaluation import value_of

        return value_of(self, held_out, metric)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The settings, as scikit-learn asks for them; its ``clone`` gives an unfitted model of the same."""
        return self.settings()

    def set_params(self, **settings: Any) -> Self:
        """Change settings, as scikit-learn does; the model is unfitted again."""
        unknown = settings.keys() - self.settings().keys()
        if unknown:
            known = ", ".join(self.settings()) or "none"
            raise SettingError(f"{type(self).__name__} has no setting {min(unknown)!r}; it has {known}.")
        if settings:
            self.__init__(**{**self.settings(), **settings})  # type: ignore[misc]
            self._train = None
        return self

    def rescored(self, **settings: Any) -> Self:
        """The fitted model with other ``scoring_settings``; what it learnt is shared, not learnt again.

        Examples
        --------
        >>> import vitalrank as vr
        >>> log = vr.datasets.synthetic(users=50, items=40, interactions=600, seed=0)
        >>> vr.EASE().fit(log).rescored(decay=0.9)
        EASE(reg=300.0, neighbours=None, dropout=0.0, decay=0.9)
        """
        for name in settings.keys() - self.scoring_settings:
            raise SettingError(f"{name} of {type(self).__name__} is read by fit; fit another model.")
        other = type(self)(**{**self.settings(), **settings})
        other.train = self.train
        other.restore(self.tensors(), self.record())
        return other

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model as a folder that :func:`vitalrank.load` reads."""
        write_folder(path, self.meta(), {**self.tensors(), **self.log_tensors()}, self.ids())

    def card(self, path: str | os.PathLike[str] | None = None, *, force: bool = False) -> str:
        """A README on the model: data, split, settings and, where a test part is held out, figures.

        Parameters
        ----------
        path
            Also write it there: a file, or the model's folder, where it becomes ``README.md``.
        force
            Replace a file that is there and is no such card.
        """
        from vitalrank.models.card import write_card

        return write_card(self, path, force)

    def push(self, repository: str, **options: Any) -> str:
        """Upload the model and its card to the Hugging Face Hub: see :func:`vitalrank.models.hub.push`."""
        from vitalrank.models.hub import push

        return push(self, repository, **options)

    def meta(self) -> dict[str, Any]:
        """What a saved folder says about the model beside its arrays."""
        return {"class": type(self).__name__, "settings": self.settings(), "record": self.record()}

    def ids(self) -> tuple[Array, Array]:
        """Original user and item ids."""
        return self.train.user_ids, self.train.item_ids

    def log_tensors(self) -> dict[str, Array]:
        """The training log and the held-out parts, as arrays to save."""
        arrays: dict[str, Array] = {}
        logs: dict[str, LogArrays] = {"train": self.train, **self.held_out}
        if self.train.negative_log is not None:
            logs[_NEGATIVES] = self.train.negative_log
        for part, log in logs.items():
            fields: dict[str, Array | None] = {"indptr": log.indptr, "items": log.items}
            fields |= {"times": log.times, "weights": log.weights}
            arrays |= {f"{_LOGS}{part}.{name}": array for name, array in fields.items() if array is not None}
        return arrays

    @classmethod
    def from_saved(cls, saved: Saved, path: str | os.PathLike[str]) -> Self:
        """The model in a folder that was read; ``path`` is for the error message alone."""
        others = (_LOGS, _TRAINING)
        own = {name: array for name, array in saved.tensors.items() if not name.startswith(others)}
        try:
            if saved.ids is None:
                raise KeyError("ids.arrow")
            model = cls(**saved.meta["settings"])
            logs = _logs_of(saved, *saved.ids)
            model.train = logs.pop("train")
            model.held_out = logs
            model.restore(own, saved.meta["record"])
        except (
            ArithmeticError,
            AttributeError,
            LookupError,
            MemoryError,
            RuntimeError,
            TypeError,
            ValueError,
        ) as error:
            raise StorageError(f"{path}: does not hold a whole {cls.__name__} ({error}); save it again.") from error
        return model

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self.settings().items())
        return f"{type(self).__name__}({settings})"


class DotRecommender(Recommender, DotScorer):
    """A model that scores with one dot product: ``score(u, i) = query(u) . item(i)``.

    A subclass gives ``queries`` and ``item_table`` and inherits the rest. A bias is one more column: its value in
    the item's row, the constant 1 at the end of every query.
    """

    constant_columns: int = 0  # trailing query coordinates that are 1 for every user
    normalize: bool = False  # whether scores are cosines: queries and items have length 1

    def vectors_on(self, device: str) -> tuple[Callable[[Any], Any], Any]:
        """The vectors as tensors of a device: queries (B, d) of given users, and the item table (I, d)."""
        import torch

        def queries(users: Any) -> Any:
            return torch.from_numpy(np.ascontiguousarray(self.queries(users.cpu().numpy()))).to(device)

        return queries, torch.from_numpy(np.ascontiguousarray(self.item_table)).to(device)

    def scores(self, users: Array, start: int, stop: int) -> NDArray[np.float32]:
        scores: NDArray[np.float32] = self.queries(users) @ self.item_table[start:stop].T
        return scores

    def history_scores(self, items: Array) -> NDArray[np.float32]:
        scores: NDArray[np.float32] = self.item_table @ self.query_of(items)
        return scores

    def query_of(self, items: Array) -> NDArray[np.float32]:
        """The query vector of someone who touched ``items``: see :func:`vitalrank.serving.solve_query`."""
        return self.unit(serving.solve_query(self.item_table, items, constant_columns=self.constant_columns))

    def unit(self, query: NDArray[np.float32]) -> NDArray[np.float32]:
        """A query at length 1 where scores are cosines."""
        length = np.float32(np.sqrt(query @ query)) if self.normalize else np.float32(0)
        return query / length if length > 0 else query

    def contributions(self, items: Array, item: int) -> NDArray[np.float64]:
        """The terms of a query solved from ``items`` as by :func:`vitalrank.serving.solve_query`, times the item."""
        table = self.item_table
        query = serving.solve_query(table, items, constant_columns=self.constant_columns)
        offset = table[:, self._free :].sum(axis=1)
        shares = serving.query_shares(table[:, : self._free], items, query[: self._free], offset)
        parts: NDArray[np.float64] = shares @ table[item, : self._free].astype(np.float64)
        length = float(np.sqrt(query @ query)) if self.normalize else 1.0
        return parts / (length or 1.0)

    def similarities(self, item: int) -> NDArray[np.float32]:
        return serving.cosines(self.item_table[:, : self._free], self.item_table[item, : self._free])

    def similar_users(self, user: int | str, n: int = 10) -> tuple[Array, Array]:
        """The users most like one user: see :func:`vitalrank.serving.similar_users`."""
        return serving.similar_users(self, user, n)

    def user_similarities(self, user: int) -> NDArray[np.float32]:
        """Cosine of each user's query to that of ``user``, as ``(U,)``."""
        queries = self.queries(np.arange(self.train.n_users))[:, : self._free]
        return serving.cosines(queries, queries[user])

    @property
    def _free(self) -> int:
        return int(self.item_table.shape[1]) - self.constant_columns


def _logs_of(saved: Saved, user_ids: Array, item_ids: Array) -> dict[str, Interactions]:
    """The logs among the arrays of a folder, by the names of their parts."""
    parts: dict[str, dict[str, Array]] = {}
    for name, array in saved.tensors.items():
        if name.startswith(_LOGS):
            part, _, field = name.removeprefix(_LOGS).rpartition(".")
            parts.setdefault(part, {})[field] = array
    logs = {}
    for part, fields in parts.items():
        check_rows(fields["indptr"], fields["items"], len(user_ids), len(item_ids))
        indptr, items = fields["indptr"].astype(np.int64, copy=False), fields["items"].astype(np.int32, copy=False)
        times, weights = fields.get("times"), fields.get("weights")
        logs[part] = Interactions(indptr, items, times, user_ids, item_ids, weights=weights)
        check_parts(logs[part])
    known = logs.pop(_NEGATIVES, None)
    return {part: replace(log, negative_log=known) for part, log in logs.items()}


def check_finite_table(name: str, table: Array, shape: tuple[int, ...]) -> None:
    """Refuse an array of a saved model that is not finite float32 of that shape.

    Examples
    --------
    >>> check_finite_table("users", np.zeros((2, 3), np.float32), (2, 4))
    Traceback (most recent call last):
    ...
    ValueError: users is float32 (2, 3), not float32 (2, 4)
    """
    if table.shape != shape or table.dtype != np.float32:
        raise ValueError(f"{name} is {table.dtype} {table.shape}, not float32 {shape}")
    if not np.isfinite(table).all():
        raise ValueError(f"{name} holds values that are not finite")
