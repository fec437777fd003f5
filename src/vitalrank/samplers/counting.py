"""Counts for the analysis of class imbalance: how often each item stood on either side."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.typing import Array, DeviceArray
from vitalrank.samplers.backends import ArrayBackend
from vitalrank.samplers.draws import Draw

if TYPE_CHECKING:
    from vitalrank.samplers.cuda_backend import DeviceCounts

_NUMBERS = ("rows", "tries", "tries_squared", "exhausted", "skipped")


@dataclass
class Counts:
    """What a bound sampler has handed out since it was made or cleared.

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.Interactions.from_arrays([0, 0, 1], [0, 1, 2])
    >>> sampler = vr.Uniform().bind(log, seed=0, count=True)
    >>> draw = sampler(users=[0, 1], positives=[0, 2], step=0)
    >>> sampler.counts.rows, int(sampler.counts.negative.sum())
    (2, 2)
    """

    items: int
    positive: NDArray[np.int64] = field(init=False)  # (n,)
    negative: NDArray[np.int64] = field(init=False)  # (n,)
    rows: int = field(init=False)
    tries: int = field(init=False)
    tries_squared: int = field(init=False)
    exhausted: int = field(init=False)
    skipped: int = field(init=False)

    def __post_init__(self) -> None:
        self._waiting: dict[str, DeviceCounts] = {}  # by device: what is counted there and not gathered yet
        self.clear()

    def clear(self) -> None:
        """Start again, for the next epoch."""
        self.positive = np.zeros(self.items, np.int64)
        self.negative = np.zeros(self.items, np.int64)
        self.rows = self.tries = self.tries_squared = self.exhausted = self.skipped = 0

    def on(self, backend: ArrayBackend) -> Counts | DeviceCounts:
        """Where to count draws that lie in these arrays; what is counted on a GPU shows after ``gather``."""
        if backend.xp is np:
            return self
        if backend.device not in self._waiting:
            from vitalrank.samplers.cuda_backend import DeviceCounts

            self._waiting[backend.device] = DeviceCounts(self.items, backend.device)
        return self._waiting[backend.device]

    def sums(self) -> dict[str, Any]:
        """A copy of all counts by name."""
        names = ("positive", "negative", *_NUMBERS)
        return {name: np.array(getattr(self, name)) for name in names}

    def set_sum(self, name: str, value: Array) -> None:
        """Replace one of them."""
        setattr(self, name, int(value) if name in _NUMBERS else value)

    def gather(self) -> None:
        """Take in what was counted on other devices."""
        for tally in self._waiting.values():
            positive, negative, sums = tally.drain()
            self.positive += positive
            self.negative += negative
            for name, value in sums.items():
                setattr(self, name, getattr(self, name) + value)

    def add(self, positives: DeviceArray, draw: Draw) -> None:
        """Take in one draw."""
        drawn = draw.ids[draw.ids >= 0]
        open_rows = draw.ids[:, 0] >= 0 if draw.ids.shape[1] else np.zeros(len(positives), bool)
        np.add.at(self.positive, positives[open_rows], 1)
        np.add.at(self.negative, drawn, 1)
        self.rows += len(positives)
        self.skipped += int(len(positives) - open_rows.sum())
        tries = draw.tries.astype(np.int64)
        self.tries += int(tries.sum())
        self.tries_squared += int(tries @ tries)
        if draw.violated is not None:
            self.exhausted += int((open_rows & ~draw.violated).sum())

    @property
    def exhausted_share(self) -> float:
        """Share of the positives for which a search for a negative found nothing that violates."""
        return self.exhausted / max(self.rows - self.skipped, 1)

    @property
    def tries_deviation(self) -> float:
        """Standard deviation of the tries over the positives that had something to draw."""
        rows = max(self.rows - self.skipped, 1)
        return float(np.sqrt(max(self.tries_squared / rows - (self.tries / rows) ** 2, 0.0)))

    def imbalance(self) -> NDArray[np.float64]:
        """``IV(i)``: times as positive over times as negative; infinite if never a negative, NaN if neither."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.positive / self.negative
