"""What the benchmarks share: the machine's name, logs, tuned settings, saved numbers, a venv for the peers."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numpy as np

import vitalrank as vr
from vitalrank.paper.methods import METHODS
from vitalrank.samplers import Sampler

HERE = Path(__file__).parent
STUDY = HERE.parent / "docs" / "paper" / "table2.json"
CORE = {"steam": 5, "amazon-games": 5, "lastfm": 5}  # least rows of a user and of an item; else 10
YELP = {"users": 113_917, "items": 93_850, "positives": 3_181_432}


def machine() -> dict[str, Any]:
    """Where and with what the numbers were made."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.split(":")[1].strip() for line in lines if "model name" in line]
    return {
        "cpu": names[0] if names else platform.processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
        "vitalrank": vr.__version__,
    }


def save(name: str, result: dict[str, Any]) -> None:
    """Keep the numbers beside the script, with the machine and the date."""
    text = json.dumps({"machine": machine(), "date": time.strftime("%Y-%m-%d"), **result}, indent=1)
    (HERE / f"{name}.json").write_text(text + "\n")


def peak_above(action: Callable[[], Any]) -> tuple[int, float, Any]:
    """How many bytes an action takes at its peak, its seconds, its result."""
    ctypes.CDLL(None).malloc_trim(0)  # what was freed before may not be taken again unseen
    Path("/proc/self/clear_refs").write_text("5")  # the highest mark starts again
    before, began = _resident("VmRSS"), time.perf_counter()
    result = action()
    return _resident("VmHWM") - before, time.perf_counter() - began, result


def _resident(field: str) -> int:
    """Bytes of memory now (VmRSS) or at the highest since the mark was reset (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def yelp_like(users: int = 113_917, items: int = 93_850, positives: int = 3_181_432, seed: int = 0) -> vr.Interactions:
    """A log of that size with long-tailed users and items; every user and item occurs."""
    rng = np.random.default_rng(seed)
    weight = (np.arange(users) + 20.0) ** -0.6
    user = rng.choice(users, positives, p=weight / weight.sum())
    weight = (np.arange(items) + 30.0) ** -0.8
    item = rng.permutation(items)[rng.choice(items, positives, p=weight / weight.sum())]
    user[:users], item[-items:] = np.arange(users), np.arange(items)
    return vr.Interactions.from_arrays(user, item)


@cache
def parts(folder: str | Path, name: str) -> tuple[vr.Interactions, ...]:
    """Train, valid and test of a real log: k-core on both sides, each user's last 20 %, the last 10 % of the rest."""
    core = CORE.get(name, 10)
    return vr.read(Path(folder) / f"{name}.tsv.gz").k_core(core, core).split_last(0.2, valid=0.1)


@cache
def study() -> dict[str, Any]:
    """Table 2 of ``docs/paper``, with the settings found for every method."""
    found: dict[str, Any] = json.loads(STUDY.read_text(encoding="utf-8"))
    return found


def tuned(log: str, method: str) -> tuple[Sampler, dict[str, float]]:
    """A sampler and its steps as the study found them on a log."""
    found = dict(study()["logs"][log]["rows"][method]["settings"])
    steps = {name: found.pop(name) for name in ("reg", "lr")}
    return replace(METHODS[method].sampler, **found), steps


def peers_python(packages: list[str], name: str = ".") -> str | None:
    """The interpreter of a venv that holds the peers, made on first use; None if they cannot be installed.

    A peer that needs old versions of what the others use has a venv of its own name.
    """
    folder = HERE / ".peers" / name
    python, stamp = folder / "bin" / "python", folder / "installed.json"
    installed = json.loads(stamp.read_text()) if stamp.exists() else []
    if set(packages) <= set(installed):
        return str(python)
    try:
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages]
        subprocess.run(install, check=True, capture_output=True)
        stamp.write_text(json.dumps([*installed, *packages]))
    except (OSError, subprocess.CalledProcessError):
        return None
    return str(python)
