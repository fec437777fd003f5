"""Rows of several logs on common internal ids: what was known keeps its number, what is new comes after it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vitalrank.errors import DataError
from vitalrank.interactions.encoding import Codes, Ids
from vitalrank.interactions.lookup import IdIndex
from vitalrank.interactions.unrecognised_time import unit_of

logger = logging.getLogger(__name__)


class Rows(NamedTuple):
    """Rows of a log, uncompressed."""

    users: Codes  # (N,)
    items: Codes  # (N,)
    times: NDArray[Any] | None  # (N,)
    weights: NDArray[np.float32] | None  # (N,)
    user_ids: Ids
    item_ids: Ids
    user_lookup: IdIndex
    item_lookup: IdIndex


class Unknown(NamedTuple):
    """What was left out: ids that the other log does not have, and their rows."""

    users: int
    items: int
    rows: int


def merge(logs: Sequence[Rows]) -> Rows:
    """The rows of all logs, one log after the other, on ids in the order in which they first came."""
    merged = logs[0]
    for number, more in enumerate(logs[1:], 2):
        merged = _merged(merged, more, f"log {number}" if len(logs) > 2 else "the new log")
    return merged


def on_ids_of(train: Rows, other: Rows, name: str) -> tuple[Rows, Unknown]:
    """The rows of another log on the ids of ``train``, and what it has beside them."""
    users, items = _positions(train, other, name)
    known = (users[other.users] >= 0) & (items[other.items] >= 0)  # (N,)
    lost = Unknown(int((users < 0).sum()), int((items < 0).sum()), len(known) - int(np.count_nonzero(known)))
    return (
        train._replace(
            users=users[other.users[known]].astype(np.int32),
            items=items[other.items[known]].astype(np.int32),
            times=None if other.times is None else other.times[known],
            weights=None if other.weights is None else other.weights[known],
        ),
        lost,
    )


def _positions(log: Rows, other: Rows, name: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where each user and item id of another log lies in this one; -1 where it does not."""
    sides = (
        ("user", log.user_lookup, log.user_ids, other.user_ids),
        ("item", log.item_lookup, log.item_ids, other.item_ids),
    )
    found = []
    for side, lookup, ours, theirs in sides:
        if (ours.dtype == object) != (theirs.dtype == object):
            kinds = ["strings" if ids.dtype == object else "integers" for ids in (theirs, ours)]
            raise DataError(
                f"The {side} ids of {name} are {kinds[0]}, and those of the log are {kinds[1]}; give ids of one type."
            )
        found.append(lookup.find(theirs))
    return found[0], found[1]


def _merged(log: Rows, more: Rows, name: str) -> Rows:
    if (log.times is None) != (more.times is None):
        has, lacks = (name, "the log") if log.times is None else ("the log", name)
        raise DataError(
            f"{has[0].upper()}{has[1:]} has times and {lacks} has none; read both with times, or both with time=False."
        )
    _check_units(log.times, more.times, name)
    users, items = _positions(log, more, name)
    user_ids, user_codes = _appended(log.user_ids, more.user_ids, users, more.users, more.times)
    item_ids, item_codes = _appended(log.item_ids, more.item_ids, items, more.items, more.times)
    return Rows(
        np.concatenate([log.users, user_codes[more.users]]),
        np.concatenate([log.items, item_codes[more.items]]),
        None if log.times is None or more.times is None else np.concatenate([log.times, more.times]),
        _joined_weights(log, more, name),
        user_ids,
        item_ids,
        IdIndex(user_ids, "user"),
        IdIndex(item_ids, "item"),
    )


def _check_units(known: NDArray[Any] | None, new: NDArray[Any] | None, name: str) -> None:
    """Refuse unix times in seconds beside unix times in milliseconds: all of one would come after all of the other."""
    if known is None or new is None or not len(known) or not len(new):
        return
    ours, theirs = unit_of(float(known.max())), unit_of(float(new.max()))
    if ours != theirs and ours is not None and theirs is not None:
        raise DataError(
            f"The times of {name}, up to {new.max()}, and those of the log, up to {known.max()}, are unix times in "
            "different units; give both in one."
        )


def _appended(
    known: Ids, ids: Ids, positions: NDArray[np.int64], codes: Codes, times: NDArray[Any] | None
) -> tuple[Ids, Codes]:
    """The known ids and behind them the new ones, in the order of their first time; and the number of each id."""
    new = np.flatnonzero(positions < 0)
    if times is not None and len(new):
        first = np.full(len(ids), np.inf)
        np.minimum.at(first, codes, times)
        new = new[np.argsort(first[new], kind="stable")]
    numbers = positions.astype(np.int32)
    numbers[new] = len(known) + np.arange(len(new), dtype=np.int32)
    return np.concatenate([known, ids[new]]), numbers


def _joined_weights(log: Rows, more: Rows, name: str) -> NDArray[np.float32] | None:
    if log.weights is None and more.weights is None:
        return None
    if log.weights is None or more.weights is None:
        has, lacks = (name, "the log") if log.weights is None else ("the log", name)
        logger.warning("%s has weights and %s has none, whose rows count 1 each", has, lacks)
    parts = [np.ones(len(one.items), np.float32) if one.weights is None else one.weights for one in (log, more)]
    return np.concatenate(parts)
