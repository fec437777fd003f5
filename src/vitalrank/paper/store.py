"""Finished jobs, each in a file of its own, so that a study that was stopped goes on."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from vitalrank._util.files import write_text
from vitalrank.comparing.outcomes import Outcome, read_outcome
from vitalrank.errors import StorageError
from vitalrank.paper.jobs import KINDS, Result, StudyJob, outcome_file


@dataclass
class Store:
    """The folder of a study's jobs, and how long one of its runs may take."""

    folder: Path
    limit: float | None = None  # seconds
    _known: dict[str, Result] = field(default_factory=dict)

    def __contains__(self, job: StudyJob) -> bool:
        return self.read(job) is not None

    def read(self, job: StudyJob) -> Result | None:
        """The result of a job, or None if it is not finished: also if it was cut and would now run longer."""
        result = self._known.get(job.key)
        if result is None:
            result = self._read(job)
        if result is None or _would_run_longer(result, self.limit):
            return None
        is_whole = "error" in result or not KINDS[job.kind].has_outcome or outcome_file(self.folder, job).is_file()
        return result if is_whole else None

    def write(self, job: StudyJob, result: Result) -> None:
        """Write a result atomically."""
        write_text(self._place(job), json.dumps({"unit": job.described(), "result": result}))
        self._known[job.key] = result

    def outcome(self, job: StudyJob) -> Outcome | None:
        """What a finished job scored on test, user by user; None if it did not get that far."""
        result = self.read(job)
        return None if result is None else read_outcome(outcome_file(self.folder, job), {"seed": job.seed})

    def _read(self, job: StudyJob) -> Result | None:
        place = self._place(job)
        if not place.is_file():
            return None
        try:
            self._known[job.key] = _checked(json.loads(place.read_text(encoding="utf-8")), KINDS[job.kind].required)
        except (OSError, ValueError) as error:
            raise StorageError(f"{place}: not a whole result ({error}); remove it to run it again.") from error
        return self._known[job.key]

    def _place(self, job: StudyJob) -> Path:
        return self.folder / f"{job.key}.json"


def _checked(found: object, required: str) -> Result:
    """The result in a job's file, which may be anything."""
    result = found.get("result") if isinstance(found, dict) else None
    if not isinstance(result, dict):
        raise ValueError("it has no result")
    wanted = "value" if "error" in result else required
    if wanted not in result:
        raise ValueError(f"its result has no {wanted}")
    return result


def _would_run_longer(result: Result, limit: float | None) -> bool:
    """Whether a run was cut short and would now have more time; older results do not record their limit."""
    if not result.get("cut") or limit is None:
        return bool(result.get("cut"))
    return bool(result.get("limit", limit) < limit)
