"""One file out of a zip archive."""

from __future__ import annotations

import errno
import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from vitalrank._util.display import first_line, printable
from vitalrank._util.files import atomic_write
from vitalrank.errors import DataError

_CHUNK = 1 << 20
# Damaged data, an unknown compression method, a password: zipfile lets through what its decompressors raise.
_DAMAGED = (
    zipfile.BadZipFile, LookupError, EOFError, zlib.error, lzma.LZMAError, struct.error, NotImplementedError,
    OverflowError, RuntimeError, ValueError,
)  # fmt: skip


def unpack(archive: Path, member: str) -> Path:
    """Write one member beside its archive, under its own name; a damaged archive is removed."""
    target = archive.with_name(Path(member).name)
    try:
        with (
            _opened(archive, member) as source,
            atomic_write(target) as temporary,
            temporary.open("wb") as file,
        ):
            for chunk in _chunks(source):
                file.write(chunk)
    except _DAMAGED as error:
        archive.unlink()
        reason = f"is damaged or holds no {member} ({first_line(error)}); it was removed, so fetch it again."
        raise DataError(f"{printable(archive)} {reason}") from error
    return target


@contextmanager
def _opened(archive: Path, member: str) -> Iterator[IO[bytes]]:
    with ExitStack() as stack:
        try:
            source = stack.enter_context(stack.enter_context(zipfile.ZipFile(archive)).open(member))
        except OSError as error:
            if error.errno != errno.EINVAL:  # else a place in the file that there cannot be
                raise
            raise zipfile.BadZipFile(str(error)) from error
        yield source


def _chunks(source: IO[bytes]) -> Iterator[bytes]:
    while True:
        try:
            chunk = source.read(_CHUNK)
        except OSError as error:  # bzip2's word for damaged data, not the disk's
            raise zipfile.BadZipFile(str(error)) from error
        if not chunk:
            return
        yield chunk
