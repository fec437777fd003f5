"""Vectors of anybody's encoder: an array, or a file that is memory-mapped where its format allows it."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.display import printable
from vitalrank.errors import DataError

Array = NDArray[Any]
_DTYPES = {"F16": "<f2", "F32": "<f4", "F64": "<f8"}  # of safetensors
_MOST_HEADER = 100_000_000  # bytes, as the format says


def open_vectors(source: Any, name: str) -> Array:
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
        except (OSError, ValueError, KeyError) as error:
            raise DataError(f"{printable(path)}: holds no vectors that can be read ({printable(error)}).") from error
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
    header.pop("__metadata__", None)
    entry = header[_one_of(list(header), name, path)]
    if entry["dtype"] not in _DTYPES:
        raise DataError(f"{printable(path)}: holds {entry['dtype']}; save the vectors as F16, F32 or F64.")
    shape = tuple(entry["shape"])
    return np.memmap(path, _DTYPES[entry["dtype"]], "r", 8 + size + int(entry["data_offsets"][0]), shape)


def _parquet(path: Path, name: str) -> Array:
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
    raise DataError(f"{printable(path)}: holds {len(names)} arrays ({', '.join(names[:5])}); name one {wanted!r}.")


_READERS = {".npy": _npy, ".npz": _npz, ".safetensors": _safetensors, ".parquet": _parquet}
