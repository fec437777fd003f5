"""Threads and processes that meet: readers of a model that is replaced, writers of one folder, forks, a lost folder."""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from tests.fuzz import PATIENCE
from tests.fuzz import _processes as processes

import vitalrank as vr
from vitalrank._util.locks import only_writer

LONGEST = 0.8 * PATIENCE  # seconds of a forked process


@cache
def log() -> Any:
    return vr.datasets.synthetic(users=30, items=25, interactions=300, seed=0)


@cache
def models() -> tuple[Any, ...]:
    """Models of different sizes, with ids of text for one of them."""
    few, many = log(), vr.datasets.synthetic(users=90, items=60, interactions=900, seed=1)
    named = vr.Interactions.from_arrays([f"u{user}" for user in few.users], few.items)
    fitted = [vr.MF(dim=4).fit(one, vr.Uniform(), epochs=1, threads=1) for one in (few, many)]
    return (*fitted, vr.MostPopular().fit(named))


def _facts(model: Any) -> tuple[Any, ...]:
    """What tells the models apart, of every file of a folder."""
    tensors = tuple(float(np.sum(array)) for _, array in sorted(model.tensors().items()))
    return repr(model), model.train.fingerprint, model.train.user_ids.tolist()[-1], tensors


def readers(rng: Random, folder: Path) -> None:
    """While a writer replaces a model, a reader sees the old one or the new one, whole."""
    whole = [_facts(model) for model in models()]
    order = [rng.choice(models()) for _ in range(rng.choice([5, 20]))]
    order[0].save(folder)
    done = folder.with_name("done")

    def write() -> int:
        try:
            for model in order:
                model.save(folder)
        finally:
            done.touch()
        return 0

    if rng.random() < 0.5:
        child = processes.start(write)
        wait: Callable[[], int | None] = lambda: processes.exit_code(child, LONGEST)  # noqa: E731
    else:
        pool = ThreadPoolExecutor(1)
        wait = pool.submit(write).result
    while not done.exists():
        assert _facts(vr.load(folder)) in whole
    assert wait() == 0
    assert _facts(vr.load(folder)) == _facts(order[-1])


def writers(rng: Random, folder: Path) -> None:
    """Of threads that train in one folder at the same time, each succeeds or is told, and one model remains."""
    inside, barrier = [], threading.Barrier(3)
    seeds = [rng.randrange(100) for _ in range(3)]

    def train(seed: int) -> bool:
        barrier.wait()
        model = vr.MF(dim=4)
        try:
            model.fit(log(), vr.Uniform(), epochs=2, threads=1, checkpoint=folder, resume=True, seed=seed)
        except (vr.StorageError, vr.SettingError):  # locked, or a run of another seed by then
            return False
        return True

    def enter(_: int) -> bool:
        barrier.wait()
        try:
            with only_writer(folder):
                inside.append(1)
                assert len(inside) == 1
                time.sleep(rng.uniform(0, 0.002))
                inside.pop()
        except vr.StorageError:
            return False
        return True

    with ThreadPoolExecutor(3) as pool:
        assert any(list(pool.map(train if rng.random() < 0.3 else enter, seeds)))
    if any(folder.iterdir() if folder.exists() else ()):
        vr.load(folder).recommend(log().user_ids[0])


def forks(rng: Random, folder: Path) -> None:
    """A child of a process that has trained trains too, or is told at once that it cannot."""
    kinds: list[Callable[[], Any]] = [lambda: vr.MF(dim=4), lambda: vr.ALS(dim=4, epochs=1), lambda: vr.EASE(reg=5.0)]
    if importlib.util.find_spec("torch"):
        kinds += [lambda: vr.FPMC(dim=4), lambda: vr.LightGCN(dim=4, layers=1)]

    def use() -> int:
        model = rng.choice(kinds)()
        given: dict[str, Any] = {"epochs": 1} if isinstance(model, (vr.MF, vr.FPMC, vr.LightGCN)) else {}
        try:
            model.fit(log(), **given)
            model.recommend(log().user_ids[0])
        except vr.TrainingError as error:
            return 0 if "spawn" in str(error) else 1
        return 0

    assert use() == 0
    assert processes.exit_code(processes.start(use), LONGEST) == 0
    assert use() == 0


def lost_folder(rng: Random, folder: Path) -> None:
    """A folder that somebody removes during a run is made again, and holds the result."""
    epochs = rng.choice([1, 3])
    gone = rng.randrange(1, epochs + 1)

    def remove(record: Any, model: Any) -> None:
        if record["epoch"] == gone:
            shutil.rmtree(folder, ignore_errors=True)

    given: Any = {"checkpoint": folder, "checkpoint_epochs": rng.choice([1, 2]), "callbacks": [remove]}
    model = vr.MF(dim=4).fit(log(), vr.Uniform(), epochs=epochs, threads=1, **given)
    assert _facts(vr.load(folder)) == _facts(model)


CASES = (readers, writers, forks, lost_folder)


def case(rng: Random) -> None:
    models()
    with tempfile.TemporaryDirectory(prefix="vitalrank-fuzz-") as place:
        rng.choice(CASES)(rng, Path(place) / "model")
