"""The files that a path, an address, a folder, a glob pattern or a list of these stands for."""

from __future__ import annotations

import glob
import re
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from vitalrank._util.display import printable, quoted
from vitalrank.errors import DataError, SettingError
from vitalrank.prepared import is_unfinished
from vitalrank.readers.stores import StoredFile, store_address, stored_files

_ADDRESS = re.compile(r"(https?):/+(?=[^/])", re.IGNORECASE)  # a Path has one slash of the two


def find_files(source: str | PathLike[str] | Sequence[str | PathLike[str]]) -> list[Path | str | StoredFile]:
    """The files to read, in order: those of a folder or a pattern by name, those of a list as given.

    Web addresses are strings, files of an object store are opened through pyarrow.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name in ("b.csv", "a.csv", "_SUCCESS"):
    ...     (folder / name).touch()
    >>> [file.name for file in find_files(folder)]
    ['a.csv', 'b.csv']
    >>> [file.name for file in find_files(str(folder / "b*"))]
    ['b.csv']
    >>> find_files(Path("https://example.org/log.tsv"))
    ['https://example.org/log.tsv']
    """
    if isinstance(source, list | tuple):
        if not source or not all(isinstance(path, str | PathLike) for path in source):
            raise SettingError(f"read({quoted(source)}): give a path, several paths, a data frame or a sparse matrix.")
        return [file for path in source for file in find_files(path)]
    if stored := store_address(str(source)):
        return [*stored_files(stored)]
    path = Path(source)  # type: ignore[arg-type]
    try:
        if path.is_dir():
            return [*_files_of(path)]
        address = _ADDRESS.match(str(source))
        if address and not path.exists():
            return [f"{address[1].lower()}://{str(source)[address.end() :]}"]
        if glob.has_magic(str(path)) and not path.exists():
            return [*_matches(str(path))]
    except DataError:
        raise
    except (OSError, ValueError) as error:  # a null character, a name that is too long
        raise DataError(f"{printable(path, 200)}: cannot be read ({printable(error, 200)}).") from error
    return [path]


def _files_of(folder: Path) -> list[Path]:
    """Hidden files and the markers of other programs, such as ``_SUCCESS``, are no part of a log."""
    if is_unfinished(folder):
        raise DataError(f"{printable(folder)} holds a preparation that did not finish; run data prepare again.")
    entries = sorted(entry for entry in folder.iterdir() if not entry.name.startswith((".", "_")))
    folders = [entry for entry in entries if entry.is_dir()]
    if folders:
        raise DataError(
            f"{printable(folder)} holds a folder ({printable(folders[0].name, 80)}); name the files to read."
        )
    if not entries:
        raise DataError(f"{printable(folder)} is a folder without files; name a file or a folder of them.")
    return entries


def _matches(pattern: str) -> list[Path]:
    found = sorted(Path(name) for name in glob.glob(pattern, recursive=True))  # noqa: PTH207, absolute ones, too
    files = [path for path in found if not path.is_dir()]
    if not files:
        raise DataError(f"{printable(pattern, 200)}: no file matches.")
    return files
