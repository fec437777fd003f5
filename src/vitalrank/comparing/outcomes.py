"""The outcome of one run: its scores and its history, in memory and on disk."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file

from vitalrank._util.files import atomic_write, write_text
from vitalrank.checkpoint import write_tensors
from vitalrank.comparing.schema import check_outcome
from vitalrank.config import saved_setting
from vitalrank.errors import SettingError, StorageError
from vitalrank.history import Record

PER_USER = "per_user"
_FORMAT = 1  # of a file with a digest; version 0.1 wrote the outcome alone


@dataclass(frozen=True)
class Outcome:
    """The outcome of one model trained with one sampler and one seed."""

    label: str
    model: str  # its repr
    sampler: str | None  # its repr; None for a model without one
    seed: int
    metrics: dict[str, float]  # on the test set
    bands: dict[str, float]  # what hits on head, middle and tail items add to the metric that ranks
    records: list[Record]  # the history
    best_epoch: int | None
    seconds: float  # of training
    inspection: dict[str, Any]  # see vitalrank.analysis.Inspection
    projection: dict[str, Any] | None = None  # see vitalrank.analysis.Projection
    per_user: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))  # the metric that ranks, by test user
    training: dict[str, Any] | None = None  # settings; None without steps, or in a folder of version 0.1

    @property
    def tries(self) -> float | None:
        """Mean draws per positive over all epochs."""
        tries = [record["tries"] for record in self.records if record.get("tries") is not None]
        return float(np.mean(tries)) if tries else None

    @property
    def identity(self) -> dict[str, Any]:
        """What must be the same for a finished run to stand for a planned one."""
        return {"model": self.model, "sampler": self.sampler, "seed": self.seed, "training": self.training}


def result_file(folder: Path) -> Path:
    """The result of the run that is trained in ``folder``."""
    return folder.with_name(folder.name + ".json")


def values_file(result: Path) -> Path:
    """The values per user beside a result."""
    return result.with_suffix(".safetensors")


def write_outcome(outcome: Outcome, path: Path) -> None:
    """Write an outcome as ``path`` (JSON) with the per-user values beside it; the JSON comes last, whole or not."""
    plain = json.loads(json.dumps({name: value for name, value in asdict(outcome).items() if name != PER_USER}))
    values = values_file(path)
    try:
        with atomic_write(values) as temporary:
            write_tensors({PER_USER: outcome.per_user}, temporary)
    except SafetensorError as error:  # what the disk said, in its words
        raise StorageError(f"{values}: cannot be written ({error}); free space or choose another folder.") from error
    digest = _digest(plain, outcome.per_user)
    write_text(path, json.dumps({"format": _FORMAT, "digest": digest, "outcome": plain}))


def read_outcome(path: Path, expected: Mapping[str, Any]) -> Outcome | None:
    """The outcome at ``path``, or None if there is none yet; another one than expected is an error."""
    if not path.is_file():
        return None
    outcome = _read(path)
    for name, value in expected.items():
        found = outcome.identity[name]
        if name == "training" and found is not None and value is not None:
            found = {setting: saved_setting(found, setting) for setting in {**value, **found}}
        if found != value and (name != "training" or found is not None):
            raise SettingError(f"{path}: has {name} {found}, not {value}; choose another folder or remove it.")
    return outcome


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; whatever is wrong with it is one sentence.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.json"
    >>> _ = path.write_text("[" * 100_000)
    >>> read_json(path)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    vitalrank.errors.StorageError: ...a.json: cannot be read as JSON (nested too deeply); remove it or choose ...
    """
    advice = "remove it or choose another folder."
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except PermissionError as error:
        raise StorageError(f"{path}: you may not read this file; ask its owner, or change its mode.") from error
    except RecursionError as error:
        raise StorageError(f"{path}: cannot be read as JSON (nested too deeply); {advice}") from error
    except (OSError, ValueError) as error:
        raise StorageError(f"{path}: cannot be read as JSON ({error}); {advice}") from error
    if not isinstance(found, dict):
        raise StorageError(f"{path}: holds no JSON object; {advice}")
    return found


def _read(path: Path) -> Outcome:
    found = read_json(path)
    plain, digest = found.get("outcome", found), found.get("digest")
    try:
        if "format" in found and found["format"] != _FORMAT:
            raise ValueError(f"its format is {found['format']!r}, this version reads {_FORMAT}")
        if "picture" in plain:  # version 0.1
            plain["projection"] = plain.pop("picture")
        per_user = load_file(values_file(path))[PER_USER]
        check_outcome(plain, per_user)
        if digest is not None and digest != _digest(plain, per_user):
            raise ValueError("changed since it was written")
        return Outcome(**plain, per_user=per_user.astype(np.float64, copy=False))  # studies keep float32
    except (OSError, ValueError, TypeError, KeyError, AttributeError, SafetensorError) as error:
        raise StorageError(f"{path}: not a whole result ({error}); remove it to run it again.") from error


def _digest(plain: Mapping[str, Any], per_user: NDArray[np.float64]) -> str:
    text = json.dumps(plain, sort_keys=True).encode()
    return hashlib.sha256(text + str(per_user.dtype).encode() + per_user.tobytes()).hexdigest()
