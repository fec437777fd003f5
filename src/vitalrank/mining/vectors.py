"""Vectors of anybody's encoder: an array, or a file that is memory-mapped where its format allows it."""

from __future__ import annotations

import json
import math
import os
import tempfile
import tokenize
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from vitalrank._util.checks import is_count
from vitalrank._util.display import first_line, listed, printable
from vitalrank._util.typing import Array
from vitalrank.errors import DataError

VectorSource = ArrayLike | str | os.PathLike[str]  # an array, or a file of one

_DTYPES = {"F16": "<f2", "F32": "<f4", "F64": "<f8"}  # of safetensors
_MOST_HEADER = 100_000_000  # bytes, as the format says
# What NumPy, zipfile and Arrow let through for a file that is not what its name says.
DAMAGED = (
    OSError, ValueError, LookupError, TypeError, EOFError, MemoryError, RecursionError, RuntimeError,
    zipfile.BadZipFile, zlib.error, SyntaxError, tokenize.TokenError, pa.ArrowException,
)  # fmt: skip


def open_vectors(source: VectorSource, name: str) -> Array:
    """Vectors (R, d) as an array: memory-mapped from ``.npy`` and ``.safetensors``, decoded to a memory-mapped
    temporary file from Parquet, read whole from ``.npz``.

    Of an ``.npz`` or safetensors file with several arrays the one called ``name`` is taken; of a Parquet file the one
    column of lists.

    Examples
    --------
    >>> folder = Path(tempfile.mkdtemp())
    >>> np.save(folder / "items.npy", np.eye(3, dtype=np.float32))
    >>> open_vectors(folder / "items.npy", "items").shape
    (3, 3)
    """
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        try:
            vectors = _READERS.get(path.suffix, _unknown)(path, name)
        except DataError:
            raise
        except FileNotFoundError as error:
            raise DataError(f"{printable(path)}: no such file.") from error
        except DAMAGED as error:
            raise DataError(f"{printable(path)}: holds no vectors that can be read ({first_line(error)}).") from error
    else:
        vectors = np.asarray(source.detach().cpu() if hasattr(source, "detach") else source)
    if vectors.ndim != 2 or not vectors.shape[1] or vectors.dtype.kind != "f":
        raise DataError(f"{name} are {vectors.dtype} {vectors.shape}; they must be numbers with a point, (rows, d).")
    return vectors


def _unknown(path: Path, name: str) -> Array:
    known = ", ".join(_READERS)
    raise DataError(f"{printable(path)}: is of no known kind; give {name} as a file that ends in {known}.")


def _npy(path: Path, name: str) -> Array:
    vectors: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    return vectors


def _npz(path: Path, name: str) -> Array:
    with np.load(path, allow_pickle=False) as file:
        vectors: Array = file[_one_of(list(file.files), name, path)]
        return vectors


def _safetensors(path: Path, name: str) -> Array:
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        if size > _MOST_HEADER:
            raise DataError(f"{printable(path)}: is no safetensors file.")
        header = json.loads(file.read(size))
        length = file.seek(0, os.SEEK_END) - 8 - size
    if not isinstance(header, dict):
        raise DataError(f"{printable(path)}: is no safetensors file.")
    header.pop("__metadata__", None)
    entry = header[_one_of(list(header), name, path)]
    kind, shape, (begin, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
    if kind not in _DTYPES:
        raise DataError(f"{printable(path)}: holds {printable(kind, 20)}; save the vectors as F16, F32 or F64.")
    if not all(is_count(one, 0) for one in (*shape, begin, end)) or not (
        end <= length and end - begin == math.prod(shape) * np.dtype(_DTYPES[kind]).itemsize
    ):
        raise DataError(f"{printable(path)}: its header does not fit its length; save it again.")
    if not all(shape):
        return np.zeros(shape, np.float32)  # nothing to map
    return np.memmap(path, _DTYPES[kind], "r", 8 + size + begin, tuple(shape))


def _parquet(path: Path, name: str) -> Array:
    import pyarrow.compute as pc
    import pyarrow.parquet
    import pyarrow.types as kinds

    file = pyarrow.parquet.ParquetFile(path)
    lists = [
        field.name for field in file.schema_arrow if kinds.is_list(field.type) or kinds.is_fixed_size_list(field.type)
    ]
    column = _one_of(lists, name, path)
    vectors: Array | None = None
    start = 0
    for batch in file.iter_batches(columns=[column], batch_size=8192):
        values = batch.column(0)
        if values.null_count or pc.count_distinct(pc.list_value_length(values)).as_py() > 1:
            raise DataError(f"{printable(path)}: its vectors differ in length or are missing; write them again.")
        rows = values.flatten().to_numpy(zero_copy_only=False).astype(np.float32).reshape(len(values), -1)
        if vectors is None:
            with tempfile.TemporaryFile() as space:  # which the map keeps
                vectors = np.memmap(space, np.float32, "w+", shape=(file.metadata.num_rows, rows.shape[1]))
        vectors[start : start + len(rows)] = rows
        start += len(rows)
    if vectors is None:
        raise DataError(f"{printable(path)}: has no rows.")
    return vectors


def _one_of(names: list[str], wanted: str, path: Path) -> str:
    if len(names) == 1 or wanted in names:
        return wanted if wanted in names else names[0]
    raise DataError(f"{printable(path)}: holds {len(names)} arrays ({listed(names)}); name one {wanted!r}.")


_READERS = {".npy": _npy, ".npz": _npz, ".safetensors": _safetensors, ".parquet": _parquet}
