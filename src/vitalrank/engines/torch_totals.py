"""The totals of the torch engine: summed on the device, read now and then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from vitalrank.engines.base import Totals
from vitalrank.history import Record


@dataclass
class TorchTotals(Totals):
    """Totals of an epoch, with the positives without a history, where a network reads histories."""

    without_history: int | None = None
    are_left_out: bool = False  # they are counted in ``skipped`` then

    def add(self, sums: Mapping[str, float]) -> None:
        """Add sums by their names."""
        for name, value in sums.items():
            kind = float if name.endswith("loss") else int
            setattr(self, name, (getattr(self, name) or 0) + kind(value))

    def means(self) -> Record:
        record = super().means()
        if self.without_history is not None:
            record["skipped"] -= self.without_history if self.are_left_out else 0
            record["without_history"] = self.without_history
        return record


class DeviceTotals:
    """Running sums that stay on the device until they are asked for.

    Examples
    --------
    >>> running, totals = DeviceTotals(torch.device("cpu")), TorchTotals()
    >>> for loss in (1.0, 2.0):
    ...     running.add({"loss": torch.tensor(loss), "tries": torch.tensor(3)})
    >>> totals.add(running.take())
    >>> totals.loss, totals.tries
    (3.0, 6)
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._names: tuple[str, ...] = ()
        self._values = torch.zeros(0, dtype=torch.float64, device=device)

    def add(self, parts: Mapping[str, Tensor]) -> None:
        """Add one number to each sum; the names are the same each time."""
        if not self._names:
            self._names, self._values = tuple(parts), self._values.new_zeros(len(parts))
        self._values += torch.stack([parts[name].double() for name in self._names])

    def take(self) -> dict[str, float]:
        """The sums, which are reset to 0."""
        taken = dict(zip(self._names, self._values.tolist(), strict=True))
        self._values.zero_()
        return taken
