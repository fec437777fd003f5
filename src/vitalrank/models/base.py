"""The base class of all recommenders: scores of blocks, and the methods people call."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vitalrank import serving
from vitalrank._util.typing import Array
from vitalrank.checkpoint import Saved, write_folder
from vitalrank.errors import SettingError, StorageError
from vitalrank.history import History
from vitalrank.interactions import Interactions
from vitalrank.models.saved import log_arrays, model_arrays, saved_logs
from vitalrank.ranking.scorers import Scorer

if TYPE_CHECKING:
    from vitalrank.config import TrainConfig
    from vitalrank.samplers.settings import Sampler

_NOT_WHOLE = (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError)


class Recommender(Scorer):
    """A model that scores every item for every user of its training log.

    A subclass gives ``fit``, ``scores``, ``history_scores``, ``similarities`` and, to
    be saved, ``settings``, ``tensors`` and ``restore``. All of these speak internal ids.
    """

    defaults: ClassVar[Mapping[str, Any]] = {}  # options of fit that differ from TrainConfig's
    scoring_settings: ClassVar[frozenset[str]] = frozenset()  # those that fit does not read; see `rescored`
    reads_weights: ClassVar[bool] = True  # whether the weights of the log count in fit
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
        """A README on the model: data, split, settings and, where a test set is held out, figures.

        Parameters
        ----------
        path
            Also write it there: a file, or the model's folder, where it becomes ``README.md``.
        force
            Replace a file that is there and is no such card, or was changed since.
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
        return log_arrays(self.train, self.held_out)

    @classmethod
    def from_saved(cls, saved: Saved, path: str | os.PathLike[str]) -> Self:
        """The model in a folder that was read; ``path`` is for the error message alone."""
        try:
            if saved.ids is None:
                raise KeyError("ids.arrow")
            model = cls(**saved.meta["settings"])
            logs = saved_logs(saved, *saved.ids)
            model.train = logs.pop("train")
            model.held_out = logs
            model.restore(model_arrays(saved), saved.meta["record"])
        except _NOT_WHOLE as error:
            raise StorageError(f"{path}: does not hold a whole {cls.__name__} ({error}); save it again.") from error
        return model

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self.settings().items())
        return f"{type(self).__name__}({settings})"
