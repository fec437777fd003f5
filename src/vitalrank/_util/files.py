"""Files that are written whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from vitalrank.errors import StorageError


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """A draft to write: it takes the place of ``path`` when the block ends well, and is removed when it fails.

    The folders that it lies in are made. A link, a pipe or a device is not replaced: it is written into as it is.

    Examples
    --------
    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp()) / "notes" / "a.txt"
    >>> with atomic_write(place) as draft:
    ...     _ = draft.write_text("one")
    >>> place.read_text()
    'one'
    """
    draft = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink() or (path.exists() and not path.is_file()):
            yield path
        else:
            yield draft
            draft.replace(path)
    except BaseException as error:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        if isinstance(error, OSError):
            reason = f"cannot be written ({error}); free space or choose another folder."
            raise StorageError(f"{path}: {reason}") from error
        raise


def write_text(path: Path, text: str) -> None:
    """Write a small file whole or not at all."""
    with atomic_write(path) as draft:
        draft.write_text(text, encoding="utf-8")
