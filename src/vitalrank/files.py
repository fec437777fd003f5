"""Small files, written whole or not at all."""

from __future__ import annotations

from pathlib import Path

from vitalrank.errors import StorageError


def write_text(path: Path, text: str) -> None:
    """Write a file, and the folders it lies in, in place of the one that is there.

    Examples
    --------
    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp()) / "notes" / "a.txt"
    >>> write_text(place, "one")
    >>> place.read_text()
    'one'
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink() or (path.exists() and not path.is_file()):  # such as /dev/stdout: not ours to replace
            path.write_text(text, encoding="utf-8")
        else:
            _replace(path, text)
    except OSError as error:
        raise StorageError(f"{path}: cannot be written ({error}); free space or choose another folder.") from error


def _replace(path: Path, text: str) -> None:
    draft = path.with_name(path.name + ".part")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
