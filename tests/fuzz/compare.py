"""Folders of comparisons by a stranger, digests recomputed: continued with tables and a page, or refused."""

from __future__ import annotations

import json
import shutil
import tempfile
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file
from tests.fuzz import _mutations as mutations

import vitalrank as vr
from vitalrank import comparing
from vitalrank.comparing.outcomes import PER_USER, _digest, values_file
from vitalrank.report import make_page


@cache
def log() -> Any:
    return vr.datasets.synthetic(users=30, items=25, interactions=300, seed=0)


def compare(folder: Path) -> comparing.Results:
    config = vr.TrainConfig(epochs=2, threads=1)
    return vr.compare(log(), ["uni", "vins"], seeds=2, baselines=["mostpopular"], config=config, out=folder)


@cache
def saved() -> Path:
    folder = Path(tempfile.mkdtemp()) / "comparison"
    compare(folder)
    return folder


def case(rng: Random) -> None:
    with tempfile.TemporaryDirectory(prefix="vitalrank-fuzz-") as place:
        folder = Path(place) / "comparison"
        shutil.copytree(saved(), folder)
        (folder / "notes.txt").write_text("mine")
        if rng.random() < 0.2:
            plan = folder / "comparison.json"
            plan.write_text(json.dumps(mutations.mutate_json(rng, json.loads(plan.read_text()))))
        else:
            mutate(rng, rng.choice(sorted((folder / "runs").glob("*.json"))))
        try:
            results = compare(folder)
            comparing.write_tables(results, folder)
            (folder / "report.html").write_text(make_page(results), encoding="utf-8")
        finally:
            assert (folder / "notes.txt").read_text() == "mine"


def mutate(rng: Random, result: Path) -> None:
    """Change an outcome or its values per user, most often with a digest that matches."""
    whole = json.loads(result.read_text())
    values = load_file(values_file(result))
    choice = rng.random()
    if choice < 0.6:
        whole["outcome"] = mutations.mutate_json(rng, whole["outcome"])
    elif choice < 0.9:
        values[PER_USER] = array_like(rng, values[PER_USER])
        save_file(values, values_file(result))
    elif choice < 0.95:
        whole = mutations.mutate_json(rng, whole)
    else:
        mutations.mutate_bytes(rng, rng.choice([result, values_file(result)]))
        return
    if isinstance(whole, dict) and "digest" in whole and rng.random() < 0.95:
        whole["digest"] = _digest(whole.get("outcome"), values[PER_USER])
    result.write_text(json.dumps(whole))


def array_like(rng: Random, array: Any) -> Any:
    array = array.copy()
    if rng.random() < 0.5:
        array[rng.randrange(len(array))] = rng.choice([float("nan"), float("inf"), -1.0, 1e308, 2.0])
        return array
    return rng.choice([array[:-1], array.reshape(-1, 1).copy(), array.astype(np.int32), array[:0], np.zeros(())])
