"""Original ids to positions, and a digest of a whole log."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from vitalrank._util.display import quoted
from vitalrank.errors import UnknownIdError
from vitalrank.interactions.encoding import Ids


def positions_of(ids: Ids, wanted: ArrayLike, side: str) -> NDArray[np.int64]:
    """Where each wanted id lies among the sorted ids; ints never match strings."""
    values = np.array(wanted, dtype=object, ndmin=1)
    kind: tuple[type, ...] = (str,) if ids.dtype == object else (int, np.integer)
    for value in values:
        if not isinstance(value, kind) or isinstance(value, bool):
            raise UnknownIdError(f"No {side} {quoted(value)}: the {side} ids of this log are {kind[0].__name__}s.")
    try:
        values = values.astype(ids.dtype)
    except OverflowError:
        raise UnknownIdError(
            f"No {side} {quoted(max(values, key=abs))}: the {side} ids of this log fit 64 bits."
        ) from None
    positions = np.searchsorted(ids, values)
    found = ids[np.minimum(positions, len(ids) - 1)] == values
    if not found.all():
        missing = values.tolist()[int(np.argmin(found))]
        raise UnknownIdError(f"No {side} {quoted(missing)} in this log of {len(ids):,} {side}s; give one of them.")
    return positions


def digest_of(arrays: Iterable[NDArray[Any] | None]) -> str:
    """Hex digest of the types and contents of arrays, the same on every machine."""
    digest = hashlib.blake2b(digest_size=16)
    for array in arrays:
        digest.update(_bytes_of(array))
    return digest.hexdigest()


def _bytes_of(array: NDArray[Any] | None) -> bytes:
    """Type and content, the same on every machine."""
    if array is None:
        return b"none"
    head = f"{array.dtype.str}{len(array)}".encode()
    if array.dtype != object:
        return head + np.ascontiguousarray(array).tobytes()
    offsets, text = pa.array(array, pa.large_string()).buffers()[1:]
    return b"".join([head, *(buffer.to_pybytes() for buffer in (offsets, text) if buffer is not None)])
