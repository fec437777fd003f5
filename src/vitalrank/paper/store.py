"""Finished units, each in a file of its own, so that a study that was stopped goes on."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from vitalrank._util.files import write_text
from vitalrank.comparing.outcomes import Outcome, read_outcome
from vitalrank.errors import StorageError
from vitalrank.paper.units import KINDS, Result, Unit, outcome_file


@dataclass
class Store:
    """The folder of a study's units, and how long one of its runs may take."""

    folder: Path
    limit: float | None = None  # seconds
    _known: dict[str, Result] = field(default_factory=dict)

    def __contains__(self, unit: Unit) -> bool:
        return self.read(unit) is not None

    def read(self, unit: Unit) -> Result | None:
        """The result of a unit, or None if it is not finished: also if it was cut and would now run longer."""
        result = self._known.get(unit.key)
        if result is None:
            result = self._read(unit)
        if result is None or _would_run_longer(result, self.limit):
            return None
        is_whole = "error" in result or not KINDS[unit.kind].has_outcome or outcome_file(self.folder, unit).is_file()
        return result if is_whole else None

    def write(self, unit: Unit, result: Result) -> None:
        """Keep a result; it appears whole or not at all."""
        write_text(self._place(unit), json.dumps({"unit": unit.described(), "result": result}))
        self._known[unit.key] = result

    def outcome(self, unit: Unit) -> Outcome | None:
        """What a finished unit scored on test, user by user; None if it did not come so far."""
        result = self.read(unit)
        return None if result is None else read_outcome(outcome_file(self.folder, unit), {"seed": unit.seed})

    def _read(self, unit: Unit) -> Result | None:
        place = self._place(unit)
        if not place.is_file():
            return None
        try:
            self._known[unit.key] = _checked(json.loads(place.read_text(encoding="utf-8")), KINDS[unit.kind].told)
        except (OSError, ValueError) as error:
            raise StorageError(f"{place}: not a whole result ({error}); remove it to run it again.") from error
        return self._known[unit.key]

    def _place(self, unit: Unit) -> Path:
        return self.folder / f"{unit.key}.json"


def _checked(found: object, told: str) -> Result:
    """The result in a unit's file, which may be anything."""
    result = found.get("result") if isinstance(found, dict) else None
    if not isinstance(result, dict):
        raise ValueError("it has no result")
    wanted = "value" if "error" in result else told
    if wanted not in result:
        raise ValueError(f"its result has no {wanted}")
    return result


def _would_run_longer(result: Result, limit: float | None) -> bool:
    """Whether a run was cut that would now have more time; older ones do not know their limit."""
    if not result.get("cut") or limit is None:
        return bool(result.get("cut"))
    return bool(result.get("limit", limit) < limit)
