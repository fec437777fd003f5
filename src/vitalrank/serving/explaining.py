"""Which of a user's items speak for an item, as numbers that add up to its score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.typing import Array
from vitalrank.errors import SettingError
from vitalrank.ranking.scorers import DotScorer, Scorer


@dataclass(frozen=True)
class Explanation:
    """A score as a sum: ``score == contributions.sum() + rest``.

    Parameters
    ----------
    item
        The item that is explained, an original id.
    score
        Its score.
    items
        The user's items, the one that speaks for it most first; original ids.
    contributions
        What each of them adds, ``(len(items),)``.
    rest
        What does not come from the items: a bias, and what the trained vector holds beyond them.
    """

    item: Any
    score: float
    items: Array
    contributions: NDArray[np.float64]
    rest: float


def explain(model: Scorer, user: int | str, item: int | str) -> Explanation:
    """Which of the user's items speak for ``item``.

    ItemKNN and EASE score by a sum over the user's items, and these are its terms. For models of vectors the user's
    vector is solved from their items as :func:`fold_in` does; at the solution it is a sum with a term for each item
    (:func:`vitalrank.serving.vectors.query_shares`; ALS and LightGCN have such a sum of their own). The multiple of it
    that is nearest to the user's trained vector takes its place; what is left of the score is ``rest``. If it is
    small, the items explain the score.

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.Interactions.from_arrays([1, 1, 2, 2, 3], ["x", "y", "x", "y", "x"])
    >>> why = explain(vr.ItemKNN().fit(log), 3, "y")
    >>> why.items.tolist(), round(why.score, 2), why.rest
    (['x'], 0.96, 0.0)
    """
    log = model.train
    who, what = int(log.user_index([user])[0]), int(log.item_index([item])[0])
    items = log.items[log.indptr[who] : log.indptr[who + 1]].astype(np.int64)
    score = float(model.scores(np.array([who]), what, what + 1)[0, 0])
    if isinstance(model, DotScorer) and model.has_vectors:
        parts = model.contributions(items, what, model.queries(np.array([who]))[0])
    else:
        parts = model.contributions(items, what)
    return _sorted(model, what, score, items, parts)


def explain_history(model: Scorer, history: Sequence[Any] | NDArray[Any], item: int | str) -> Explanation:
    """As :func:`explain`, for someone outside the log with these items: ``fold_in``'s score of ``item`` as a sum."""
    log = model.train
    if isinstance(history, str) or np.ndim(history) != 1 or not len(history):
        raise SettingError("explain needs a history: a list with at least one item id.")
    touched, what = log.item_index(history), int(log.item_index([item])[0])
    score = float(model.history_scores(touched)[what])
    items = touched[np.sort(np.unique(touched, return_index=True)[1])]  # oldest first, each once
    return _sorted(model, what, score, items, model.contributions(items, what))


def _sorted(model: Scorer, item: int, score: float, items: Array, parts: NDArray[np.float64]) -> Explanation:
    order = np.argsort(-parts, kind="stable")
    ids = model.train.item_ids
    rest = score - float(parts.sum())
    rest = 0.0 if abs(rest) <= 1e-5 * max(abs(score), float(np.abs(parts).sum())) else rest  # rounding of float32
    return Explanation(
        ids[item].item() if hasattr(ids[item], "item") else ids[item], score, ids[items[order]], parts[order], rest
    )
