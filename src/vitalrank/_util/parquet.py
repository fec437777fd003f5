"""Parquet files that say that vitalrank wrote them, so that they may be replaced."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vitalrank._util.files import atomic_write

_KEY = b"vitalrank"  # in the metadata of the schema


@contextmanager
def parquet_writer(path: Path, schema: Any, **options: Any) -> Iterator[Any]:
    """A ``pyarrow.parquet.ParquetWriter`` whose file appears under its name when the block succeeds.

    Examples
    --------
    >>> import tempfile, pyarrow as pa
    >>> place, table = Path(tempfile.mkdtemp()) / "a.parquet", pa.table({"item": [1, 2]})
    >>> with parquet_writer(place, table.schema) as writer:
    ...     writer.write_table(table)
    >>> is_marked_parquet(place)
    True
    """
    from pyarrow.parquet import ParquetWriter

    marked = schema.with_metadata({**(schema.metadata or {}), _KEY: b"1"})
    with (
        atomic_write(path) as temporary,
        temporary.open("wb") as file,  # Arrow itself opens only names in UTF-8
        ParquetWriter(file, marked, **options) as writer,
    ):
        yield writer


def is_marked_parquet(path: Path) -> bool:
    """Whether a file was written by :func:`parquet_writer`."""
    import pyarrow as pa
    from pyarrow.parquet import read_schema

    try:
        with path.open("rb") as file:
            return _KEY in (read_schema(file).metadata or {})
    except (OSError, ValueError, pa.ArrowException):
        return False
