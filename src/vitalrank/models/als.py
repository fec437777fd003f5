"""Matrix factorization by alternating least squares over every cell of the matrix."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_matrix

from vitalrank._util.checks import MOST_SEED, to_float, to_int
from vitalrank._util.threads import limited
from vitalrank._util.typing import Array, Floats, Values
from vitalrank.errors import SettingError, TrainingError
from vitalrank.history import History
from vitalrank.interactions import Interactions, check_log
from vitalrank.kernels.cpu.training import als as kernels
from vitalrank.kernels.cpu.training.initial import fill_normal
from vitalrank.models.dot import DotRecommender
from vitalrank.models.saved import check_finite_table

_STEPS = 3  # of the conjugate gradient, from the last epoch's vectors
_DEVIATION = 0.1  # of the initial vectors, divided by sqrt(dim)


class ALS(DotRecommender):
    r"""Matrix factorization on all cells of the matrix, unseen ones as weak zeros: no negatives are drawn.

    .. math::

        \min_{P, Q} \sum_{u, i} c_{ui} (x_{ui} - P_u \cdot Q_i)^2 + \lambda \Big(\sum_u |P_u|^2 + \sum_i |Q_i|^2\Big),
        \qquad c_{ui} = 1 + \alpha r_{ui}

    ``x`` is 1 where the user has the item and 0 elsewhere, ``r`` the weight of the interaction (1 unless ``fit`` is
    given others) and 0 elsewhere. Each epoch solves all items, then all users, with the other side fixed: one linear
    system per row, by three steps of the conjugate gradient from the last epoch's vectors. The compiled kernel adds
    in a fixed order: the same seed gives the same bits on any number of threads.

    Parameters
    ----------
    dim
        Columns of a vector.
    reg
        ``lambda``: weight of the L2 penalty, once per row.
    alpha
        By how much an interaction counts more than an empty cell.
    epochs
        How often each side is solved.
    seed
        Of the initial vectors.

    References
    ----------
    Hu, Koren and Volinsky, "Collaborative filtering for implicit feedback datasets", ICDM 2008. Takács, Pilászy and
    Tikk, "Applications of the conjugate gradient method for implicit feedback collaborative filtering", RecSys 2011.

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.datasets.synthetic(users=50, items=40, interactions=600, seed=0)
    >>> model = vr.ALS(dim=8, epochs=5).fit(log)
    >>> model.recommend(log.user_ids[:2], n=5)[0].shape
    (2, 5)
    """

    def __init__(self, dim: int = 64, reg: float = 10.0, alpha: float = 3.0, epochs: int = 15, seed: int = 0) -> None:
        self.dim = to_int("dim", dim)
        self.reg = to_float("reg", reg, least=0)
        self.alpha = to_float("alpha", alpha, least=0)
        self.epochs = to_int("epochs", epochs)
        self.seed = to_int("seed", seed, least=0, most=MOST_SEED)
        self.history = History()
        self._users: Floats = np.zeros((0, 0), np.float32)  # (U, d)
        self._items: Floats = np.zeros((0, 0), np.float32)  # (I, d)

    def fit(
        self,
        train: Interactions,
        *,
        weights: ArrayLike | None = None,
        threads: int | None = None,
        resume: bool = False,
        callbacks: Sequence[Callable[[dict[str, Any], Any], Any]] = (),
    ) -> Self:
        """Solve users and items in turn.

        Parameters
        ----------
        train
            The log.
        weights
            ``r`` of each row of ``train``, at least 0; by default the log's own weights, or 1.
        threads
            Most threads; all by default. The result does not depend on it.
        resume
            Continue from the vectors the model has, up to ``epochs`` in all: the same bits as without the stop.
        callbacks
            Called with each epoch's record and the model; one that returns true ends the training.
        """
        check_log("train", train)
        excess = self._excess(train, weights)
        if not resume:
            self._start(train)
        elif self.train.fingerprint != train.fingerprint:
            raise SettingError("resume continues on the log of the first fit, and this is another; leave resume out.")
        with limited(threads):
            while len(self.history) < self.epochs:
                record = self._epoch(train, excess)
                stop = [callback(record, self) for callback in callbacks]
                if any(stop):
                    self.history.stopped = "callback"
                    return self
        self.history.stopped = "finished"
        return self

    def _excess(self, train: Interactions, weights: ArrayLike | None) -> Floats:
        """By how much the confidence of each row of the log exceeds that of an empty cell: ``alpha r``."""
        if weights is None:
            weights = train.weights
        if weights is None:
            return np.full(len(train), self.alpha, np.float32)
        given = np.asarray(weights)
        numbers = given.dtype.kind in "fiub" and given.shape == (len(train),) and np.isfinite(given).all()
        if not numbers or (given < 0).any():
            raise SettingError(f"weights are no {len(train):,} numbers of at least 0; give one for each row of train.")
        return (self.alpha * given).astype(np.float32)

    def _start(self, train: Interactions) -> None:
        tables = []
        for number, rows in enumerate((train.n_users, train.n_items)):
            table = np.zeros((rows, 1, self.dim), np.float32)
            fill_normal(table, self.dim, self.seed, number, _DEVIATION / np.sqrt(self.dim))
            tables.append(table[:, 0])
        self.train = train
        self._users, self._items = tables
        self.history = History()
        self.history.settings = self.settings()

    def _epoch(self, train: Interactions, excess: Floats) -> dict[str, Any]:
        began = time.perf_counter()
        rows = csr_matrix((excess, train.items, train.indptr), shape=(train.n_users, train.n_items))
        columns = rows.tocsc()
        users, items = self._users.copy(), self._items.copy()  # what an interrupted epoch leaves is dropped
        self._half(columns.indptr, columns.indices, columns.data, users, items)
        loss = self._half(rows.indptr, rows.indices, rows.data, items, users)
        loss += float((kernels.gram(users) * kernels.gram(items)).sum())  # the squares of the scores of all cells
        loss += self.reg * (float(np.square(users, dtype=np.float64).sum() + np.square(items, dtype=np.float64).sum()))
        if not (np.isfinite(users).all() and np.isfinite(items).all()):
            raise TrainingError(f"the vectors are not finite after epoch {len(self.history) + 1}; raise reg above 0.")
        self._users, self._items = users, items
        record = {
            "epoch": len(self.history) + 1, "loss": loss / len(train), "seconds": time.perf_counter() - began,
        }  # fmt: skip
        self.history.records.append(record)
        return record

    def _half(self, indptr: Array, indices: Array, excess: Array, fixed: Floats, solved: Floats) -> float:
        """Solve the rows of one side; see :func:`vitalrank.kernels.cpu.training.als.solve_rows`."""
        normal = kernels.gram(fixed) + self.reg * np.eye(self.dim)
        return kernels.solve_rows(
            indptr.astype(np.int64), indices.astype(np.int32), excess.astype(np.float32), fixed,
            normal.astype(np.float32), _STEPS, solved,
        )  # fmt: skip

    def queries(self, users: Array) -> Floats:
        return self._users[users]

    @property
    def item_table(self) -> Floats:
        return self._items

    def query_of(self, items: Array) -> Floats:
        """The vector of someone who touched ``items``: their normal equation, solved exactly on the item table."""
        table = self._items.astype(np.float64)
        touched = table[np.unique(items)]  # (h, d)
        normal = table.T @ table + self.alpha * touched.T @ touched + self.reg * np.eye(self.dim)
        solution: Floats = np.linalg.lstsq(normal, (1 + self.alpha) * touched.sum(axis=0), rcond=None)[0].astype(
            np.float32
        )
        return solution

    def shares(self, items: Array) -> Values:
        """The terms of the normal equation's solution: with its matrix ``A``, ``(1 + alpha) A^-1 y_j``."""
        table = self._items.astype(np.float64)
        touched = table[items]  # (h, d)
        normal = table.T @ table + self.alpha * touched.T @ touched + self.reg * np.eye(self.dim)
        return np.asarray(np.linalg.lstsq(normal, (1 + self.alpha) * touched.T, rcond=None)[0].T, np.float64)

    def settings(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("dim", "reg", "alpha", "epochs", "seed")}

    def record(self) -> dict[str, Any]:
        return self.history.to_save()

    def tensors(self) -> dict[str, Array]:
        return {"users": self._users, "items": self._items}

    def restore(self, tensors: Mapping[str, Array], record: Mapping[str, Any]) -> None:
        self._users, self._items = tensors["users"], tensors["items"]
        check_finite_table("users", self._users, (self.train.n_users, self.dim))
        check_finite_table("items", self._items, (self.train.n_items, self.dim))
        self.history = History.from_saved(record)
