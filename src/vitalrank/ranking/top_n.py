"""The best unseen items of many users over the whole catalogue, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.devices import resolve
from vitalrank._util.threads import limited
from vitalrank._util.typing import Array
from vitalrank.errors import SettingError
from vitalrank.interactions import Interactions, check_same_ids
from vitalrank.ranking.rankers import LeftOut, Top, ranker_of
from vitalrank.ranking.scorers import DotScorer, Scorer


def top_items(
    model: Scorer,
    users: Array,
    n: int,
    *,
    exclude: Sequence[Interactions] = (),
    threads: int | None = None,
    device: str | None = None,
) -> Top:
    """Internal ids and scores of the ``n`` best items of each user, best first.

    Items of the model's training log and of every log in ``exclude`` are left out. Equal scores: lower id first.
    Places for which no item is left hold -1 and -inf.

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.Interactions.from_arrays([1, 1, 2], [7, 8, 7])
    >>> items, scores = top_items(vr.MostPopular().fit(log), np.array([1]), 2)
    >>> items.tolist(), scores.tolist()
    ([[1, -1]], [[1.0, -inf]])
    """
    items, scores = np.empty((len(users), n), np.int64), np.empty((len(users), n), np.float32)
    blocks = top_blocks(model, users, n, exclude=exclude, threads=threads, device=device)
    for rows, block_items, block_scores in blocks:
        items[rows], scores[rows] = block_items, block_scores
    return items, scores


def top_blocks(
    model: Scorer,
    users: Array,
    n: int,
    *,
    exclude: Sequence[Interactions] = (),
    threads: int | None = None,
    device: str | None = None,
) -> Iterator[tuple[slice, NDArray[np.int64], NDArray[np.float32]]]:
    """As :func:`top_items`, a block of users at a time: ``(rows of users, items, scores)``.

    ``device`` is where to rank; None is where the model's vectors lie.
    """
    seen_indptr, seen = seen_items(model.train, exclude)
    users = np.asarray(users, np.int64)
    best, size = _ranker(model, device, seen_indptr, seen)
    for start in range(0, len(users), size):
        rows = slice(start, min(start + size, len(users)))
        items = np.full((rows.stop - start, n), -1, np.int64)
        scores = np.full((rows.stop - start, n), -np.inf, np.float32)
        with limited(threads):
            best(users[rows], scores, items)
        yield rows, items, scores


def _ranker(model: Scorer, device: str | None, seen_indptr: Array, seen: Array) -> tuple[Any, int]:
    """What ranks a block of users, and how many make a block."""
    where = model.device if device is None else resolve(device)
    if where != "cpu":
        if not (isinstance(model, DotScorer) and model.has_vectors):
            raise SettingError(f"{type(model).__name__} is no dot product and ranks on the CPU; leave out device.")
        return _device_ranker(model, where, seen_indptr, seen)
    ranker = ranker_of(model)

    def best(users: Array, scores: Array, items: Array) -> None:
        ranker.fill(ranker.user_rows(users), LeftOut(users, seen_indptr, seen), scores, items)

    return best, ranker.block


def _device_ranker(model: DotScorer, device: str, seen_indptr: Array, seen: Array) -> tuple[Any, int]:
    from vitalrank.ranking.device_top_n import DeviceRanker

    ranker = DeviceRanker(model, seen_indptr, seen, device)

    def best(users: Array, scores: Array, items: Array) -> None:
        n = min(scores.shape[1], model.train.n_items)
        items[:, :n], scores[:, :n] = ranker.best(users, n)

    return best, ranker.block


def seen_items(train: Interactions, exclude: Sequence[Interactions]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """What each user touched in any of the logs, sorted: bounds of the users, and items."""
    total = train.csr
    for log in exclude:
        check_same_ids(train, log, "exclude")
        total = total + log.csr
    total.sort_indices()
    return total.indptr.astype(np.int64), total.indices.astype(np.int32, copy=False)
