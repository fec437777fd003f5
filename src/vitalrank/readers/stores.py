"""Files in object stores (``s3://``, ``gs://``, ``abfs://``) and in HDFS, which pyarrow reads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import pyarrow as pa

from vitalrank._util.display import first_line, printable
from vitalrank.errors import DataError

_ADDRESS = re.compile(r"(s3|gs|gcs|abfss?|hdfs|viewfs):/+(?=[^/])", re.IGNORECASE)  # a Path has one slash of the two
_MAGIC = re.compile(r"[*\[]")  # no question mark, which begins the options of an address
_REFUSED = (OSError, ValueError, NotImplementedError)  # pyarrow's errors are among them


@dataclass(frozen=True)
class StoredFile:
    """A file that pyarrow opens by its path in a file system."""

    filesystem: Any
    path: str
    address: str

    def __str__(self) -> str:
        return self.address

    def open(self) -> pa.NativeFile:
        """The file, from its beginning; what is not read is not fetched."""
        try:
            return self.filesystem.open_input_file(self.path)
        except _REFUSED as error:
            raise unreadable(self.address, error) from error


def store_address(text: str) -> str | None:
    """The address of something in a store, in full; None for a path.

    Examples
    --------
    >>> store_address("S3:/bucket/log"), store_address("log.csv")
    ('s3://bucket/log', None)
    """
    found = _ADDRESS.match(text)
    return None if found is None else f"{found[1].lower()}://{text[found.end() :]}"


def stored_files(address: str) -> list[StoredFile]:
    """The files that an address in a store stands for: itself, those of a folder, or those that match a pattern."""
    from pyarrow import fs  # loads the stores' libraries

    scheme = address.partition("://")[0]
    place, question, options = address.partition("?")
    pattern = _MAGIC.search(place)
    above = place[: pattern.start()].rpartition("/")[0] if pattern else place
    asked = place[len(above) :].strip("/").split("/") if pattern else []
    try:
        filesystem, top = fs.FileSystem.from_uri(above + question + options)
        top = top.rstrip("/")
        itself = filesystem.get_file_info(top)
        is_folder = itself.type == fs.FileType.Directory
        found = filesystem.get_file_info(fs.FileSelector(top, recursive=len(asked) > 1)) if is_folder else [itself]
    except _REFUSED as error:
        raise unreadable(place, error) from error
    if itself.type == fs.FileType.NotFound:
        raise DataError(f"{printable(place, 200)}: no such file or folder; check the address.")
    if pattern:
        found = [one for one in found if _matches(_below(one.path, top), asked)]
    elif is_folder:
        found = [one for one in found if not one.base_name.startswith((".", "_"))]
    return [StoredFile(filesystem, path, f"{scheme}://{path}") for path in _checked(found, place, bool(pattern))]


def _checked(found: Sequence[Any], place: str, is_pattern: bool) -> list[str]:
    """The paths of the files, by name; a folder of folders is refused, as on disk."""
    files = sorted(one.path for one in found if one.is_file)
    folders = sorted(one.base_name for one in found if not one.is_file)
    if folders and not is_pattern:
        raise DataError(
            f"{printable(place, 200)} holds a folder ({printable(folders[0], 80)}); name the files, as in */*.parquet."
        )
    if not files:
        what = "no file matches" if is_pattern else "is a folder without files; name a file or a folder of them"
        raise DataError(f"{printable(place, 200)}: {what}.")
    return files


def _below(path: str, top: str) -> list[str]:
    return path[len(top) :].strip("/").split("/")


def _matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether the parts of a path match those of a pattern, of which ``**`` stands for any number.

    Examples
    --------
    >>> [_matches(path.split("/"), ["**", "*.csv"]) for path in ("a.csv", "b/c/a.csv", "b/a.txt")]
    [True, True, False]
    """
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return _matches(parts, pattern[1:]) or (bool(parts) and _matches(parts[1:], pattern))
    return bool(parts) and fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])


def unreadable(address: str, error: BaseException) -> DataError:
    """What to say of a store that does not answer, or refuses."""
    reason = printable(first_line(error).rstrip("."), 300)
    return DataError(
        f"{printable(address, 200)}: cannot be read ({reason}); check the address, and in the environment the "
        "credentials, the region and the endpoint."
    )
