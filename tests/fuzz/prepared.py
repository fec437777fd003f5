"""Prepared folders of a stranger: mapped, trained on and served, or refused in one sentence."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from tests.fuzz import _mutations as mutations
from tests.fuzz.readers import check_message

import vitalrank as vr
from vitalrank.prepared.arrays import ArrayWriter

META = "prepared.json"
KINDS = ("split", "whole", "numbers")
FLOATS = [float("nan"), float("inf"), -1.0, 0.0, 1e308]


@cache
def written(kind: str) -> Path:
    """A prepared folder of a small log: in parts or whole, with ids of text or numbers."""
    log = vr.datasets.synthetic(users=30, items=25, interactions=300, seed=0)
    users = log.users if kind == "numbers" else [f"u{user}" for user in log.users]
    weights = np.ones(len(log)) if kind == "whole" else None
    log = vr.Interactions.from_arrays(users, log.items, log.times, weights=weights)
    parts = dict(zip(("train", "test"), log.split_last(0.2), strict=True)) if kind == "split" else log
    folder = Path(tempfile.mkdtemp()) / kind
    vr.Prepared.write(folder, parts)
    return folder


def case(rng: Random) -> None:
    with tempfile.TemporaryDirectory(prefix="vitalrank-fuzz-") as place:
        folder = Path(place) / "log"
        shutil.copytree(written(rng.choice(KINDS)), folder)
        try:
            mutate(rng, folder)
            use(rng, folder)
        except vr.VitalrankError as error:
            check_message(str(error))
            raise


def mutate(rng: Random, folder: Path) -> None:
    """Change ``prepared.json``, an array with its entry, or bytes."""
    contents = json.loads((folder / META).read_text())
    data = folder / contents["data"]
    choice = rng.randrange(10)
    if choice < 3:
        (folder / META).write_text(json.dumps(mutations.mutate_json(rng, contents)))
    elif choice < 9:
        for _ in range(rng.choice([1, 1, 2])):
            _mutate_array(rng, data, _entries(contents))
        (folder / META).write_text(json.dumps(contents))
    else:
        mutations.mutate_bytes(rng, rng.choice([folder / META, *data.iterdir()]))


def _entries(contents: dict[str, Any]) -> dict[str, Any]:
    """What is said of each file, by its name."""
    found = {f"{side}.{name}": entry for side, fields in contents["ids"].items() for name, entry in fields.items()}
    for part, said in contents["parts"].items():
        found |= {f"{part}.{name}": entry for name, entry in said["arrays"].items()}
    return found


def _mutate_array(rng: Random, data: Path, entries: dict[str, Any]) -> None:
    """Change values of an array, with a digest that matches again."""
    name = rng.choice(sorted(entries))
    array = np.load(data / f"{name}.npy")
    choice = rng.randrange(6)
    if choice < 3 and len(array):
        value = rng.choice(FLOATS if array.dtype.kind == "f" else mutations.NUMBERS)
        with np.errstate(all="ignore"):
            array[rng.randrange(len(array))] = np.array(value).astype(array.dtype)
    elif choice == 3:
        rng.shuffle(array)
    elif choice == 4 and len(array) > 1:
        array[rng.randrange(len(array))] = array[rng.randrange(len(array))]
    else:
        array = array[: rng.randrange(len(array) + 1)]
    with ArrayWriter(data / f"{name}.npy", array.dtype.str) as writer:
        writer.append(array)
    entries[name].update(length=len(array), sha256=list(writer.entry().sha256))
    assert not len(array) or entries[name]["sha256"] == [hashlib.sha256(array.tobytes()).hexdigest()]


def use(rng: Random, folder: Path) -> None:
    """Everything that is done with a prepared log, and what it comes to is a log."""
    prepared = vr.Prepared.open(folder)
    repr(prepared), prepared.made, prepared.fingerprint()
    for rank in range(3):
        check(prepared.shard(rank, 3))
        prepared.part(rank=rank, ranks=3)
    parts = prepared.split()
    for log in [*parts.values(), prepared.log()]:
        check(log)
    train = next(iter(parts.values()))
    sampler = rng.choice([vr.Uniform, vr.Popularity, vr.VINS])()
    model = vr.MF(dim=4).fit(train, sampler, epochs=1, batch=64, threads=1)
    ids, scores = model.recommend(train.user_ids, n=5)
    assert ids.shape == scores.shape
    for log in parts.values():
        vr.evaluate(model, log, at=5)
    vr.read(folder)


def check(log: vr.Interactions) -> None:
    """Ids are distinct, a user's items too, in the order of time."""
    assert len(np.unique(log.user_ids)) == log.n_users, "users"
    assert len(np.unique(log.item_ids)) == log.n_items, "items"
    for first, last in zip(log.indptr, log.indptr[1:], strict=False):
        assert (np.diff(log.sorted_items[first:last]) > 0).all(), "items"
        if log.times is not None:
            assert (np.diff(log.times[first:last]) >= 0).all(), "times"
    if log.weights is not None:
        assert np.isfinite(log.weights).all(), "weights"
        assert (log.weights >= 0).all(), "weights"
