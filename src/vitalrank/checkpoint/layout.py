"""The files of a model folder, and where each is to be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FORMAT = 1
META = "model.json"
TENSORS = "tensors.safetensors"
IDS = "ids.arrow"
NEW = ".vitalrank.new"  # whole while it holds a META; what it lacks then is in its own place already
OWN_KEYS = ("format", "library", "digests")  # of META; the rest is the caller's

IdPair = tuple[NDArray[Any], NDArray[Any]]


@dataclass(frozen=True)
class Saved:
    """What a folder held: the caller's ``meta``, ``tensors``, and ``(user_ids, item_ids)`` or None."""

    meta: dict[str, Any]
    tensors: dict[str, np.ndarray[Any, Any]]
    ids: IdPair | None


def current_path(folder: Path, name: str) -> Path:
    """Where a file of a folder is to be read: published but not yet moved, or in its own place."""
    new = folder / NEW
    return new / name if (new / META).is_file() and (new / name).is_file() else folder / name


def without_own_keys(meta: Mapping[str, Any]) -> dict[str, Any]:
    """What the caller gave as ``meta``."""
    return {key: value for key, value in meta.items() if key not in OWN_KEYS}
