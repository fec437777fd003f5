"""The record of a run in its folder: checked before a resumed run relies on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.checks import is_count, is_number
from vitalrank.history import Record, checked_records

_MOST_STEPS = 2**48


@dataclass(frozen=True)
class RunRecord:
    """What ``model.json`` says of a run beside its arrays."""

    epoch: int
    step: int
    best_epoch: int | None
    best_value: float | None
    identity: dict[str, Any]
    records: list[Record]
    previous_best: tuple[int | None, float] | None  # None where the last evaluation belongs to the schedule
    stopped: str | None


def run_record(meta: Mapping[str, Any]) -> RunRecord:
    """The record of a run; ValueError for one that no run wrote.

    Examples
    --------
    >>> run_record({"training": {"epoch": -1}})
    Traceback (most recent call last):
    ...
    ValueError: epoch is -1
    """
    training = meta["training"]
    if not isinstance(training, Mapping):
        raise ValueError("training is no record")
    epoch, step = training.get("epoch"), training.get("step")
    if not isinstance(epoch, int) or not is_count(epoch):
        raise ValueError(f"epoch is {epoch!r}")
    if not isinstance(step, int) or not is_count(step, least=0) or step > _MOST_STEPS:
        raise ValueError(f"step is {step!r}")
    identity = training.get("identity")
    if not isinstance(identity, dict):
        raise ValueError("identity is no record")
    records = checked_records(training.get("records"))
    if len(records) != epoch:
        raise ValueError(f"{len(records)} records of {epoch} epochs")
    best = _best(training.get("best_epoch"), training.get("best_value"), epoch)
    previous = None
    if "before" in training:  # the name in folders since version 0.1
        pair = training["before"] or (None, None)
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise ValueError(f"before is {pair!r}")
        number, value = _best(pair[0], pair[1], epoch)
        previous = (number, -np.inf if value is None else value)
    fit = meta.get("record")
    fit = fit.get("fit") if isinstance(fit, Mapping) else None
    stopped = fit.get("stopped") if isinstance(fit, Mapping) else None
    return RunRecord(epoch, step, *best, identity, records, previous, stopped)


def _best(epoch: object, value: object, last: int) -> tuple[int | None, float | None]:
    if epoch is None:
        return None, None
    if not is_count(epoch) or epoch > last:
        raise ValueError(f"best epoch is {epoch!r} of {last}")
    if not is_number(value):
        raise ValueError(f"best value is {value!r}")
    return epoch, float(value)


def same_shapes(
    found: Mapping[str, NDArray[Any]], wanted: Mapping[str, NDArray[Any]], prefix: str = ""
) -> dict[str, NDArray[Any]]:
    """The arrays of ``found`` that an engine wants; ValueError for others of its shapes, or not finite.

    Examples
    --------
    >>> same_shapes({"users": np.zeros(3)}, {"users": np.zeros(2)})
    Traceback (most recent call last):
    ...
    ValueError: users is float64 (3,), not float64 (2,)
    """
    arrays = {}
    for name, like in wanted.items():
        array = found[prefix + name]
        same = array.shape == like.shape or array.size == like.size == 1  # files know no 0 dimensions
        if not same or array.dtype != like.dtype:
            raise ValueError(f"{name} is {array.dtype} {array.shape}, not {like.dtype} {like.shape}")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"{name} holds values that are not finite")
        arrays[name] = array
    return arrays
