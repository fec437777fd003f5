"""The arrays of a saved model: its own, those of the training log, and those that a run folder adds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from vitalrank._util.typing import Array
from vitalrank.checkpoint import Saved
from vitalrank.interactions import Interactions, check_parts, check_rows
from vitalrank.interactions.arrays import LogArrays

_LOGS = "log."  # prefix of the tensors that hold the training log and what was held out of it
_NEGATIVES = "train negatives"  # no name of a held-out part
_TRAINING = "training."  # prefix of those that a run folder adds


def model_arrays(saved: Saved) -> dict[str, Array]:
    """Those that the model itself gave."""
    others = (_LOGS, _TRAINING)
    return {name: array for name, array in saved.tensors.items() if not name.startswith(others)}


def log_arrays(train: Interactions, held_out: Mapping[str, Interactions]) -> dict[str, Array]:
    """The training log and the held-out parts, as arrays to save."""
    arrays: dict[str, Array] = {}
    logs: dict[str, LogArrays] = {"train": train, **held_out}
    if train.negative_log is not None:
        logs[_NEGATIVES] = train.negative_log
    for part, log in logs.items():
        fields: dict[str, Array | None] = {"indptr": log.indptr, "items": log.items}
        fields |= {"times": log.times, "weights": log.weights}
        arrays |= {f"{_LOGS}{part}.{name}": array for name, array in fields.items() if array is not None}
    return arrays


def saved_logs(saved: Saved, user_ids: Array, item_ids: Array) -> dict[str, Interactions]:
    """The logs among the arrays of a folder, by the names of their parts."""
    parts: dict[str, dict[str, Array]] = {}
    for name, array in saved.tensors.items():
        if name.startswith(_LOGS):
            part, _, field = name.removeprefix(_LOGS).rpartition(".")
            parts.setdefault(part, {})[field] = array
    logs = {}
    for part, fields in parts.items():
        check_rows(fields["indptr"], fields["items"], len(user_ids), len(item_ids))
        indptr, items = fields["indptr"].astype(np.int64, copy=False), fields["items"].astype(np.int32, copy=False)
        times, weights = fields.get("times"), fields.get("weights")
        logs[part] = Interactions(indptr, items, times, user_ids, item_ids, weights=weights)
        check_parts(logs[part])
    known = logs.pop(_NEGATIVES, None)
    return {part: replace(log, negative_log=known) for part, log in logs.items()}


def check_finite_table(name: str, table: Array, shape: tuple[int, ...]) -> None:
    """Refuse an array of a saved model that is not finite float32 of that shape.

    Examples
    --------
    >>> check_finite_table("users", np.zeros((2, 3), np.float32), (2, 4))
    Traceback (most recent call last):
    ...
    ValueError: users is float32 (2, 3), not float32 (2, 4)
    """
    if table.shape != shape or table.dtype != np.float32:
        raise ValueError(f"{name} is {table.dtype} {table.shape}, not float32 {shape}")
    if not np.isfinite(table).all():
        raise ValueError(f"{name} holds values that are not finite")
