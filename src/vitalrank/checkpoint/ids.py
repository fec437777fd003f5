"""``ids.arrow``: the original ids, one list of users and one of items, in an Arrow file that is validated in full."""

from __future__ import annotations

import os
import struct
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vitalrank.checkpoint.layout import IdPair

_MAGIC = b"ARROW1\0\0"  # an Arrow file is this, a stream of messages, and a footer, which is not needed
_COLUMNS = ("users", "items")


def write_ids(path: Path, ids: IdPair) -> None:
    """Write ids as one row of two lists, since users and items differ in number."""
    columns = {}
    for name, values in zip(_COLUMNS, ids, strict=True):
        kind = pa.int64() if values.dtype.kind in "iu" else pa.large_string()
        flat = pa.array(values, type=kind)
        columns[name] = pa.LargeListArray.from_arrays(pa.array([0, len(flat)], pa.int64()), flat)
    table = pa.table(columns)
    with pa.OSFile(os.fsencode(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def read_ids(file: BufferedReader) -> IdPair:
    """Read what :func:`write_ids` wrote; ValueError for anything else.

    The file may come from a stranger: it is taken only without compression, which could expand to any size, and
    after Arrow has validated every offset, so that memory stays in proportion to the size of the file.
    """
    content = pa.py_buffer(file.read())
    if content[: len(_MAGIC)].to_pybytes() != _MAGIC:
        raise ValueError("it is no Arrow file")
    messages = pa.ipc.MessageReader.open_stream(pa.BufferReader(content[len(_MAGIC) :]))
    schema = pa.ipc.read_schema(messages.read_next_message())
    if schema.names != list(_COLUMNS) or any(not _is_id_list(kind) for kind in schema.types):
        raise ValueError("it does not hold a list of users and a list of items")
    message = messages.read_next_message()
    if message.type != "record batch" or _is_compressed(message.metadata.to_pybytes()):
        raise ValueError("it does not hold plain record batches")
    batch = pa.ipc.read_record_batch(message, schema)
    batch.validate(full=True)
    if batch.num_rows != 1:
        raise ValueError(f"it has {batch.num_rows} rows, not 1")
    users, items = (_flat(batch.column(name), name) for name in _COLUMNS)
    return users, items


def _is_id_list(kind: pa.DataType) -> bool:
    return pa.types.is_large_list(kind) and kind.value_type in (pa.int64(), pa.large_string())


def _flat(column: pa.Array, name: str) -> NDArray[Any]:
    values = column.flatten()
    if column.null_count or values.null_count:
        raise ValueError(f"ids of {name} are missing")
    flat: NDArray[Any] = values.to_numpy(zero_copy_only=False)
    if len(values.unique()) != len(values):
        raise ValueError(f"ids of {name} repeat")
    return np.array(flat) if flat.dtype != object else flat  # a copy: the file's memory goes


def _is_compressed(metadata: bytes) -> bool:
    """Whether the header of a record batch, a flatbuffer, has the field ``compression``; Arrow does not tell."""

    def field(table: int, number: int) -> int:
        """Position of a field of a table, 0 where it is absent."""
        vtable = table - struct.unpack_from("<i", metadata, table)[0]
        size = struct.unpack_from("<H", metadata, vtable)[0]
        entry = 4 + 2 * number
        offset = struct.unpack_from("<H", metadata, vtable + entry)[0] if entry < size else 0
        return table + offset if offset else 0

    try:
        message = struct.unpack_from("<I", metadata, 0)[0]
        header = field(message, 2)  # Message: version, type of the header, header, ...
        batch = header + struct.unpack_from("<I", metadata, header)[0]
        return field(batch, 3) != 0  # RecordBatch: length, nodes, buffers, compression
    except struct.error as error:
        raise ValueError("its record batch has no readable header") from error
