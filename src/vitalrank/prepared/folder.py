"""Opening a prepared log: whole parts, or the users of one rank alone."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.checks import to_int_below
from vitalrank._util.display import listed, printable
from vitalrank.distributed.ranges import rank_bounds
from vitalrank.errors import SettingError, StorageError
from vitalrank.interactions import Interactions, check_same_ids
from vitalrank.interactions.encoding import Ids
from vitalrank.interactions.ordering import row_users
from vitalrank.prepared.arrays import MappedArray, PieceCheck
from vitalrank.prepared.checking import piece_check
from vitalrank.prepared.ids import MappedIds
from vitalrank.prepared.layout import PARTS, TRAIN, WHOLE, Contents, read_contents
from vitalrank.prepared.writing import write_prepared

_OPTIONAL = ("times", "weights")
Indptr = NDArray[np.int64]
RowRange = tuple[int, int]


class Prepared:
    """A prepared log: a folder that ``vitalrank data prepare`` wrote, mapped into memory as far as it is asked for.

    Attributes
    ----------
    folder
        Where it lies.
    n_users, n_items
        Numbers of users and items.
    parts
        Names of its parts: ``("log",)``, or ``train`` and what was held out of it.

    Examples
    --------
    >>> import tempfile, vitalrank as vr
    >>> log = vr.datasets.synthetic(users=50, items=40, interactions=600, seed=0)
    >>> train, test = log.split_last(0.2)
    >>> prepared = Prepared.write(tempfile.mkdtemp(), {"train": train, "test": test})
    >>> prepared.parts, prepared.part("train").fingerprint == train.fingerprint
    (('train', 'test'), True)
    >>> sum(len(prepared.shard(rank, 4)) for rank in range(4)) == len(train)
    True
    """

    def __init__(self, folder: Path, contents: Contents) -> None:
        self.folder = folder
        self._contents = contents
        self._arrays: dict[str, MappedArray] = {}

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> Self:
        """Open a folder; arrays are mapped and verified when a part of them is asked for."""
        path = Path(folder)
        return cls(path, read_contents(path))

    @classmethod
    def write(cls, folder: str | os.PathLike[str], parts: Interactions | Mapping[str, Interactions]) -> Self:
        """Write a log in memory, or the parts of its split by name: train, and valid or test or both."""
        named = {WHOLE: parts} if isinstance(parts, Interactions) else dict(parts)
        if tuple(named) != (WHOLE,) and not (TRAIN in named and set(named) <= set(PARTS[1:])):
            raise SettingError(
                f"parts are {listed(named)}; give a log, or train and what was held out as valid and test."
            )
        ordered = {name: named[name] for name in PARTS if name in named}
        for name, log in ordered.items():
            check_same_ids(next(iter(ordered.values())), log, name)
        write_prepared(folder, ordered)
        return cls.open(folder)

    def __repr__(self) -> str:
        rows = ", ".join(f"{name} {entry.rows:,}" for name, entry in self._contents.parts.items())
        return f"Prepared({printable(self.folder)}: {self.n_users:,} users, {self.n_items:,} items; rows: {rows})"

    @property
    def n_users(self) -> int:
        return self._contents.users

    @property
    def n_items(self) -> int:
        return self._contents.items

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self._contents.parts)

    @property
    def is_split(self) -> bool:
        """Whether parts were held out."""
        return self.parts != (WHOLE,)

    @property
    def repeats(self) -> int:
        """Rows of (user, item) pairs beyond one for each, dropped or merged."""
        return self._contents.repeats

    @property
    def skipped(self) -> int:
        """Unreadable lines left out."""
        return self._contents.skipped

    @property
    def made(self) -> dict[str, Any]:
        """How it was made: sources, filters, split."""
        return dict(self._contents.made)

    def rows(self, part: str | None = None) -> int:
        """Rows of a part; by default of the first, which is trained on."""
        return self._contents.parts[self._named(part)].rows

    def fingerprint(self, part: str | None = None) -> str:
        """`Interactions.fingerprint` of a part, known without reading it."""
        return self._contents.parts[self._named(part)].fingerprint

    @cached_property
    def user_ids(self) -> Ids:
        """All original user ids."""
        return self._side("users").between(0, self.n_users)

    @cached_property
    def item_ids(self) -> Ids:
        """All original item ids."""
        return self._side("items").between(0, self.n_items)

    def part(self, part: str | None = None, *, rank: int = 0, ranks: int = 1) -> Interactions:
        """A part as a log, its arrays mapped; by default the first, which is trained on.

        With ``ranks`` it is what one of several ranks trains on: the rows of its `user_range` are verified and may be
        read, and what is known of the whole (numbers of rows, degrees of items, fingerprint) is that of the whole.
        """
        name = self._named(part)
        entry, indptr = self._contents.parts[name], self._indptr(name)
        users = self.user_range(rank, ranks)
        log = self._log(name, indptr, (0, entry.rows), self.user_ids, self.row_range(*users, name))
        log.with_known(item_degree=self._array(name, "item_degree").whole(), fingerprint=entry.fingerprint)
        return log if ranks == 1 else log.with_known(own_users=users, users=row_users(indptr, *users))

    def split(self, *, rank: int = 0, ranks: int = 1) -> dict[str, Interactions]:
        """All parts by name, each as `part` gives it."""
        return {name: self.part(name, rank=rank, ranks=ranks) for name in self.parts}

    def log(self) -> Interactions:
        """The whole log: mapped if it was not split, else put together again in memory."""
        if not self.is_split:
            return self.part()
        logs = list(self.split().values())
        every = logs[0]
        whole = Interactions.from_codes(
            np.concatenate([log.users for log in logs]),
            np.concatenate([log.items for log in logs]),
            None if every.times is None else np.concatenate([log.times for log in logs]),
            self.user_ids,
            self.item_ids,
            self._contents.skipped,
            None if every.weights is None else np.concatenate([log.weights for log in logs]),
        )
        return replace(whole, repeats=self._contents.repeats)

    def user_range(self, rank: int, ranks: int) -> tuple[int, int]:
        """First user of a rank, and the one after its last: ranges with about as many rows to train on each.

        The ranges of all ranks together are all users, in order; one may be empty where a user has more rows than
        there are for a rank, or where there are more ranks than users.
        """
        ranks = to_int_below("ranks", ranks, 1, 1 << 31)
        rank = to_int_below("rank", rank, 0, ranks)
        first, last = rank_bounds(self._indptr(self.parts[0]), ranks)[1][rank : rank + 2]
        return first, last

    def row_range(self, first: int, last: int, part: str | None = None) -> tuple[int, int]:
        """The rows of a part that belong to the users from ``first`` to before ``last``."""
        indptr = self._indptr(self._named(part))
        return int(indptr[first]), int(indptr[last])

    def shard(self, rank: int, ranks: int, part: str | None = None) -> Interactions:
        """The users of one rank, on the ids of the whole: the others have no rows, and theirs are not read."""
        name = self._named(part)
        rows = self.row_range(*self.user_range(rank, ranks), name)
        indptr = np.clip(self._indptr(name), *rows) - rows[0]
        return self._log(name, indptr, rows, self.user_ids)

    def users_between(self, first: int, last: int, part: str | None = None) -> Interactions:
        """The users from ``first`` to before ``last`` alone, numbered from 0, on the item ids of the whole."""
        name = self._named(part)
        rows = self.row_range(first, last, name)
        indptr = self._indptr(name)[first : last + 1] - rows[0]
        return self._log(name, indptr, rows, self._side("users").between(first, last))

    def _log(
        self, part: str, indptr: Indptr, rows: RowRange, user_ids: Ids, own: RowRange | None = None
    ) -> Interactions:
        def mapped(name: str) -> NDArray[Any]:
            array = self._array(part, name)
            array.between(*(own or rows))
            return array.values[slice(*rows)]

        contents, given = self._contents, self._contents.parts[part].arrays
        times, weights = (mapped(name) if name in given else None for name in _OPTIONAL)
        return Interactions(
            indptr, mapped("items"), times, user_ids, self.item_ids, contents.repeats, contents.skipped, weights
        ).with_known(sorted_items=mapped("sorted_items"))

    def _indptr(self, part: str) -> Indptr:
        array = self._array(part, "indptr")
        is_new = not array.is_verified
        indptr: Indptr = array.whole()
        rows = self._contents.parts[part].rows
        if is_new and (indptr[0] != 0 or indptr[-1] != rows or (indptr[1:] < indptr[:-1]).any()):
            raise StorageError(f"{printable(array.path)}: holds no rows of users; prepare the log again.")
        return indptr

    def _array(self, part: str, name: str) -> MappedArray:
        key = f"{part}.{name}"
        if key not in self._arrays:
            entry = self._contents.parts[part].arrays[name]
            self._arrays[key] = MappedArray(self._data / f"{key}.npy", entry, self._check_of(part, name))
        return self._arrays[key]

    def _check_of(self, part: str, name: str) -> PieceCheck | None:
        """What is relied on in an array; its digest only shows that nobody changed it."""
        return None if name == "indptr" else piece_check(name, self._indptr(part), self.n_items)

    def _side(self, side: str) -> MappedIds:
        return MappedIds(self._data, side, self._contents.ids[side])

    @property
    def _data(self) -> Path:
        return self.folder / self._contents.data

    def _named(self, part: str | None) -> str:
        if part is None:
            return self.parts[0]
        if part not in self.parts:
            raise SettingError(f"{printable(self.folder)} has no part {part!r}; it has {listed(self.parts)}.")
        return part
