"""Another log on the internal ids of a training log: a test log, known negatives."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TypeVar

from vitalrank.errors import DataError
from vitalrank.interactions.building import BuildableLog
from vitalrank.interactions.growing import Rows, on_ids_of
from vitalrank.interactions.splitting import SplittableLog

logger = logging.getLogger(__name__)
_Log = TypeVar("_Log", bound=BuildableLog)


def aligned(train: _Log, other: object, name: str) -> _Log:
    """Another log on the ids of ``train``, without the rows that have others."""
    if not isinstance(other, BuildableLog):
        raise DataError(f"{name} is of type {type(other).__name__}; give a log, as vr.read makes it.")
    found = aligned_or_none(train, other, name)
    if found is None:
        raise DataError(f"{name} shares no row of known users and items with the training log; check the id columns.")
    return found


def aligned_or_none(train: _Log, other: BuildableLog, name: str) -> _Log | None:
    """The same; None where nothing is left."""
    rows, unknown = on_ids_of(rows_of(train), rows_of(other), name)
    if unknown.rows:
        logger.info(
            "%s: %d rows left out, of %d users and %d items that the training log does not have",
            name, unknown.rows, unknown.users, unknown.items,
        )  # fmt: skip
    if not len(rows.users):
        return None
    log = type(train).from_codes(
        rows.users, rows.items, rows.times, rows.user_ids, rows.item_ids, other.skipped, rows.weights
    )
    return replace(log, repeats=other.repeats)


def rows_of(log: SplittableLog) -> Rows:
    """The rows of a log, uncompressed, with its ids."""
    return Rows(
        log.users, log.items, log.times, log.weights, log.user_ids, log.item_ids, log.user_lookup, log.item_lookup
    )
