"""Output files of a folder: replaced only if this library wrote them and nobody changed them since."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from vitalrank._util.display import printable
from vitalrank._util.files import check_output, write_text
from vitalrank.errors import StorageError

RECORD = ".vitalrank.files.json"  # beside the outputs: the SHA-256 of each as it was written


def check_outputs(paths: Iterable[Path], inputs: Iterable[Path] = (), force: bool = False) -> None:
    """Refuse to write over an input, a folder, or a file that is not an unchanged output of this library.

    Parameters
    ----------
    paths
        Files to write. Devices and pipes may always be written to.
    inputs
        Files that are read: never replaced, under whatever name or link.
    force
        Replace other existing files.

    Examples
    --------
    >>> import tempfile
    >>> notes = Path(tempfile.mkdtemp()) / "notes.txt"
    >>> check_outputs([notes])
    >>> _ = notes.write_text("mine")
    >>> check_outputs([notes], force=True)
    >>> check_outputs([notes], inputs=[notes], force=True)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    vitalrank.errors.StorageError: ...notes.txt: is also read as input; choose another name for the output.
    """
    sources = list(inputs)
    for path in paths:
        check_not_input(path, sources)
        check_output(path, lambda head, path=path: is_unchanged(path), force)  # type: ignore[misc]


def check_not_input(path: Path, inputs: Iterable[Path]) -> None:
    """Refuse to write over a file that is read."""
    if any(_is_same(path, source) for source in inputs):
        raise StorageError(f"{printable(path)}: is also read as input; choose another name for the output.")


def _is_same(path: Path, source: Path) -> bool:
    with suppress(OSError):  # one of the two does not exist
        return path.samefile(source)
    return False


def write_recorded(path: Path, text: str, force: bool = False) -> None:
    """Write a text file and record its digest, so that a later run may replace it.

    Examples
    --------
    >>> import tempfile
    >>> table = Path(tempfile.mkdtemp()) / "results.md"
    >>> write_recorded(table, "a")
    >>> write_recorded(table, "b")
    >>> _ = table.write_text("edited")
    >>> is_unchanged(table)
    False
    """
    check_outputs([path], force=force)
    write_text(path, text)
    if path.is_file():
        digests = {**_recorded(path.parent), path.name: _digest(path)}
        write_text(path.with_name(RECORD), json.dumps(digests, indent=1))


def adopt(folder: Path, beginnings: Mapping[str, str]) -> None:
    """Record the outputs of version 0.1, which kept no digests: files that begin as it wrote them.

    Does nothing where digests are kept. To be called once the folder itself is known to be one of ours.

    Examples
    --------
    >>> import tempfile
    >>> table = Path(tempfile.mkdtemp()) / "results.md"
    >>> _ = table.write_text("| method |")
    >>> adopt(table.parent, {"results.md": "| method"})
    >>> is_unchanged(table)
    True
    """
    if (folder / RECORD).exists():
        return
    found = {}
    for name, beginning in beginnings.items():
        with suppress(OSError):
            with (folder / name).open("rb") as file:
                is_ours = file.read(len(beginning.encode())) == beginning.encode()
            if is_ours:
                found[name] = _digest(folder / name)
    if found:
        write_text(folder / RECORD, json.dumps(found, indent=1))


def is_unchanged(path: Path) -> bool:
    """Whether a file is as ``write_recorded`` left it."""
    digest = _recorded(path.parent).get(path.name)
    return digest is not None and digest == _digest(path)


def _recorded(folder: Path) -> dict[str, object]:
    with suppress(OSError, ValueError, RecursionError):
        found = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        if isinstance(found, dict):
            return found
    return {}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
