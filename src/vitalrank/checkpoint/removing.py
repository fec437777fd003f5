"""Which files of a folder are a model's, and removing those."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from vitalrank._util.locks import LOCK
from vitalrank.checkpoint.layout import IDS, META, NEW, TENSORS
from vitalrank.checkpoint.writing import clear_temporaries, temporaries


def foreign_files(path: str | os.PathLike[str]) -> list[str]:
    """Names in a folder that are no part of a model folder, in order.

    Examples
    --------
    >>> foreign_files("no/such/folder")
    []
    """
    folder = Path(path)
    own = {META, TENSORS, IDS, NEW, LOCK, *(temporary.name for temporary in temporaries(folder))}
    return sorted(entry.name for entry in folder.iterdir() if entry.name not in own) if folder.is_dir() else []


def remove_folder(path: str | os.PathLike[str]) -> None:
    """Remove a model folder; files of other names stay, and then the folder does, too.

    Examples
    --------
    >>> import tempfile
    >>> from vitalrank.checkpoint import write_folder
    >>> folder = Path(tempfile.mkdtemp())
    >>> write_folder(folder, {"class": "Toy"}, {})
    >>> remove_folder(folder)
    >>> folder.exists()
    False
    """
    folder = Path(path)
    clear_temporaries(folder)
    shutil.rmtree(folder / NEW, ignore_errors=True)
    with contextlib.suppress(OSError):  # nothing there, or files of others
        for name in (META, TENSORS, IDS, LOCK):
            (folder / name).unlink(missing_ok=True)
        folder.rmdir()
