"""A linear model of items by items in closed form."""

from __future__ import annotations

import logging
import timeit
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.checks import check_positive, to_float, to_int
from vitalrank._util.memory import available_memory
from vitalrank._util.typing import Array
from vitalrank.errors import SettingError, TrainingError
from vitalrank.interactions import Interactions, check_log
from vitalrank.kernels.cpu.ranking.neighbours import nearest_neighbours
from vitalrank.kernels.cpu.training.local_ridge import regress_items
from vitalrank.models.item_weights import ItemWeightModel, sparse_columns, to_decay

logger = logging.getLogger(__name__)

_PROBE = 512  # rows of the matrix whose inversion is timed for the estimate
_BLOCK = 1 << 27  # bytes of the sparse products and copies that are made at a time
_SPARSE_ENTRY = 12  # bytes of an entry of a sparse matrix
_ROUNDING = 6e-8  # of float32
_ACCURACY = 1e-3  # to which float32 must solve the system, else float64 does
_LONG = 600.0  # seconds


@dataclass(frozen=True)
class FitCost:
    """What a fit is estimated to take.

    Parameters
    ----------
    bytes
        Memory at the peak, beside what is taken already.
    seconds
        Time on this machine, from a small trial.
    """

    bytes: int
    seconds: float

    def __str__(self) -> str:
        size = f"{self.bytes / 1e9:.1f} GB" if self.bytes >= 1e9 else f"{max(1, self.bytes // 10**6)} MB"
        return f"{size} and {self.seconds:.0f} s" if self.seconds >= 1 else f"{size} and less than a second"


class EASE(ItemWeightModel):
    r"""Linear regression of every item on all others, in closed form.

    .. math::

        \min_B \|X - X B\|^2 + \|\Lambda^{1/2} B\|^2, \quad \mathrm{diag}(B) = 0, \qquad
        B_{ji} = -\frac{P_{ji}}{P_{ii}} \ (j \ne i), \quad P = (X^\top X + \Lambda)^{-1}, \quad
        \Lambda_{jj} = \lambda + \frac{p}{1 - p} |U_j|

    The score of an item is the sum of ``decay^a B_ji`` over the user's items ``j``, where ``a`` is the number of the
    user's items after ``j``: with ``decay`` below 1 old items say less.

    The inverse takes ``4 I^2`` bytes (12 where ``reg`` is so small that float32 would not do) and a time that grows
    with ``I^3``: :meth:`estimate` tells both, and ``fit`` refuses to start where memory does not suffice.

    With ``neighbours``, item ``i`` is regressed on the so many items most like it by cosine, and on nothing else:
    exact on these, memory grows with ``I neighbours``, and any catalogue is possible.

    Parameters
    ----------
    reg
        ``lambda``, above 0; more for logs with more interactions per item.
    neighbours
        Items that each item is regressed on; None: all.
    dropout
        ``p``: what a regression would learn from rows in which each item is left out with this probability, in the
        mean over all such rows; from 0, which is EASE, to below 1. Items with many users ``U_j`` are held back more.
    decay
        The weight of an item falls by this factor with each later one of the user; 1: all count the same.

    References
    ----------
    Steck, "Embarrassingly shallow autoencoders for sparse data", WWW 2019; with ``dropout`` it is EDLAE (Steck,
    "Autoencoders that don't overfit towards the identity", NeurIPS 2020). The sparse form is SLIM's with feature
    selection (Ning and Karypis, "SLIM: sparse linear methods for top-N recommender systems", ICDM 2011), without its
    L1 penalty and bounds.

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.Interactions.from_arrays([1, 1, 2, 2, 3], ["x", "y", "x", "y", "x"])
    >>> ids, scores = vr.EASE(reg=1.0).fit(log).recommend(3, n=1)
    >>> ids.tolist(), round(float(scores[0]), 2)
    (['y'], 0.5)
    """

    def __init__(
        self, reg: float = 300.0, neighbours: int | None = None, dropout: float = 0.0, decay: float = 1.0
    ) -> None:
        self.dropout = to_float("dropout", dropout, least=0)
        if not self.dropout < 1:
            raise SettingError(f"dropout is {dropout!r}; it must be a number from 0 to below 1.")
        self.decay = to_decay(decay)
        check_positive("reg", reg)
        self.reg = to_float("reg", reg)
        self.neighbours = None if neighbours is None else to_int("neighbours", neighbours)

    def estimate(self, train: Interactions) -> FitCost:
        """What ``fit`` would take on a log, without starting it.

        Examples
        --------
        >>> import vitalrank as vr
        >>> log = vr.datasets.synthetic(users=50, items=40, interactions=600, seed=0)
        >>> vr.EASE().estimate(log).bytes >= 4 * 40**2
        True
        """
        check_log("train", train)
        if self.neighbours is None:
            return _dense_cost(train, self._precision(train))
        return _sparse_cost(train, min(self.neighbours, train.n_items - 1))

    def fit(self, train: Interactions) -> Self:
        """Solve the regression.

        Raises
        ------
        TrainingError
            Before anything is computed, if the memory that is free does not suffice.
        """
        cost = self.estimate(train)
        logger.log(
            logging.WARNING if cost.seconds > _LONG else logging.INFO,
            "%r on %s items takes about %s%s", self, f"{train.n_items:,}", cost,
            "; neighbours=200 takes less" if cost.seconds > _LONG and self.neighbours is None else "",
        )  # fmt: skip
        free = available_memory()
        if free is not None and cost.bytes > free:
            less = "neighbours=200 for the sparse form" if self.neighbours is None else "fewer neighbours"
            raise TrainingError(
                f"{self!r} on {train.n_items:,} items needs about {cost.bytes / 1e9:.1f} GB of memory, and "
                f"{free / 1e9:.1f} GB are free; give {less}, or drop rare items (k_core, --min-item)."
            )
        weights = self._solved_dense(train) if self.neighbours is None else self._solved_sparse(train, self.neighbours)
        self.train = train
        self._set_dense(weights) if isinstance(weights, np.ndarray) else self._set_sparse(*weights)
        return self

    def _solved_dense(self, train: Interactions) -> NDArray[np.float32]:
        try:
            return _closed_form(train, self._penalties(train), self._precision(train))
        except (MemoryError, np.linalg.LinAlgError) as error:
            raise TrainingError(f"{self!r} could not invert its matrix ({error}); give a larger reg.") from error

    def _solved_sparse(self, train: Interactions, neighbours: int) -> tuple[Array, Array, Array]:
        seen, columns = train.csr, train.csr.tocsc()
        shape = train.n_items, min(neighbours, max(train.n_items - 1, 1))
        weights, support = np.empty(shape, np.float32), np.empty(shape, np.int32)
        sides = columns.indptr, columns.indices, seen.indptr, seen.indices
        nearest_neighbours(
            *sides, np.ones(train.n_users), train.item_degree.astype(np.float64), 0.0, weights, support
        )  # fmt: skip
        support.sort(axis=1)
        regress_items(*sides, support, self._penalties(train), weights)
        return sparse_columns(support, weights)

    def _penalties(self, train: Interactions) -> NDArray[np.float64]:
        """The diagonal of ``Lambda``."""
        return self.reg + self.dropout / (1 - self.dropout) * train.item_degree.astype(np.float64)

    def _precision(self, train: Interactions) -> type[np.floating[Any]]:
        """float32 where it solves the system well enough: its error grows with the condition number."""
        largest = float((train.csr.T @ train.user_degree.astype(np.float64)).max())  # bounds the largest eigenvalue
        return np.float32 if _ROUNDING * (largest + self.reg) / self.reg < _ACCURACY else np.float64

    def settings(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("reg", "neighbours", "dropout", "decay")}

    def restore(self, tensors: Mapping[str, Array], record: Mapping[str, Any]) -> None:
        self.restore_dense(tensors) if self.neighbours is None else self.restore_sparse(tensors)


def _dense_cost(train: Interactions, kind: type[np.floating[Any]]) -> FitCost:
    size = train.n_items
    probe = min(size, _PROBE)
    matrix = np.eye(probe, dtype=kind)
    _invert(matrix.copy())  # the first call loads the library
    rate = min(timeit.repeat(lambda: _invert(matrix.copy()), number=1, repeat=3)) / probe**3
    cells = size**2 * (np.dtype(kind).itemsize + (4 if kind is np.float64 else 0))
    return FitCost(cells + min(_BLOCK, 4 * _SPARSE_ENTRY * size**2), rate * size**3 + _pairs(train) * 1e-8)


def _sparse_cost(train: Interactions, width: int) -> FitCost:
    entries = train.n_items * width
    touched = _pairs(train) / max(len(train), 1)  # items of the users of an interaction
    per_item = width * (len(train) / train.n_items) * touched * 1e-9 + width**3 * 1e-10
    return FitCost(entries * 6 * _SPARSE_ENTRY, train.n_items * per_item + _pairs(train) * 1e-8)


def _pairs(train: Interactions) -> float:
    """Pairs of items that users share."""
    return float(np.square(train.user_degree, dtype=np.float64).sum())


def _closed_form(
    train: Interactions, penalties: NDArray[np.float64], kind: type[np.floating[Any]]
) -> NDArray[np.float32]:
    """``B`` of :class:`EASE`, in the memory of the Gram matrix."""
    size = train.n_items
    seen = train.csr.astype(kind)
    columns = seen.T.tocsr()
    matrix = np.empty((size, size), kind)  # (I, I)
    step = max(1, _BLOCK // (_SPARSE_ENTRY * size))
    for start in range(0, size, step):
        (columns[start : start + step] @ seen).toarray(out=matrix[start : start + step])
    matrix.reshape(-1)[:: size + 1] += penalties.astype(kind)
    _invert(matrix)
    scale = -1 / matrix.diagonal()
    for start in range(0, size, step):
        rows = slice(start, min(start + step, size))
        matrix[rows.stop :, rows] = matrix[rows, rows.stop :].T  # only the upper triangle is computed
        corner = np.triu(matrix[rows, rows])
        matrix[rows, rows] = corner + np.triu(corner, 1).T
    matrix *= scale
    np.fill_diagonal(matrix, 0)
    return matrix.astype(np.float32, copy=False)


def _invert(matrix: NDArray[Any]) -> None:
    """Replace the upper triangle of a positive definite matrix by that of its inverse."""
    from scipy.linalg import get_lapack_funcs  # slow to import

    routines: Any = get_lapack_funcs(("potrf", "potri"), (matrix,))
    factorise, invert = routines
    columns = matrix.T  # LAPACK counts by columns; the matrix is symmetric, so this is a view of it, in place
    failed: int = factorise(columns, lower=1, clean=0, overwrite_a=1)[1]
    if failed == 0:
        failed = invert(columns, lower=1, overwrite_c=1)[1]
    if failed:
        raise np.linalg.LinAlgError("it is not positive definite in this precision")
