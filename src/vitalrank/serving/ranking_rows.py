"""The rows of an answer: histories and counts checked, blocks ranked, users without a history."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vitalrank._util.checks import is_count
from vitalrank._util.typing import Array, Floats
from vitalrank.errors import SettingError
from vitalrank.interactions import Interactions
from vitalrank.kernels.cpu.ranking.top_n import top_of_tile
from vitalrank.ranking.rankers import LeftOut, Ranker
from vitalrank.serving.filters import Filters

Top = tuple[NDArray[np.int64], Floats]
_CELLS = 16_000_000  # entries of block lists held at a time


def top_of(scores: Floats, n: int, leave_out: Array | None = None) -> tuple[NDArray[np.int64], Floats]:
    """Positions and values of the ``n`` largest scores; equal ones by position.

    Examples
    --------
    >>> top_of(np.array([1, 3, 3, 2], np.float32), 2, leave_out=np.array([1]))[0].tolist()
    [2, 3]
    """
    order = np.argsort(-scores, kind="stable")
    if leave_out is not None:
        order = order[~np.isin(order, leave_out)]
    return order[:n], scores[order[:n]]


def ranked_rows(
    ranker: Ranker,
    where: Array,
    rows_of: Callable[[Array], Floats],
    left_out: Callable[[int], Array],
    n: int,
    threads: int | None,
) -> Top:
    """The best items of the rows at ``where``, a block of bounded memory at a time."""
    items, scores = np.empty((len(where), n), np.int64), np.empty((len(where), n), np.float32)
    size = max(1, min(ranker.block, _CELLS // ranker.model.train.n_items))
    for start in range(0, len(where), size):
        rows = where[start : start + size]
        out = LeftOut.of([left_out(int(row)) for row in rows])
        part = slice(start, start + len(rows))
        items[part], scores[part] = ranker.top(rows_of(rows), n, out, threads)
    return items, scores


def popular_rows(log: Interactions, where: Array, chosen: Filters, n: int) -> Top:
    """The items that most users touched, for rows of whom nothing is known."""
    items, scores = np.empty((len(where), n), np.int64), np.empty((len(where), n), np.float32)
    degree = log.item_degree.astype(np.float32)
    if chosen.allowed is not None:
        degree[np.setdiff1d(np.arange(log.n_items), chosen.allowed)] = -np.inf
    nothing = np.empty(0, np.int64)
    for place, row in enumerate(where):
        out = LeftOut.of([nothing if chosen.lists is None else np.unique(chosen.lists[row])])
        part = slice(place, place + 1)
        top_of_tile(degree[None].copy(), out.lists, out.indptr, out.items, scores[part], items[part])
    return items, scores


def check_unknown(unknown: str, other: str) -> None:
    if unknown not in ("error", other):
        raise SettingError(f"unknown={unknown!r}: choose one of error, {other}.")


def check_on_cpu(device: str | None) -> None:
    if device not in (None, "cpu", "auto"):
        raise SettingError("filters rank on the CPU; leave out device, or the filters.")


def ids_of(ids: ArrayLike) -> tuple[Sequence[Any], bool]:
    single = isinstance(ids, str) or np.ndim(ids) == 0
    return ([ids], True) if single else (cast("Sequence[Any]", ids), False)


def histories_of(given: object) -> tuple[Sequence[Sequence[Any]], bool]:
    """The histories asked for, and whether it is one."""
    many = [] if isinstance(given, str) or not isinstance(given, Sequence | np.ndarray) else list(given)
    is_list = [isinstance(one, Sequence | np.ndarray) and not isinstance(one, str) for one in many]
    single = not any(is_list)
    if not many or (not single and not all(is_list)):
        raise SettingError(
            "fold_in needs a list with at least one item id, or several such lists; without a history use MostPopular."
        )
    return ([many], True) if single else (many, False)


def known_part(log: Interactions, history: Sequence[Any], unknown: str) -> NDArray[np.int64]:
    if unknown == "error":
        if not len(history):
            raise SettingError(
                "a history is empty: each needs at least one item id; unknown='skip' gives popular items."
            )
        return log.item_index(history)
    found = log.item_lookup.positions_or_minus_one(history) if len(history) else np.empty(0, np.int64)
    return found[found >= 0]


def list_length(n: int) -> int:
    if not is_count(n):
        raise SettingError(f"n={n!r}: ask for a whole number of at least one.")
    return int(n)


def original_ids(log: Interactions, items: NDArray[np.int64]) -> Array:
    """Original ids; where ``items`` is -1 (nothing left to recommend), None or -1."""
    ids = log.item_ids[items]
    if (items < 0).any():
        ids[items < 0] = -1 if ids.dtype.kind in "iu" else None
    return ids
