"""Files to logs: any of the usual formats, recognised by content and name, streamed block by block."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from vitalrank.errors import DataError, SettingError
from vitalrank.interactions import Interactions
from vitalrank.readers.collecting import Collector
from vitalrank.readers.parquet import read_parquet
from vitalrank.readers.sources import PARQUET, TextSource, as_file, magic
from vitalrank.readers.text import read_text

__all__ = ["read"]

Column = str | int | None


def read(
    path: str | PathLike[str],
    *,
    user: Column = None,
    item: Column = None,
    time: str | int | bool | None = None,
    sep: str | None = None,
    header: bool | None = None,
    on_bad: str = "raise",
) -> Interactions:
    """Read a log of interactions from a file.

    CSV and TSV with or without header, RecBole ``.inter``, MovieLens ``u.data``, ``ratings.dat`` and ``ratings.csv``,
    Amazon ratings and reviews, Yelp and Steam reviews, JSON lines and Parquet; text may be packed with gzip or zstd.
    The file is streamed: memory holds the numbered columns and the ids, never the text.

    Parameters
    ----------
    path
        The file, or a pipe, whose text is copied to a temporary file first.
    user, item, time
        Column names (or positions from 0, in a file without header); None looks for well-known names.
        ``time=False`` ignores times, so that a user's rows keep the order of the file.
    sep
        The separator of a delimited file; None finds it.
    header
        Whether the first line names the columns; None finds out.
    on_bad
        ``"raise"`` stops at the first unreadable line and names it; ``"skip"`` leaves such lines out and counts them in
        ``Interactions.skipped``.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "log.csv"
    >>> _ = path.write_text("user,item,time\\nann,7,20\\nbob,7,5\\nann,9,10\\n")
    >>> read(path)
    Interactions(2 users, 2 items, 3 rows)
    """
    if on_bad not in ("raise", "skip"):
        raise SettingError(f"on_bad={on_bad!r}: give 'raise' or 'skip'.")
    name = str(path)
    collector = Collector(name, skip=on_bad == "skip")
    with as_file(Path(path)) as file:
        if magic(file) == PARQUET:
            if sep is not None or header is not None:
                raise SettingError(f"{name}: sep= and header= mean nothing for Parquet; leave them out.")
            read_parquet(file, (user, item, time), collector)
        else:
            with TextSource(file, name=name) as source:
                read_text(source, (user, item, time), sep, header, collector)
    if not collector.rows:
        raise DataError(f"{name}: no rows" + (f", {collector.skipped:,} lines skipped." if collector.skipped else "."))
    return collector.finish()
