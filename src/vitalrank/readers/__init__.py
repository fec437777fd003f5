"""Files to logs: any of the usual formats, recognised by content and name, streamed block by block."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from scipy import sparse

from vitalrank._util.display import printable, quoted
from vitalrank.errors import SettingError
from vitalrank.interactions import Interactions
from vitalrank.interactions.weighting import REPEATS, check_repeats
from vitalrank.prepared import Prepared, is_prepared
from vitalrank.readers.collecting import Collector
from vitalrank.readers.finding import find_files
from vitalrank.readers.lines import Wanted
from vitalrank.readers.parquet import read_parquet
from vitalrank.readers.sources import PARQUET, TextSource, as_file, magic
from vitalrank.readers.stores import StoredFile
from vitalrank.readers.text import read_text

__all__ = ["read"]

Column = str | int | None
Paths = str | PathLike[str] | Sequence[str | PathLike[str]]


def read(
    path: Paths | Any,
    *,
    user: Column = None,
    item: Column = None,
    time: str | int | bool | None = None,
    weight: str | int | bool | None = None,
    repeats: str = "first",
    sep: str | None = None,
    header: bool | None = None,
    on_bad: str = "raise",
    like: Interactions | None = None,
) -> Interactions:
    """Read a log of interactions from files, a data frame or a sparse matrix.

    CSV and TSV with or without header, RecBole ``.inter``, MovieLens ``u.data``, ``ratings.dat`` and ``ratings.csv``,
    Amazon ratings and reviews, Yelp and Steam reviews, JSON lines and Parquet; text may be packed with gzip or zstd.
    Files are streamed: memory holds the encoded columns and the ids, never the text.

    Parameters
    ----------
    path
        A file; a pipe or a web address (``https://...``), copied to a temporary file first; a folder or a glob
        pattern, whose files are read in the order of their names; or several of these, read in the order given. Files
        read together have one format. Files, folders and patterns may lie in an object store (``s3://bucket/log/``,
        ``gs://``, ``abfs://``) or in HDFS, as ``pyarrow.fs.FileSystem.from_uri`` takes them. A data frame is taken
        as by `Interactions.from_frame`, a SciPy sparse matrix or array as by `Interactions.from_csr`, a database cursor
        as by `Interactions.from_rows`. A folder that ``vitalrank data prepare --out`` wrote is opened as `Prepared.log`
        says.
    user, item, time
        Column names (or positions from 0, in a file without header); None looks for well-known names.
        ``time=False`` ignores times, so that a user's rows keep the order of the file.
    weight
        The column of the weights, such as a rating or a count, which scale the loss of each row in training; None has
        none. For a sparse matrix True: its entries.
    repeats
        What becomes of repeated (user, item) pairs: ``"first"``, ``"last"``, ``"sum"`` or ``"count"``, as for
        `Interactions.from_arrays`.
    sep
        The separator of a delimited file; None finds it.
    header
        Whether the first line names the columns; None finds out.
    on_bad
        ``"raise"`` stops at the first unreadable line and names it; ``"skip"`` leaves such lines out and counts them in
        ``Interactions.skipped``.
    like
        A log that the rows are for, such as that of `Interactions.extend`. Text holds no types, and ids that are all
        digits are read as integers; where those of this log are strings, they stay strings.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "may.csv").write_text("user,item,time\\nann,7,20\\nbob,7,5\\nann,9,10\\n")
    >>> read(folder / "may.csv")
    Interactions(2 users, 2 items, 3 rows)
    >>> _ = (folder / "june.csv").write_text("user,item,time\\neve,7,40\\n")
    >>> read(folder)
    Interactions(3 users, 2 items, 4 rows)
    """
    if on_bad not in ("raise", "skip"):
        raise SettingError(f"on_bad={quoted(on_bad)}: give 'raise' or 'skip'.")
    check_repeats(repeats, REPEATS)
    if not isinstance(path, str | PathLike | list | tuple):
        return _from_memory(path, (user, item, time, weight), repeats, file_options=(sep, header, like))
    if isinstance(path, str | PathLike) and is_prepared(path):
        return _from_prepared(Path(path), [user, item, time, weight, sep, header], repeats, on_bad)
    collector = Collector(skip=on_bad == "skip", repeats=repeats, like=like)
    collect(path, (user, item, time, weight), sep, header, collector)
    return collector.finish(printable(path, 200))


def collect(source: Paths, wanted: Wanted, sep: str | None, header: bool | None, collector: Collector) -> None:
    """Stream files into a collector: what `read` does, for logs that memory does not hold."""
    if isinstance(wanted[3], bool):
        raise SettingError(f"weight={wanted[3]}: give the column of the weights, or None.")
    _check_separator(sep)
    for file in find_files(source):
        _read_file(file, wanted, sep, header, collector)


def _read_file(
    path: Path | str | StoredFile, wanted: Wanted, sep: str | None, header: bool | None, collector: Collector
) -> None:
    collector.open(path)
    with as_file(path) as file:
        if magic(file) == PARQUET:
            if sep is not None or header is not None:
                raise SettingError(f"{collector.source}: sep= and header= mean nothing for Parquet; leave them out.")
            read_parquet(file, wanted, collector)
        else:
            with TextSource(file, name=str(path)) as source:
                read_text(source, wanted, sep, header, collector)


def _from_prepared(path: Path, options: list[Any], repeats: str, on_bad: str) -> Interactions:
    if any(option is not None for option in options) or (repeats, on_bad) != ("first", "raise"):
        raise SettingError(
            f"{printable(path)} is a prepared log, whose columns and repeats were settled by data prepare; leave out "
            "the options that say how to read a file."
        )
    return Prepared.open(path).log()


def _from_memory(data: Any, wanted: Wanted, repeats: str, file_options: tuple[Any, ...]) -> Interactions:
    if any(option is not None for option in file_options):
        raise SettingError("sep=, header= and like= are for files; leave them out.")
    if isinstance(data, Interactions):
        if any(column is not None for column in wanted) or repeats != "first":
            raise SettingError("user=, item=, time=, weight= and repeats= are for what is no log yet; leave them out.")
        return data
    if isinstance(data, sparse.sparray | sparse.spmatrix):
        *columns, weight = wanted
        if any(column is not None for column in columns) or not (weight is None or isinstance(weight, bool)):
            raise SettingError(
                "user=, item=, time= and weight= name columns, which a sparse matrix has not; leave them out, or say "
                "weight=True if its entries are the weights."
            )
        return Interactions.from_csr(data, weights=bool(weight))
    if callable(getattr(data, "fetchmany", None)) and getattr(data, "description", None):  # PEP 249
        names: dict[str, Any] = dict(zip(("user", "item", "time", "weight"), wanted, strict=True))
        return Interactions.from_rows(data, [str(column[0]) for column in data.description], **names, repeats=repeats)
    return Interactions.from_frame(data, *wanted, repeats=repeats)


def _check_separator(sep: str | None) -> None:
    if sep is None:
        return
    try:
        is_good = bool(sep.encode()) and not set(sep) & set('\n\r"\0')
    except (UnicodeEncodeError, AttributeError):
        is_good = False
    if not is_good:
        raise SettingError(f"sep={quoted(sep)}: give one or more characters of UTF-8 text, no quote or line end.")
