"""Run folders of a stranger: resumed, or refused in one sentence."""

from __future__ import annotations

import shutil
import tempfile
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz import _mutations as mutations

import vitalrank as vr

MODELS = ("MF", "FPMC", "LightGCN", "SASRec")


@cache
def log() -> Any:
    return vr.datasets.synthetic(users=30, items=25, interactions=300, seed=0).split_last(0.2)


def fit(name: str, folder: Path, epochs: int) -> None:
    train, valid = log()
    model = getattr(vr, name)(dim=4)
    options: Any = {"checkpoint": folder, "resume": True, "seed": 0, "valid_every": 2, "progress": False}
    model.fit(train, vr.Uniform(), valid=valid, epochs=epochs, **options)
    model.recommend(train.user_ids[0])


@cache
def saved(name: str) -> Path:
    folder = Path(tempfile.mkdtemp()) / name
    fit(name, folder, 3)
    return folder


def case(rng: Random) -> None:
    name = rng.choice(MODELS)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        shutil.copytree(saved(name), folder)
        meta = mutations.read_meta(folder)
        if rng.random() < 0.5:
            part = rng.choice(["training", "training", "training", "record"])
            meta[part] = mutations.mutate_json(rng, meta[part])
        else:
            mutations.mutate_tensors(rng, folder, "training.")
        mutations.match_digests(folder, meta)
        fit(name, folder, 4)
