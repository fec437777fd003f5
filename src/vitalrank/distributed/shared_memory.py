"""Memory that all ranks of one machine read and write, so that large messages between them need not be sent."""

from __future__ import annotations

import mmap
import os
import secrets
import tempfile
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vitalrank.distributed.group import Group

VARIABLE = "VITALRANK_SHARED_MEMORY"  # 0: ranks of one machine send their messages, too
_FOLDER = Path("/dev/shm")  # files in memory
_TOKEN = 16  # bytes


def shared_zeros(group: Group, size: int) -> NDArray[np.float32] | None:
    """Zeros that all ranks share, called by all; None where they are on several machines, or memory is short."""
    is_possible = _FOLDER.is_dir() and os.environ.get(VARIABLE, "1") != "0"
    if len(set(group.hosts)) > 1 or not group.all_ranks(is_possible):
        return None
    made = _create(4 * size) if group.is_rank_zero else None
    name, token = group.all_gather_objects(made)[0] or ("", "")
    mapped = _map(name, token) if name else None
    is_everywhere = group.all_ranks(mapped is not None)
    if made is not None:
        Path(made[0]).unlink(missing_ok=True)  # who has mapped it keeps it
    if mapped is None or not is_everywhere:
        return None
    zeros: NDArray[np.float32] = np.frombuffer(mapped, np.float32)
    group.barrier()  # nobody writes before all have read the token
    zeros[: _TOKEN // 4] = 0
    group.barrier()
    return zeros


def _create(size: int) -> tuple[str, str] | None:
    """A file of that size with a token that tells it from others of its name; None without room for it."""
    with suppress(OSError):
        handle, name = tempfile.mkstemp(prefix="vitalrank-", dir=_FOLDER)
        token = secrets.token_bytes(_TOKEN)
        try:
            os.posix_fallocate(handle, 0, size)  # a page that is missing later would end the process
            os.pwrite(handle, token, 0)
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise
        finally:
            os.close(handle)
        return name, token.hex()
    return None


def _map(name: str, token: str) -> mmap.mmap | None:
    """The file as writable memory; None if it is not there, as on another machine of the same name."""
    with suppress(OSError), Path(name).open("r+b") as file:
        mapped = mmap.mmap(file.fileno(), 0)
        if mapped[:_TOKEN].hex() == token:
            return mapped
    return None
