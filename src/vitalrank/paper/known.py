"""Settings that an earlier study found: with them its runs are repeated without its search."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from vitalrank.errors import SettingError, StorageError
from vitalrank.paper.methods import METHODS
from vitalrank.tuning.results import Settings

KnownSettings = Mapping[tuple[str, str], Settings]  # by log and method


def read_known(path: Path, names: Collection[str] = tuple(METHODS)) -> KnownSettings:
    """The settings in the data of Table 2 of a study.

    Parameters
    ----------
    path
        A ``table2.json``, as ``vitalrank paper table2`` writes it.
    names
        The methods whose settings are wanted; the others need not be at hand.

    Raises
    ------
    StorageError
        If it is not such a file, or its methods had other settings than those of this version.
    """
    try:
        logs = json.loads(path.read_text(encoding="utf-8"))["logs"]
        rows = {(log, name): row for log, found in logs.items() for name, row in found["rows"].items()}
        found = {place: row["settings"] for place, row in rows.items() if row["settings"] is not None}
        wanted = {*names, *(name for _, name in found if name not in METHODS)}  # the latter are refused
        return {(log, name): _settings(name, values) for (log, name), values in found.items() if name in wanted}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        why = f"{type(error).__name__}: {error}"
        raise StorageError(f"{path}: not the table2.json of a study of this version ({why}).") from error


def known_for(path: Path, logs: Collection[str], names: Collection[str]) -> KnownSettings:
    """Those of the settings in ``path`` that are of these logs and methods.

    Raises
    ------
    SettingError
        If there are none: the study would search all of them, and say that it did not.
    """
    found = read_known(path, names)
    known = {place: settings for place, settings in found.items() if place[0] in logs}
    if not known:
        there = ", ".join(dict.fromkeys(log for log, _ in found)) or "no log"
        raise SettingError(
            f"--tuned {path}: it has settings of these methods for {there}, not for {', '.join(logs)}; "
            "name the log's file as it was named there, or leave --tuned out."
        )
    return known


def _settings(name: str, values: Mapping[str, Any]) -> Settings:
    """What a method searches, by where it belongs; no more and no less."""
    plan = METHODS[name].plan
    if values.keys() != plan.space.keys():
        raise ValueError(f"{name} has {', '.join(sorted(values))} and not {', '.join(sorted(plan.space))}")
    return plan.settings(values)
