"""What a service asks of a fitted model, in original ids: recommend, similar items and users, fold in."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from vitalrank._util.typing import Array, Floats
from vitalrank.errors import SettingError
from vitalrank.interactions import Interactions, logs_of
from vitalrank.ranking.rankers import ranker_of
from vitalrank.ranking.scorers import DotScorer, Scorer
from vitalrank.ranking.top_n import seen_items, top_items
from vitalrank.serving.filters import FilterOptions, Filters
from vitalrank.serving.ranking_rows import (
    check_on_cpu,
    check_unknown,
    histories_of,
    ids_of,
    known_part,
    list_length,
    original_ids,
    popular_rows,
    ranked_rows,
    top_of,
)

logger = logging.getLogger(__name__)


def recommend(
    model: Scorer,
    users: ArrayLike,
    n: int = 10,
    *,
    exclude: Interactions | Sequence[Interactions] | None = None,
    unknown: str = "error",
    threads: int | None = None,
    device: str | None = None,
    **filters: Unpack[FilterOptions],
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
        Where to rank: ``"cpu"``, ``"cuda"`` or ``"auto"``; by default where the model's vectors lie. Filters
        rank on the CPU.
    filters
        ``items=``, ``exclude_items=``, ``seen=``, ``per_user_exclude=``, ``exclude_negatives=``, ``within=`` and
        ``table=``: see :class:`vitalrank.serving.filters.FilterOptions`.

    Returns
    -------
    ids, scores
        Each ``(len(users), n)``, or ``(n,)`` for one id. A user with fewer than ``n`` items left has the row
        filled up with score -inf and id None (strings) or -1 (integers).

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.Interactions.from_arrays(["a", "a", "b", "c"], ["x", "y", "x", "z"])
    >>> model = vr.MostPopular().fit(log)
    >>> ids, scores = recommend(model, ["b", "c"], n=2)
    >>> ids.tolist(), scores.tolist()
    ([['y', 'z'], ['x', 'y']], [[1.0, 1.0], [2.0, 1.0]])
    >>> recommend(model, ["b", "c"], n=1, exclude_items=["y"])[0].tolist()
    [['z'], ['x']]
    """
    check_unknown(unknown, "popular")
    asked, single = ids_of(users)
    log = model.train
    n = min(list_length(n), log.n_items)
    chosen = Filters.of(log, asked, filters)
    index = log.user_index(asked) if unknown == "error" else log.user_lookup.positions_or_minus_one(asked)  # (B,)
    known = index >= 0
    items, scores = np.empty((len(asked), n), np.int64), np.empty((len(asked), n), np.float32)
    if chosen.is_plain:
        items[known], scores[known] = top_items(
            model, index[known], n, exclude=logs_of(exclude), threads=threads, device=device
        )
    else:
        check_on_cpu(device)
        bounds, seen = seen_items(log, logs_of(exclude))
        ranker = ranker_of(model, chosen.allowed)

        def left_out(row: int) -> Array:
            user = index[row]
            own = log.sorted_items[log.indptr[user] : log.indptr[user + 1]]
            return chosen.row(row, user, own, seen[bounds[user] : bounds[user + 1]])

        where = np.flatnonzero(known)
        items[where], scores[where] = ranked_rows(
            ranker, where, lambda rows: ranker.user_rows(index[rows]), left_out, n, threads
        )
    if not known.all():
        where = np.flatnonzero(~known)
        items[where], scores[where] = popular_rows(log, where, chosen, n)
    ids = original_ids(log, items)
    return (ids[0], scores[0]) if single else (ids, scores)


def fold_in(
    model: Scorer,
    history: Sequence[Any],
    n: int = 10,
    *,
    unknown: str = "error",
    threads: int | None = None,
    **filters: Unpack[FilterOptions],
) -> tuple[Array, Floats]:
    """The ``n`` best items for people who are not in the log, from the items they touched; those are left out.

    Dot-product models look for a query vector on the fixed item table (:func:`solve_query`); ItemKNN and EASE add the
    weights of the history directly.

    Parameters
    ----------
    history
        The item ids of one person, oldest first; or a list of such lists, for many.
    unknown
        What items outside the log do: ``"error"`` (UnknownIdError) or ``"skip"``, which leaves them out and counts them
        in a warning of the program's log. Someone without a known item gets the most popular ones.
    filters
        As of :func:`recommend`; ``seen=True`` may return items of the history.

    Returns
    -------
    ids, scores
        ``(n,)``, or less where no more are left, for one history; ``(B, n)``, filled up as by :func:`recommend`, for
        many.

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.Interactions.from_arrays([1, 1, 2, 2, 3, 3], ["x", "y", "x", "y", "y", "z"])
    >>> model = vr.ItemKNN().fit(log)
    >>> fold_in(model, ["x"], n=1)[0].tolist()
    ['y']
    >>> fold_in(model, [["x"], ["z", "new"]], n=1, unknown="skip")[0].tolist()
    [['y'], ['y']]
    """
    check_unknown(unknown, "skip")
    histories, single = histories_of(history)
    log = model.train
    n = min(list_length(n), log.n_items)
    chosen = Filters.of(log, [tuple(one) for one in histories], filters)
    touched = [known_part(log, one, unknown) for one in histories]
    missing = sum(len(one) - len(found) for one, found in zip(histories, touched, strict=True))
    if missing:
        logger.warning("%d of %d items of the histories are not in the log and were left out",
                       missing, sum(map(len, histories)))  # fmt: skip
    is_known = np.array([len(found) > 0 for found in touched], bool)
    items, scores = np.empty((len(touched), n), np.int64), np.empty((len(touched), n), np.float32)
    where, rest = np.flatnonzero(is_known), np.flatnonzero(~is_known)
    ranker = ranker_of(model, chosen.allowed)

    def rows_of(rows: Array) -> Floats:
        return ranker.history_rows([touched[row] for row in rows])

    items[where], scores[where] = ranked_rows(
        ranker, where, rows_of, lambda row: chosen.row(row, -1, touched[row]), n, threads
    )
    items[rest], scores[rest] = popular_rows(log, rest, chosen, n)
    if not single:
        return original_ids(log, items), scores
    left = items[0] >= 0
    return original_ids(log, items[0][left]), scores[0][left]


def similar_items(
    model: Scorer, item: ArrayLike, n: int = 10, **filters: Unpack[FilterOptions]
) -> tuple[Array, Floats]:
    """The ``n`` items most like ``item`` by the model's own measure, without ``item`` itself.

    Dot-product models compare the item vectors by cosine, ItemKNN and EASE by their weights.

    Parameters
    ----------
    item
        One original item id, or a sequence of them, which gives rows filled up as by :func:`recommend`.
    filters
        As of :func:`recommend`; ``within="genre"`` keeps to the item's own.

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.Interactions.from_arrays([1, 1, 2, 2, 3, 3], ["x", "y", "x", "y", "y", "z"])
    >>> similar_items(vr.ItemKNN().fit(log), "x", n=1)[0].tolist()
    ['y']
    >>> similar_items(vr.ItemKNN().fit(log), ["x", "z"], n=1)[0].tolist()
    [['y'], ['y']]
    """
    asked, single = ids_of(item)
    log = model.train
    n = min(list_length(n), log.n_items)
    chosen = Filters.of(log, asked, filters)
    index = log.item_index(asked) if len(asked) else np.empty(0, np.int64)
    items, scores = np.full((len(asked), n), -1, np.int64), np.full((len(asked), n), -np.inf, np.float32)
    for row, one in enumerate(index):
        out = np.union1d(chosen.row(row, -1, np.array([one])), [one])
        if chosen.allowed is not None:
            out = np.union1d(out, np.setdiff1d(np.arange(log.n_items), chosen.allowed))
        found, values = top_of(model.similarities(int(one)), n, leave_out=out)
        items[row, : len(found)], scores[row, : len(found)] = found, values
    if not single:
        return original_ids(log, items), scores
    left = items[0] >= 0
    return original_ids(log, items[0][left]), scores[0][left]


def similar_users(model: DotScorer, user: int | str, n: int = 10) -> tuple[Array, Floats]:
    """The ``n`` users whose query vectors have the largest cosine to that of ``user``, without ``user``."""
    if not isinstance(user, str) and np.ndim(user) > 0:
        raise SettingError(f"similar_users takes one user id, not {np.size(user)}; call it once for each of them.")
    index = int(model.train.user_index([user])[0])
    users, scores = top_of(model.user_similarities(index), list_length(n), leave_out=np.array([index]))
    return model.train.user_ids[users], scores
