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


class IdIndex:
    """Finds ids among distinct ids in any order; ints never match strings.

    Examples
    --------
    >>> IdIndex(np.array([7, 9, 8]), "item").positions_of([8, 7])
    array([2, 0])
    """

    def __init__(self, ids: Ids, side: str) -> None:
        self._ids, self._side = ids, side
        is_sorted = bool((ids[1:] > ids[:-1]).all())
        self._order = None if is_sorted else np.argsort(ids, kind="stable")  # (I,)

    def positions_of(self, wanted: ArrayLike) -> NDArray[np.int64]:
        """Where each wanted id lies among the ids; `UnknownIdError` names one that is not there."""
        values = self._checked(wanted)
        positions = self.find(values)
        if (positions < 0).any():
            missing = values.tolist()[int(np.argmin(positions))]
            raise UnknownIdError(
                f"No {self._side} {quoted(missing)} in this log of {len(self._ids):,} {self._side}s; give one of them."
            )
        return positions

    def positions_or_minus_one(self, wanted: ArrayLike) -> NDArray[np.int64]:
        """As `positions_of`, with -1 for an id that is not there; one of another type is still an error.

        Examples
        --------
        >>> IdIndex(np.array([7, 9, 8]), "item").positions_or_minus_one([8, 70])
        array([ 2, -1])
        """
        return self.find(self._checked(wanted))

    def find(self, values: Ids) -> NDArray[np.int64]:
        """Where each id, of the type of these ids, lies among them; -1 where it does not."""
        if not len(self._ids):
            return np.full(len(values), -1, np.int64)
        positions = np.minimum(np.searchsorted(self._ids, values, sorter=self._order), len(self._ids) - 1)
        if self._order is not None:
            positions = self._order[positions]
        return np.where(self._ids[positions] == values, positions, -1)

    def _checked(self, wanted: ArrayLike) -> Ids:
        values = np.array(wanted, dtype=object, ndmin=1)
        ids, side = self._ids, self._side
        is_text = ids.dtype == object
        kind: tuple[type, ...] = (str,) if is_text else (int, np.integer)
        for value in values:
            if not isinstance(value, kind) or isinstance(value, bool):
                found = "strings" if is_text else "integers"
                raise UnknownIdError(f"No {side} {quoted(value)}: the {side} ids of this log are {found}.")
        try:
            return values.astype(ids.dtype)
        except OverflowError:
            raise UnknownIdError(
                f"No {side} {quoted(max(values, key=abs))}: the {side} ids of this log fit 64 bits."
            ) from None


def arrays_digest(arrays: Iterable[NDArray[Any] | None]) -> str:
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
