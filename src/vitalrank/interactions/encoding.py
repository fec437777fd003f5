"""Original ids to numbers: columns of ints or strings become sorted ids and int32 codes; times become numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from vitalrank.errors import DataError

Ids = NDArray[Any]
Codes = NDArray[np.int32]
_FLOATS = {"halffloat": "float16", "float": "float32", "double": "float64"}  # Arrow's type names and NumPy's
NUMBER_TYPES = (pa.int64(), pa.float64())
DATE_TYPES = (pa.timestamp("us"), pa.timestamp("us", "UTC"))
TIME_HELP = "times must be finite numbers >= 0 (such as unix seconds) or dates after 1970; mend or drop these rows."


def as_column(values: object, name: str) -> pa.Array:
    """One Arrow array of any sequence; types are never guessed across kinds, so ``[1, "1"]`` is an error."""
    if isinstance(values, np.ndarray) and values.ndim != 1:
        raise DataError(f"{name}: an array of {values.ndim} dimensions; give one dimension.")
    try:
        column = values if isinstance(values, pa.Array | pa.ChunkedArray) else _arrow(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError, OverflowError) as error:
        raise DataError(
            f"{name}: mixed or unsupported types ({_kinds(values)}); give all ints or all strings."
        ) from error
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _arrow(values: object) -> pa.Array:
    """``pa.array(values)``; for plain numbers without it, since it loads pandas to ask whether they are a series."""
    if type(values) is np.ndarray and values.dtype.kind in "iuf" and values.dtype.isnative and values.itemsize <= 8:
        buffer = pa.py_buffer(np.ascontiguousarray(values))
        return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, buffer])
    return pa.array(values)


def _kinds(values: object) -> str:
    try:
        return ", ".join(sorted({type(value).__name__ for value in values}))  # type: ignore[attr-defined]
    except TypeError:
        return type(values).__name__


def encode(values: object, name: str) -> tuple[Ids, Codes]:
    """Sorted distinct ids and the position of each value among them.

    Examples
    --------
    >>> encode(["b", "a", "b"], "user")
    (array(['a', 'b'], dtype=object), array([1, 0, 1], dtype=int32))
    """
    column = as_column(values, name)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    refuse_nulls(column, name)
    if pa.types.is_integer(column.type):
        return encode_ints(_int64(column, name))
    if _is_text(column.type):
        if column.type == pa.string_view():
            column = column.cast(pa.large_string())
        return sort_dictionary(column.dictionary_encode())
    if not len(column):
        return np.zeros(0, np.int64), np.zeros(0, np.int32)
    raise DataError(f"{name}: ids of type {column.type}; give ints or strings.")


def _int64(column: pa.Array, name: str) -> NDArray[np.int64]:
    try:
        return numbers_of(column.cast(pa.int64()))
    except pa.ArrowInvalid as error:
        raise DataError(f"{name}: an id does not fit into 64 bits with sign; give such ids as strings.") from error


def encode_ints(ints: NDArray[np.integer[Any]]) -> tuple[Ids, Codes]:
    """Sorted distinct numbers and the position of each value among them."""
    low, high = (int(ints.min()), int(ints.max())) if len(ints) else (0, 0)
    if high - low > 4 * len(ints) + 1024:
        return sort_dictionary(_arrow(ints.astype(np.int64, copy=False)).dictionary_encode())
    # Nearly gapless ids need no hashing: a table from id to position.
    table = np.zeros(high - low + 1, np.int32)
    offsets = ints - low if low else ints
    table[offsets] = 1
    ids = np.flatnonzero(table) + low
    np.cumsum(table, out=table)
    table -= 1
    return ids, table[offsets]


def sort_dictionary(encoded: pa.DictionaryArray) -> tuple[Ids, Codes]:
    """Sorted ids and codes of a dictionary array without repeats or nulls in its dictionary."""
    taken, codes = arrow_sorted(encoded)
    ids = numbers_of(taken) if pa.types.is_integer(taken.type) else taken.to_numpy(zero_copy_only=False)
    return ids, codes


def arrow_sorted(encoded: pa.DictionaryArray) -> tuple[pa.Array, Codes]:
    """The same, the ids as Arrow has them."""
    order = pc.sort_indices(encoded.dictionary)
    rank = np.empty(len(order), np.int32)
    rank[numbers_of(order)] = np.arange(len(order), dtype=np.int32)
    return encoded.dictionary.take(order), rank[numbers_of(encoded.indices)]


def refuse_nulls(column: pa.Array, name: str) -> None:
    if column.null_count:
        row = pc.index(column.is_null(), True).as_py()
        raise DataError(f"{name}: row {row} is missing ({column.null_count:,} in all); drop or fill these rows.")


def as_times(values: ArrayLike | pa.Array | pa.ChunkedArray) -> NDArray[Any]:
    """Times as int64 or float64; dates become seconds since 1970."""
    numbers = to_numbers(_parsed(as_column(values, "times")), "times")
    bad = bad_times(numbers)
    if bad is not None:
        raise DataError(f"times: row {bad} is {numbers[bad]}; {TIME_HELP}")
    return numbers


def to_floats(values: ArrayLike | pa.Array | pa.ChunkedArray, name: str) -> NDArray[np.float64]:
    """Numbers, or text that says them, as float64."""
    column = as_column(values, name)
    refuse_nulls(column, name)
    kind = column.type
    if not (_is_text(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise DataError(f"{name}: type {kind}; give numbers.")
    try:
        text = column.cast(pa.large_string()) if _is_text(kind) else column
        return numbers_of(text.cast(pa.float64(), safe=False))
    except pa.ArrowInvalid as error:
        raise DataError(f"{name}: a value is no number; give numbers.") from error


def _parsed(column: pa.Array) -> pa.Array:
    """Times written as text, read as numbers or ISO dates; left alone if they are neither."""
    if not _is_text(column.type):
        return column
    text = column.cast(pa.large_string())
    for kind in NUMBER_TYPES + DATE_TYPES:
        try:
            return text.cast(kind)
        except pa.ArrowInvalid:
            continue
    return column


def _is_text(kind: pa.DataType) -> bool:
    """Arrow has text of three kinds; frames use them all."""
    return kind in (pa.string(), pa.large_string(), pa.string_view())


def bad_times(numbers: NDArray[Any]) -> int | None:
    """The first row that is not a finite number >= 0, if any."""
    if not len(numbers) or (numbers.min() >= 0 and np.isfinite(numbers.max())):
        return None
    return int(np.argmax(~((numbers >= 0) & np.isfinite(numbers))))


def to_numbers(column: pa.Array, name: str) -> NDArray[Any]:
    """A column of numbers or dates as int64 or float64."""
    refuse_nulls(column, name)
    kind = column.type
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return _seconds(column)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return numbers_of(column).astype(np.int64 if pa.types.is_integer(kind) else np.float64, copy=False)
    if not len(column):
        return np.zeros(0, np.int64)
    raise DataError(f"{name}: type {kind}; {TIME_HELP}")


def numbers_of(column: pa.Array) -> NDArray[Any]:
    """A column of numbers without nulls, not copied.

    ``to_numpy`` does the same, but imports pandas first, which takes a while and swallows a Ctrl-C.

    Examples
    --------
    >>> numbers_of(pa.array([1, 2, 3, 4], pa.int16())[1:3]).tolist()
    [2, 3]
    """
    kind = np.dtype(_FLOATS.get(str(column.type), str(column.type)))
    values = column.buffers()[1]
    if values is None or not len(column):
        return np.zeros(0, kind)
    return np.frombuffer(values, kind, len(column), column.offset * kind.itemsize)


def _seconds(column: pa.Array) -> NDArray[Any]:
    """Whole seconds stay ints; finer stamps become float seconds, so that the unit never depends on the file."""
    micros = numbers_of(column.cast(pa.timestamp("us"), safe=False).cast(pa.int64()))
    seconds, rest = np.divmod(micros, 1_000_000)
    if rest.any():
        return np.asarray(micros / 1e6)
    return np.asarray(seconds)
