"""Finished units, each in a file of its own, so that a study that was stopped goes on."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from vitalrank.comparing.outcomes import Outcome, read_outcome, write_text
from vitalrank.errors import StorageError
from vitalrank.paper.units import Result, Unit


@dataclass
class Store:
    """The folder of a study's units."""

    folder: Path
    _known: dict[str, Result] = field(default_factory=dict)

    def __contains__(self, unit: Unit) -> bool:
        return unit.key in self._known or self._place(unit).is_file()

    def read(self, unit: Unit) -> Result | None:
        """The result of a unit, or None if it is not finished."""
        if unit.key not in self._known:
            place = self._place(unit)
            if not place.is_file():
                return None
            try:
                self._known[unit.key] = json.loads(place.read_text(encoding="utf-8"))["result"]
            except (OSError, ValueError, KeyError) as error:
                raise StorageError(f"{place}: not a whole result ({error}); remove it to run it again.") from error
        return self._known[unit.key]

    def write(self, unit: Unit, result: Result) -> None:
        """Keep a result; it appears whole or not at all."""
        write_text(self._place(unit), json.dumps({"unit": unit.described(), "result": result}))
        self._known[unit.key] = result

    def outcome(self, unit: Unit) -> Outcome | None:
        """What a finished unit scored on test, user by user; None if it did not come so far."""
        result = self.read(unit)
        return None if result is None else read_outcome(self.folder / f"{unit.key}.outcome.json", {"seed": unit.seed})

    def _place(self, unit: Unit) -> Path:
        return self.folder / f"{unit.key}.json"
