"""One side's ids as they are read: whole numbers while they are whole numbers, else strings numbered as they come."""

from __future__ import annotations

import contextlib
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vitalrank.interactions.encoding import Codes, Ids, encode_ints, numbers_of, sort_dictionary
from vitalrank.readers.lines import Suspect

MERGE_FROM = 1 << 18
Ints: TypeAlias = NDArray[np.integer[Any]]
Batch: TypeAlias = Any  # Ints, or a pyarrow.DictionaryArray


class IdColumn:
    """A growing column of ids; memory holds a number per row and each id once."""

    def __init__(self) -> None:
        self._ints: list[Ints] = []
        self._texts: list[pa.DictionaryArray] = []

    def prepared(self, column: pa.Array, untyped: bool) -> Batch:
        """The batch as it will be kept; `Suspect` when an id is missing."""
        if column.null_count:
            raise Suspect
        if pa.types.is_integer(column.type):
            return _narrow(numbers_of(column))
        ints = _as_ints(column) if untyped and not self._texts else None
        if ints is not None:
            return _narrow(ints)
        _meet_pandas()
        encoded = column.dictionary_encode()
        if pc.min(pc.binary_length(encoded.dictionary)).as_py() == 0:
            raise Suspect
        return encoded

    def append(self, batch: Batch) -> None:
        if isinstance(batch, np.ndarray):
            self._ints.append(batch)
            return
        if self._ints:
            self._texts.append(self._as_texts())
        self._texts.append(batch)
        # Merging once the new dictionaries outgrow the old keeps the ids in memory once or twice, at little cost.
        merged, *pending = (len(chunk.dictionary) for chunk in self._texts)
        if sum(pending) > max(MERGE_FROM, merged):
            self._texts = [self._merged()]

    def _as_texts(self) -> pa.DictionaryArray:
        """The numbers read so far, as the strings they were."""
        ids, codes = encode_ints(np.concatenate(self._ints))
        self._ints = []
        return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(ids).cast(pa.string()))

    def _merged(self) -> pa.DictionaryArray:
        merged = pa.chunked_array(self._texts).unify_dictionaries()
        codes = np.concatenate([chunk.indices.to_numpy() for chunk in merged.chunks])
        return pa.DictionaryArray.from_arrays(pa.array(codes), merged.chunk(0).dictionary)

    def finish(self) -> tuple[Ids, Codes]:
        """Sorted ids and codes; the column is empty afterwards."""
        if self._ints:
            ints = np.concatenate(self._ints)
            self._ints = []
            return encode_ints(ints)
        merged = self._merged()
        self._texts = []
        return sort_dictionary(merged)


def _meet_pandas() -> None:
    """Arrow imports pandas where it first makes strings of Python, and would swallow a Ctrl-C; here nobody does."""
    with contextlib.suppress(ImportError):
        import pandas  # noqa: F401


def _narrow(ints: Ints) -> Ints:
    return ints.astype(np.int32) if ints.max() < 2**31 and ints.min() >= -(2**31) else ints


def _as_ints(texts: pa.Array) -> Ints | None:
    """The same ids as ints, unless any is written in another way than ints are: ``007`` and ``0xFF`` stay strings."""
    try:
        column = texts.cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    ints: Ints = numbers_of(column)
    if ints.min() < 0 or _has_letters(texts):
        return ints if pc.all(pc.equal(column.cast(pa.string()), texts)).as_py() else None
    return ints if _digits(ints) == pc.sum(pc.binary_length(texts)).as_py() else None


def _has_letters(texts: pa.Array) -> bool:
    """Whether there is more than digits: Arrow reads hex, which may be as long as the number it stands for."""
    return bool(np.frombuffer(texts.buffers()[2], np.uint8).max() > ord("9"))


def _digits(ints: Ints) -> int:
    """Digits needed to write all these numbers."""
    total, power, most = len(ints), 10, int(ints.max())
    while power <= most:
        total += int(np.count_nonzero(ints >= power))
        power *= 10
    return total
