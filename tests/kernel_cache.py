"""Where tests keep compiled kernels: a folder for each state of their source.

Numba keeps a compiled function until the file it stands in changes, not those of the functions it calls: a kernel
broken in one file would pass its tests as it was compiled before.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import suppress
from pathlib import Path


def folder_for(package: Path, root: Path) -> str:
    """A folder under ``root``, or a temporary one where nothing can be written, for the kernels as they are now."""
    digest = hashlib.sha256()
    for path in [package / "losses.py", *sorted((package / "kernels").rglob("*.py"))]:  # kernels hold losses' numbers
        digest.update(b"\0".join([path.relative_to(package).as_posix().encode(), path.read_bytes(), b""]))
    folder = root / ".cache" / "numba" / digest.hexdigest()[:16]
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    return str(folder) if os.access(folder, os.W_OK) else tempfile.mkdtemp(prefix="vitalrank-kernels-")
