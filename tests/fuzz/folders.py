"""Model folders of a stranger: loaded, asked for everything that is served, or refused in one sentence."""

from __future__ import annotations

import shutil
import tempfile
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
from tests.fuzz import _mutations as mutations

import vitalrank as vr

MODELS = ("MF", "ALS", "EASE", "sparse EASE", "ItemKNN", "MostPopular", "FPMC", "LightGCN", "SASRec")


@cache
def saved(name: str) -> Path:
    """A folder with a small fitted model, and what was held out of its log."""
    log = vr.datasets.synthetic(users=30, items=25, interactions=300, seed=0)
    users = [f"u{user}" for user in log.user_ids[log.users]]
    log = vr.Interactions.from_arrays(users, log.item_ids[log.items], log.times)
    train, test = log.split_last(0.2)
    model = {
        "MF": lambda: vr.MF(dim=4, bias=True).fit(train, vr.Uniform(), epochs=1),
        "ALS": lambda: vr.ALS(dim=4, epochs=2).fit(train),
        "EASE": lambda: vr.EASE(reg=5.0).fit(train),
        "sparse EASE": lambda: vr.EASE(reg=5.0, neighbours=4).fit(train),
        "ItemKNN": lambda: vr.ItemKNN(neighbours=5).fit(train),
        "MostPopular": lambda: vr.MostPopular().fit(train),
        "LightGCN": lambda: vr.LightGCN(dim=4, layers=1).fit(train, vr.Uniform(), epochs=1),
        "SASRec": lambda: vr.SASRec(dim=4, length=3, layers=1, heads=1).fit(train, vr.Uniform(), epochs=1),
        "FPMC": lambda: vr.FPMC(dim=4, length=2).fit(train, vr.Uniform(), epochs=1),
    }[name]()
    model.held_out = {"test": test}
    folder = Path(tempfile.mkdtemp()) / name
    model.save(folder)
    return folder


def case(rng: Random) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "model"
        shutil.copytree(saved(rng.choice(MODELS)), folder)
        mutate(rng, folder)
        serve(folder)


def mutate(rng: Random, folder: Path) -> None:
    meta = mutations.read_meta(folder)
    choice = rng.randrange(10)
    if choice < 3:
        meta = mutations.mutate_json(rng, meta)
    elif choice < 7:
        mutations.mutate_tensors(rng, folder)
    elif choice < 8:
        mutations.mutate_ids(rng, folder)
    else:
        mutations.mutate_bytes(rng, folder / rng.choice([mutations.IDS, mutations.IDS, mutations.TENSORS]))
    mutations.match_digests(folder, meta)
    if rng.random() < 0.05:
        mutations.mutate_bytes(rng, folder / mutations.META)


def serve(folder: Path) -> None:
    model = vr.load(folder)
    train = model.train
    ids, scores = model.recommend(train.user_ids, n=5)
    assert ids.shape == scores.shape == (train.n_users, min(5, train.n_items))
    assert not np.isnan(scores).any()
    model.similar_items(train.item_ids[0], n=3)
    model.fold_in(train.item_ids[:2], n=3)
    for part in model.held_out.values():
        vr.evaluate(model, part, at=5)
    repr(model), repr(model.history), model.history.to_jsonl()
