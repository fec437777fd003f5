"""The parts that each block of users is split into: by each user's last rows, or at one time for all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.checks import check_choice
from vitalrank.errors import DataError, SettingError
from vitalrank.interactions import Interactions
from vitalrank.interactions.cutoffs import Time, to_cutoff
from vitalrank.interactions.splits import check_share
from vitalrank.prepared.layout import PARTS, WHOLE
from vitalrank.preparing.cutting import Read, cutoff_on_disk

Parts = dict[str, Interactions]
SPLITS = ("last", "loo", "time")


@dataclass(frozen=True)
class SplitSettings:
    """What is held out: shares as for `Interactions.split_last` and `Interactions.split_time`.

    Examples
    --------
    >>> SplitSettings(test=0.2, valid=0.1).names
    ('train', 'valid', 'test')
    """

    kind: str = "last"
    test: float = 0.0
    valid: float = 0.0
    cutoff: Time | None = None

    def __post_init__(self) -> None:
        check_choice("split", self.kind, SPLITS)
        check_share("prepare_log(test", self.test)
        check_share("prepare_log(valid", self.valid)
        if self.cutoff is not None and (self.kind != "time" or self.test):
            raise SettingError("cutoff= says what split='time' holds out for testing; leave out test.")
        if self.kind == "loo" and self.test:
            raise SettingError("split='loo' holds out one row of each user for testing; leave out test.")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parts."""
        has_test = bool(self.test) or self.kind == "loo" or self.cutoff is not None
        wanted = {"train": True, "valid": bool(self.valid), "test": has_test}
        return tuple(name for name in PARTS if wanted.get(name)) if has_test or self.valid else (WHOLE,)

    @property
    def reads_times(self) -> bool:
        """Whether the times of all rows must be known before the first block is split."""
        return self.kind == "time" and self.names != (WHOLE,)

    def splitter(self, read: Read | None) -> Callable[[Interactions], Parts]:
        """Splits a block; ``read`` gives the times of all rows, if they are needed."""
        if self.names == (WHOLE,):
            return lambda log: {WHOLE: log}
        if self.kind == "loo":
            return lambda log: self._named(log.split_last(count=1, valid=int(self.valid > 0)))
        if self.kind == "last":
            return lambda log: self._named(log.split_last(self.test, valid=self.valid))
        assert read is not None
        return self._at_times(read)

    def _named(self, parts: tuple[Interactions, ...]) -> Parts:
        every = dict(zip(("train", "valid", "test"), parts, strict=True))
        return {name: every[name] for name in self.names}

    def _at_times(self, read: Read) -> Callable[[Interactions], Parts]:
        at: Any = np.inf
        if self.cutoff is not None:
            ends = [bound for times in read() if len(times) for bound in (times.min(), times.max())]
            if not ends:
                raise DataError("split='time' needs times and this log has none; name its column, or split='last'.")
            at = to_cutoff(self.cutoff, np.array([min(ends), max(ends)]), "cutoff")
        elif self.test:
            at = cutoff_on_disk(read, self.test, "share")
        before = at
        if self.valid:
            before = cutoff_on_disk(lambda: (times[times < at] for times in read()), self.valid, "valid")

        def split(log: Interactions) -> Parts:
            times: NDArray[Any] = log._known_times("split='time'")
            masks = times < min(at, before), (times < at) & (times >= before), times >= at
            return self._named(tuple(log._rows(mask) for mask in masks))

        return split
