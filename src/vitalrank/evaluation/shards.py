"""An evaluation in pieces, for any scheduler: each process writes what it found of its users, and one reads them all.

What ranks would send each other goes through files: a shard keeps the arrays that it would give to the others, and who
reads all shards takes the part of a rank without users of its own.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vitalrank._util.checks import parse_shard
from vitalrank._util.display import first_line, listed, printable
from vitalrank._util.files import atomic_write, check_output
from vitalrank._util.typing import Array
from vitalrank.distributed.process_group import ProcessGroup
from vitalrank.errors import DataError

_ABOUT = "about"  # the name of what a file says of itself


class ShardWriter(ProcessGroup):
    """The group of a process that evaluates one shard: what it would give to the others is kept for a file.

    Examples
    --------
    >>> group = ShardWriter("2/3")
    >>> group.rank, group.size
    (1, 3)
    """

    def __init__(self, shard: str) -> None:
        number, self.size = parse_shard(shard)
        self.rank = number - 1
        self._arrays: list[Array] = []

    def all_gather_rows(self, array: Array) -> Array:
        self._arrays.append(array)
        return array

    def write(self, path: Path, identity: Mapping[str, Any], force: bool = False) -> None:
        """Write the file, whole or not at all; ``identity`` must be the same for all shards."""
        about = {"vitalrank": "shard of an evaluation", "shard": [self.rank, self.size], "identity": dict(identity)}
        text = np.frombuffer(json.dumps(about).encode(), np.uint8)
        check_output(path, lambda head: _is_shard(path), force)
        arrays = {str(number): array for number, array in enumerate(self._arrays)}
        with atomic_write(path) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, **{_ABOUT: text}, **arrays)


class ShardReader(ProcessGroup):
    """The group of the process that reads all shards: it has no users of its own, and gets those of all others.

    Parameters
    ----------
    folder
        Where the files of `ShardWriter` lie.
    identity
        What they must have been written with.
    """

    def __init__(self, folder: str | os.PathLike[str], identity: Mapping[str, Any]) -> None:
        place = Path(folder)
        paths = sorted(place.glob("*.npz")) if place.is_dir() else []
        if not paths:
            raise DataError(f"{printable(place)}: no shards (*.npz) there; write them with evaluate --shard.")
        found: dict[int, tuple[int, list[Array]]] = {}
        for path in paths:
            (number, size), own, arrays = _read(path)
            for name, value in identity.items():
                if own.get(name) != value:
                    raise DataError(f"{printable(path)} is of another {name}; evaluate that shard again.")
            if number in found or size != next(iter(found.values()), (size,))[0]:
                raise DataError(f"{printable(path)} is shard {number + 1}/{size}, which does not go with the others.")
            found[number] = size, arrays
        self.size = next(iter(found.values()))[0]
        missing = [f"{number + 1}/{self.size}" for number in range(self.size) if number not in found]
        if missing:
            raise DataError(f"{printable(place)}: shards {listed(missing)} are missing; run evaluate --shard for them.")
        self.rank = self.size  # after all others
        self._arrays: Iterator[Iterable[Array]] = zip(*(found[n][1] for n in range(self.size)), strict=True)

    @property
    def is_rank_zero(self) -> bool:
        """It prints, alone."""
        return True

    def all_gather_rows(self, array: Array) -> Array:
        return np.concatenate([*next(iter(self._arrays)), array[:0]])


def _is_shard(path: Path) -> bool:
    try:
        _read(path)
    except DataError:
        return False
    return True


def _read(path: Path) -> tuple[tuple[int, int], dict[str, Any], list[Array]]:
    try:
        with np.load(path, allow_pickle=False) as file:
            about = json.loads(bytes(file[_ABOUT]))
            number, size = map(int, about["shard"])
            arrays = [file[str(index)] for index in range(len(file.files) - 1)]
            return (number, size), dict(about["identity"]), arrays
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(
            f"{printable(path)}: no shard of an evaluation ({first_line(error)}); write it again."
        ) from error
