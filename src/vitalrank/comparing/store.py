"""The folder of a comparison: what it compares, and the runs that are finished."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vitalrank._util.files import write_text
from vitalrank.checkpoint import foreign_files
from vitalrank.comparing.outcomes import read_json, result_file, values_file
from vitalrank.comparing.planning import Method, slug
from vitalrank.config import saved_setting
from vitalrank.errors import SettingError, StorageError

PLAN = "comparison.json"
_IDENTITY = ("log", "split", "training", "own_training", "tuning")


@dataclass(frozen=True)
class ComparisonFolder:
    """Where finished runs are kept."""

    path: Path
    keep_models: bool

    @property
    def study(self) -> Path:
        """The studies of tuning."""
        return self.path / "tuning.db"

    def open(self, metadata: Mapping[str, Any], plan: Iterable[tuple[Method, int]]) -> None:
        """Start the folder, or make sure that it is of the same comparison; files of others are refused."""
        file = self.path / PLAN
        is_new = not file.exists()
        for method, seed in plan:
            _check_free(self.folder(method, seed), is_new)
        identity = {name: metadata[name] for name in _IDENTITY}
        if is_new:
            write_text(file, json.dumps(identity, indent=2))
            return
        found = read_json(file)
        for part, values in identity.items():
            there = found.get(part, {})
            if not isinstance(there, dict):
                raise StorageError(f"{file}: its {part} is no JSON object; choose another folder.")
            for name, value in values.items():
                known = saved_setting(there, name) if part == "training" else there.get(name)
                if known != value and not (part == "tuning" and part not in found and not value):
                    raise SettingError(
                        f"{self.path}: holds a comparison with {name} {known}, not {value}; "
                        "choose another folder, or ask for the same to resume it."
                    )

    def folder(self, method: Method, seed: int) -> Path:
        """Where a run is trained, and its model kept on request; its result lies beside it."""
        return self.path / "runs" / f"{slug(method.label)}-seed{seed}"


def is_comparison(folder: Path) -> bool:
    """Whether the folder is that of a comparison: one of ours says what it compares."""
    try:
        found = read_json(folder / PLAN)
    except StorageError:
        return False
    return {"log", "split", "training"} <= found.keys()


def _check_free(folder: Path, is_new: bool) -> None:
    """Refuse a run's place that holds files of others: a new comparison begins with nothing there."""
    result = result_file(folder)
    if result.exists() and not is_new:
        return  # finished: its folder is not touched
    found = [path for path in (result, values_file(result), folder) if path.exists()]
    if is_new and found and (found[0] != folder or any(folder.iterdir())):
        raise StorageError(f"{found[0]}: exists, but belongs to no comparison; choose another folder.")
    foreign = foreign_files(folder)
    if foreign:
        raise StorageError(f"{folder / foreign[0]}: is not part of a run; move it or choose another folder.")
