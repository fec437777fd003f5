"""What a service asks of a fitted model, in original ids: recommend, similar items and users, fold in, export."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.checks import is_count
from vitalrank.errors import SettingError, UnknownIdError
from vitalrank.interactions import Interactions, logs_of
from vitalrank.ranking.scorers import DotScorer, Scorer
from vitalrank.ranking.top_n import top_items
from vitalrank.serving.exporting import export

__all__ = ["cosines", "export", "fold_in", "recommend", "similar_items", "similar_users", "solve_query"]

Array = NDArray[Any]
Floats = NDArray[np.float32]
_UNKNOWN = ("error", "popular")


def recommend(
    model: Scorer,
    users: Any,
    n: int = 10,
    *,
    exclude: Interactions | Sequence[Interactions] | None = None,
    unknown: str = "error",
    threads: int | None = None,
    device: str | None = None,
) -> tuple[Array, Floats]:
    """The ``n`` best items of each user among those not in the training log, best first.

    Scores are made and dropped tile by tile, so all users of a large log can be asked for at once.

    Parameters
    ----------
    users
        One original user id, or a sequence of them.
    n
        How many items; beyond the catalogue means the whole catalogue.
    exclude
        More logs whose items are left out, such as the parts that were held out of the training.
    unknown
        What a user outside the log gets: ``"error"`` (UnknownIdError) or ``"popular"`` (the items that most users
        touched, scored by that number).
    threads
        Threads to use; all by default. The result does not depend on it.
    device
        Where to rank: ``"cpu"``, ``"cuda"`` or ``"auto"``; by default where the model's vectors lie.

    Returns
    -------
    ids, scores
        Each ``(len(users), n)``, or ``(n,)`` for one id. A user with fewer than ``n`` unseen items has the row
        filled up with score -inf and id None (strings) or -1 (integers).

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.Interactions.from_arrays(["a", "a", "b", "c"], ["x", "y", "x", "z"])
    >>> ids, scores = recommend(vr.MostPopular().fit(log), ["b", "c"], n=2)
    >>> ids.tolist(), scores.tolist()
    ([['y', 'z'], ['x', 'y']], [[1.0, 1.0], [2.0, 1.0]])
    """
    if unknown not in _UNKNOWN:
        raise SettingError(f"unknown={unknown!r}: choose one of {', '.join(_UNKNOWN)}.")
    asked, single = _batch(users)
    log = model.train
    n = min(_count(n), log.n_items)
    index = log.user_index(asked) if unknown == "error" else _index_or_minus_one(log, asked)  # (B,)
    known = index >= 0
    items, scores = np.empty((len(asked), n), np.int64), np.empty((len(asked), n), np.float32)
    items[known], scores[known] = top_items(
        model, index[known], n, exclude=logs_of(exclude), threads=threads, device=device
    )
    if not known.all():
        items[~known], scores[~known] = best(log.item_degree.astype(np.float32), n)
    ids = _original(log, items)
    return (ids[0], scores[0]) if single else (ids, scores)


def similar_items(model: Scorer, item: Any, n: int = 10) -> tuple[Array, Floats]:
    """The ``n`` items most like ``item`` by the model's own measure, without ``item`` itself.

    Dot-product models compare the item vectors by cosine, ItemKNN by its similarities.

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.Interactions.from_arrays([1, 1, 2, 2, 3, 3], ["x", "y", "x", "y", "y", "z"])
    >>> similar_items(vr.ItemKNN().fit(log), "x", n=1)[0].tolist()
    ['y']
    """
    index = int(model.train.item_index([_one("item", item)])[0])
    items, scores = best(model.similarities(index), _count(n), leave_out=np.array([index]))
    return _original(model.train, items), scores


def similar_users(model: DotScorer, user: Any, n: int = 10) -> tuple[Array, Floats]:
    """The ``n`` users whose query vectors have the largest cosine to that of ``user``, without ``user``."""
    index = int(model.train.user_index([_one("user", user)])[0])
    users, scores = best(model.user_similarities(index), _count(n), leave_out=np.array([index]))
    return model.train.user_ids[users], scores


def fold_in(model: Scorer, history: Sequence[Any], n: int = 10) -> tuple[Array, Floats]:
    """The ``n`` best items for someone who is not in the log, from the items they touched; those are left out.

    Dot-product models look for a query vector on the fixed item table (:func:`solve_query`); ItemKNN adds the
    similarities of the history directly.

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.Interactions.from_arrays([1, 1, 2, 2, 3, 3], ["x", "y", "x", "y", "y", "z"])
    >>> fold_in(vr.ItemKNN().fit(log), ["x"], n=1)[0].tolist()
    ['y']
    """
    touched = () if isinstance(history, str) or np.ndim(history) == 0 else history
    if len(touched) == 0:
        raise SettingError("fold_in needs a list with at least one item id; without a history use MostPopular.")
    items = model.train.item_index(touched)
    found, scores = best(model.history_scores(items), _count(n), leave_out=items)
    return _original(model.train, found), scores


def solve_query(item_table: Floats, items: Array, *, reg: float = 0.03, constant_columns: int = 0) -> Floats:
    """The query vector that explains a history on a fixed item table.

    It minimises, by L-BFGS and from zero, the convex function

        f(q) = -1/|H| sum_{i in H} ln softmax(V q)_i + reg/2 m |q|^2

    over the whole catalogue ``V``: the history's items should be the likely ones. ``m`` is the mean squared length
    of the item vectors, so that ``reg`` means the same for tables of any scale. The last ``constant_columns``
    coordinates (a bias) stay 1.

    Examples
    --------
    >>> table = np.array([[1, 0], [0.9, 0.1], [0, 1]], np.float32)
    >>> query = solve_query(table, np.array([0]))
    >>> (table @ query).argsort()[::-1].tolist()
    [0, 1, 2]
    """
    free = item_table.shape[1] - constant_columns
    from scipy.optimize import minimize  # slow to import

    vectors, offset = item_table[:, :free], item_table[:, free:].sum(axis=1)  # (I, d), (I,)
    target = vectors[items].mean(axis=0)  # (d,)
    pull = reg * float(np.mean(np.einsum("ij,ij->i", vectors, vectors)))

    def loss(query: Array) -> tuple[float, Array]:
        logits = vectors @ query.astype(np.float32) + offset  # (I,)
        top = logits.max()
        weights = np.exp(logits - top)
        total = weights.sum()
        value = np.log(total) + top - target @ query - offset[items].mean() + pull / 2 * query @ query
        return float(value), (weights @ vectors / total - target + pull * query).astype(np.float64)

    query = minimize(loss, np.zeros(free), jac=True, method="L-BFGS-B", options={"maxiter": 100}).x
    return np.concatenate([query, np.ones(constant_columns)]).astype(np.float32)


def cosines(table: Floats, vector: Floats) -> Floats:
    """Cosine of each row of ``table`` to ``vector``; 0 where either is zero.

    Examples
    --------
    >>> cosines(np.array([[2, 0], [0, 0], [0, 3]], np.float32), np.array([1, 0], np.float32)).tolist()
    [1.0, 0.0, 0.0]
    """
    norms = np.sqrt(np.einsum("ij,ij->i", table, table)) * np.sqrt(vector @ vector)
    cosines = np.zeros(len(table), np.float32)
    np.divide(table @ vector, norms, out=cosines, where=norms > 0)
    return cosines


def best(scores: Floats, n: int, leave_out: Array | None = None) -> tuple[NDArray[np.int64], Floats]:
    """Positions and values of the ``n`` largest scores; equal ones by position.

    Examples
    --------
    >>> best(np.array([1, 3, 3, 2], np.float32), 2, leave_out=np.array([1]))[0].tolist()
    [2, 3]
    """
    order = np.argsort(-scores, kind="stable")
    if leave_out is not None:
        order = order[~np.isin(order, leave_out)]
    return order[:n], scores[order[:n]]


def _batch(ids: Any) -> tuple[Sequence[Any], bool]:
    single = isinstance(ids, str) or np.ndim(ids) == 0
    return ([ids], True) if single else (ids, False)


def _one(side: str, given: Any) -> Any:
    if not isinstance(given, str) and np.ndim(given) > 0:
        raise SettingError(f"similar_{side}s takes one {side} id, not {len(given)}; call it once for each of them.")
    return given


def _count(n: int) -> int:
    if not is_count(n):
        raise SettingError(f"n={n!r}: ask for a whole number of at least one.")
    return int(n)


def _index_or_minus_one(log: Interactions, ids: Sequence[Any]) -> NDArray[np.int64]:
    def look_up(one: Any) -> int:
        try:
            return int(log.user_index([one])[0])
        except UnknownIdError:
            return -1

    return np.array([look_up(one) for one in ids], np.int64)


def _original(log: Interactions, items: NDArray[np.int64]) -> Array:
    """Original ids; where ``items`` is -1 (nothing left to recommend), None or -1."""
    ids = log.item_ids[items]
    if (items < 0).any():
        ids[items < 0] = -1 if ids.dtype.kind in "iu" else None
    return ids
