"""Output files of a folder: replaced only if this library wrote them and nobody changed them since."""

from __future__ import annotations

import glob
import hashlib
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from vitalrank._util.display import printable
from vitalrank._util.files import atomic_write, check_output, is_stream, write_text
from vitalrank._util.locks import waiting_writer
from vitalrank.errors import StorageError

RECORD = ".vitalrank.files.json"  # beside the outputs: the SHA-256 of each, two while it is replaced
_LOCK = ".vitalrank.files.lock"


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
    """Whether a file is the source, in a source that is a folder, or one of those that a pattern stands for."""
    with suppress(OSError, ValueError):  # one of the two does not exist, or a null character
        if not path.exists():
            return False
        if source.is_dir():
            return path.resolve().parent == source.resolve() or any(path.samefile(one) for one in source.iterdir())
        if source.exists() or not glob.has_magic(str(source)):
            return path.samefile(source)
        return any(path.samefile(name) for name in glob.glob(str(source), recursive=True))  # noqa: PTH207
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
    if is_stream(path):
        write_text(path, text)
        return
    with waiting_writer(path.parent, _LOCK):
        check_outputs([path], force=force)
        with atomic_write(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
            digests = {path.name: _digest(temporary)}
            _record(path.parent, digests, keep_old=True)
        _record(path.parent, digests)


def move_recorded(paths: Iterable[Path], folder: Path, force: bool = False) -> None:
    """Move files that were just written into a folder, unless one of them would replace a file of somebody else.

    Examples
    --------
    >>> import tempfile
    >>> folder, draft = Path(tempfile.mkdtemp()), Path(tempfile.mkdtemp())
    >>> for text in ("a", "b"):
    ...     _ = (draft / "ids.json").write_text(text)
    ...     move_recorded([draft / "ids.json"], folder)
    >>> (folder / "ids.json").read_text()
    'b'
    """
    files = list(paths)
    with waiting_writer(folder, _LOCK):
        check_outputs([folder / file.name for file in files], force=force)
        digests = {file.name: _digest(file) for file in files}
        _record(folder, digests, keep_old=True)
        for file in files:
            file.replace(folder / file.name)
        _record(folder, digests)


def _record(folder: Path, digests: Mapping[str, str], keep_old: bool = False) -> None:
    """Record digests of outputs: beside those of the files that they will replace, or in their place.

    A process that is killed between the two leaves files that are known either way.
    """
    if (folder / RECORD).is_symlink():
        raise StorageError(f"{printable(folder / RECORD)}: is a link, which vitalrank does not make; remove it.")
    known = _recorded(folder)
    new = {name: [*_listed(known.get(name)), digest] if keep_old else digest for name, digest in digests.items()}
    write_text(folder / RECORD, json.dumps({**known, **new}, indent=1))


def _listed(digests: object) -> list[object]:
    return digests if isinstance(digests, list) else [digests]


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
    digests = _recorded(path.parent).get(path.name)
    return digests is not None and _digest(path) in _listed(digests)


def _recorded(folder: Path) -> dict[str, object]:
    with suppress(OSError, ValueError, RecursionError):
        found = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        if isinstance(found, dict):
            return found
    return {}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
