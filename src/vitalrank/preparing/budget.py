"""How much memory a preparation may take, and what that means in rows."""

from __future__ import annotations

import re
from dataclasses import dataclass

from vitalrank._util.checks import is_count
from vitalrank._util.display import quoted
from vitalrank.errors import SettingError

LEAST = 400 << 20  # bytes: half of it is the library itself
_OWN = 250 << 20  # bytes of Python, NumPy and Arrow before the first row
_SIZE = re.compile(r"\s*([0-9]{1,6}(?:\.[0-9]{1,3})?)\s*([KMGT])i?B?\s*", re.IGNORECASE)
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SPILL = 5  # what a run takes while its ids are sorted, as a multiple of what is collected
_ROW = 160  # bytes that a row takes while a block is sorted
_ID = 120  # bytes that an id takes, beside its text twice, while ids are merged


def to_bytes(size: str | int) -> int:
    """A size such as ``"2GiB"`` or ``"800 MB"`` in bytes; units are powers of 1024.

    Examples
    --------
    >>> to_bytes("1.5G"), to_bytes(1 << 30)
    (1610612736, 1073741824)
    """
    found = _SIZE.fullmatch(size) if isinstance(size, str) else None
    if found is None and not is_count(size):
        raise SettingError(f"memory is {quoted(size)}; give bytes or a size such as '2GiB'.")
    number = int(float(found[1]) * _UNITS[found[2].upper()]) if found else int(size)
    if number < LEAST:
        raise SettingError(f"memory is {quoted(size)}; give at least {LEAST >> 20} MiB.")
    return number


@dataclass(frozen=True)
class Budget:
    """The sizes of what is held at a time, so that the process stays below ``memory`` bytes.

    Examples
    --------
    >>> Budget(1 << 30).rows
    5072486
    """

    memory: int

    @property
    def _free(self) -> int:
        return self.memory - _OWN

    @property
    def collected(self) -> int:
        """Bytes of rows and ids that are collected before a run is written."""
        return self._free // _SPILL

    @property
    def rows(self) -> int:
        """Rows of a block."""
        return self._free // _ROW

    def ids(self, width: float) -> int:
        """Ids merged at a time, that take ``width`` bytes each."""
        return max(1024, int(self._free / (_ID + 4 * width)))
