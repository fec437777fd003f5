"""JSON of what Python and NumPy hold, and its digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from vitalrank._util.checks import is_tensor
from vitalrank.errors import StorageError


def to_json(value: object, **options: Any) -> str:
    """JSON text; numbers and arrays of NumPy count as Python's.

    Examples
    --------
    >>> to_json({"seen": np.int64(3)})
    '{"seen": 3}'
    """
    try:
        return json.dumps(value, default=_to_builtin, **options)
    except (TypeError, RecursionError) as error:
        raise StorageError(f"{error}; put numbers, text or None there.") from error


def digest_of_meta(meta: Mapping[str, Any]) -> str:
    """SHA-256 of the caller's ``meta``, whatever the order of keys and the spaces."""
    return hashlib.sha256(to_json(meta, sort_keys=True).encode()).hexdigest()


def _to_builtin(value: object) -> object:
    if isinstance(value, np.ndarray | np.generic) or is_tensor(value):
        return value.tolist()
    raise TypeError(f"a value of type {type(value).__name__} is not JSON serializable")
