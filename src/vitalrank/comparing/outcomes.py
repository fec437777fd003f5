"""One finished run: what it scored and what it did, in memory and on disk."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file

from vitalrank._util.files import atomic_write, write_text
from vitalrank.checkpoint import write_tensors
from vitalrank.errors import SettingError, StorageError
from vitalrank.history import Record

PER_USER = "per_user"


@dataclass(frozen=True)
class Outcome:
    """What one model, trained with one sampler and one seed, came to."""

    label: str
    model: str  # as its repr says
    sampler: str | None  # as its repr says; None for a model without one
    seed: int
    metrics: dict[str, float]  # on the test part
    bands: dict[str, float]  # what hits on head, middle and tail items add to the metric that ranks
    records: list[Record]  # the history
    best_epoch: int | None
    seconds: float  # of training
    inspection: dict[str, Any]  # see vitalrank.analysis.Inspection
    picture: dict[str, Any] | None = None  # see vitalrank.analysis.Picture
    per_user: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))  # the metric that ranks, by test user

    @property
    def tries(self) -> float | None:
        """Mean draws per positive over all epochs."""
        tries = [record["tries"] for record in self.records if record.get("tries") is not None]
        return float(np.mean(tries)) if tries else None

    @property
    def identity(self) -> dict[str, Any]:
        """What must be the same for a finished run to stand for a planned one."""
        return {"model": self.model, "sampler": self.sampler, "seed": self.seed}


def result_file(folder: Path) -> Path:
    """The result of the run that is trained in ``folder``."""
    return folder.with_name(folder.name + ".json")


def values_file(result: Path) -> Path:
    """The values per user beside a result."""
    return result.with_suffix(".safetensors")


def write_outcome(outcome: Outcome, path: Path) -> None:
    """Write an outcome as ``path`` (JSON) with the per-user values beside it; the JSON comes last, whole or not."""
    plain = {name: value for name, value in asdict(outcome).items() if name != PER_USER}
    values = values_file(path)
    try:
        with atomic_write(values) as draft:
            write_tensors({PER_USER: outcome.per_user}, draft)
    except SafetensorError as error:  # what the disk said, in its words
        raise StorageError(f"{values}: cannot be written ({error}); free space or choose another folder.") from error
    write_text(path, json.dumps(plain))


def read_outcome(path: Path, expected: dict[str, Any]) -> Outcome | None:
    """The outcome at ``path``, or None if there is none yet; another one than expected is an error."""
    if not path.is_file():
        return None
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
        outcome = Outcome(**plain, per_user=load_file(values_file(path))[PER_USER])
    except PermissionError as error:
        raise StorageError(f"{path}: you may not read this result; ask its owner, or change its mode.") from error
    except (OSError, ValueError, TypeError, KeyError, SafetensorError) as error:
        raise StorageError(f"{path}: not a whole result ({error}); remove it to run it again.") from error
    for name, value in expected.items():
        if outcome.identity[name] != value:
            raise SettingError(
                f"{path}: is of {name} {outcome.identity[name]}, not {value}; choose another folder or remove it."
            )
    return outcome
