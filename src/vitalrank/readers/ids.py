"""The ids of one side as they are read: integers while all are integers, else dictionary-encoded strings."""

from __future__ import annotations

import contextlib
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vitalrank.interactions.encoding import Codes, Ids, arrow_sorted, encode_ints, numbers_of
from vitalrank.readers.lines import SlowPathNeeded

LONGEST_ID = 1 << 16  # bytes
MERGE_FROM = 1 << 18
Ints: TypeAlias = NDArray[np.integer[Any]]
Batch: TypeAlias = Ints | pa.DictionaryArray


class IdColumn:
    """A growing column of ids; memory holds a number per row and each id once.

    Parameters
    ----------
    is_text
        Whether untyped ids are strings even while all of them are integers.
    """

    def __init__(self, is_text: bool = False) -> None:
        self._is_text = is_text
        self._ints: list[Ints] = []
        self._texts: list[pa.DictionaryArray] = []

    def prepare(self, column: pa.Array, untyped: bool) -> Batch:
        """The batch as it will be stored; `SlowPathNeeded` when an id is missing, too long or not UTF-8."""
        if column.null_count:
            raise SlowPathNeeded
        if pa.types.is_integer(column.type):
            return _narrow(numbers_of(column))
        if pa.types.is_dictionary(column.type):
            encoded = _compact(column)
        else:
            ints = _as_ints(column) if untyped and not (self._texts or self._is_text) else None
            if ints is not None:
                return _narrow(ints)
            _import_pandas()
            encoded = column.dictionary_encode()
        _check_texts(encoded.dictionary)
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
        """The integers read so far, as the strings they were."""
        ids, codes = encode_ints(np.concatenate(self._ints))
        self._ints = []
        return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(ids).cast(pa.string()))

    def _merged(self) -> pa.DictionaryArray:
        merged = pa.chunked_array(self._texts).unify_dictionaries()
        codes = np.concatenate([numbers_of(chunk.indices) for chunk in merged.chunks])
        return pa.DictionaryArray.from_arrays(pa.array(codes), merged.chunk(0).dictionary)

    def finish(self) -> tuple[Ids, Codes]:
        """Sorted ids and codes; the column is empty afterwards."""
        ids, codes = self.take()
        return (ids.to_numpy(zero_copy_only=False) if isinstance(ids, pa.Array) else ids), codes

    def take(self) -> tuple[Ids | pa.Array, Codes]:
        """The same, text as an Arrow array."""
        if self._ints:
            ints = np.concatenate(self._ints)
            self._ints = []
            return encode_ints(ints)
        merged = self._merged()
        self._texts = []
        return arrow_sorted(merged)


def _compact(encoded: pa.DictionaryArray) -> pa.DictionaryArray:
    """The same with every value of the dictionary in use and none twice, which files do not promise."""
    codes, values = numbers_of(encoded.indices), encoded.dictionary
    used = np.zeros(len(values), np.bool_)
    used[codes] = True
    again = values.filter(pa.array(used)).dictionary_encode()
    if again.null_count:  # a null within the dictionary
        raise SlowPathNeeded
    rank = np.cumsum(used, dtype=np.int32) - np.int32(1)
    return pa.DictionaryArray.from_arrays(pa.array(numbers_of(again.indices)[rank[codes]]), again.dictionary)


def _check_texts(texts: pa.Array) -> None:
    try:
        texts.validate(full=True)  # not every parser checks UTF-8
    except pa.ArrowInvalid:
        raise SlowPathNeeded from None
    lengths = pc.min_max(pc.binary_length(texts)).as_py()
    if lengths["min"] == 0 or lengths["max"] > LONGEST_ID:
        raise SlowPathNeeded


def _import_pandas() -> None:
    """Arrow imports pandas where it first makes Python strings, and would swallow a Ctrl-C meanwhile; this does not."""
    with contextlib.suppress(ImportError):
        import pandas  # noqa: F401


def _narrow(ints: Ints) -> Ints:
    return ints.astype(np.int32) if ints.max() < 2**31 and ints.min() >= -(2**31) else ints


def _as_ints(texts: pa.Array) -> Ints | None:
    """The same ids as integers, unless any is written in another way than integers are: ``007`` and ``0xFF``."""
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
