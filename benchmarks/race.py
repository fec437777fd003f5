"""Quality against training time beside the peers, on real logs: the README's picture.

    python benchmarks/race.py --data FOLDER [--logs amazon-cds,ml-1m,yelp] [--budget 15] [--minutes 30]
    python benchmarks/race.py    # race.md and the picture of what race.jsonl holds

Protocol: 10-core, each user's last 20 % is test, the last 10 % of the rest valid. Every method may use all cores, has
64 dimensions and the settings of ``OURS`` and ``PEERS``, each trained until its epochs or the budget of seconds are
spent. All vectors are ranked by the same code, and only training is timed: no evaluation, no compilation. Methods run
one after the other, the first settings of all on all logs, then the second.

Each run is a line of race.jsonl, with its seconds of the clock and of the processor, and the share of all cores that
other processes took meanwhile. The same command runs what is missing, and what was disturbed (``QUIET``) once more; of
several runs with the same settings the least disturbed counts.

The curve of a method goes through all its settings: at each time stands the run that is then best on valid, by its
NDCG@10 on test.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from _common import HERE, machine, parts, peers_python
from race_picture import draw, page, so_far

import vitalrank as vr
from vitalrank.models.dot import DotRecommender

OUT = HERE / "race.jsonl"
CORES = os.cpu_count() or 1
FIRST, STEP = 0.2, 1.3  # a run is looked at after so many seconds, and when they have grown by this factor
QUIET = 0.1  # share of the cores that others may take
EXACT = {"beta": 0.5, "margin": 0.75, "shots": None, "weight": "none", "reg": 0.08, "schedule": "linear"}
LENGTHS = ((8, 0.02), (20, 0.02), (60, 0.012))  # epochs and learning rates
Settings = dict[str, Any]
Curve = dict[str, Any]
Logs = tuple[vr.Interactions, ...]
SAMPLER = ("beta", "margin", "shots", "weight")
OURS: dict[str, list[Settings]] = {
    "vitalrank VINS": [{**EXACT, "epochs": epochs, "lr": lr} for epochs, lr in LENGTHS] + [{"epochs": 40}],
    "vitalrank EASE": [{"reg": reg} for reg in (300.0, 1000.0, 100.0)],
}
DYNAMIC = {"distribution": "uniform", "sample_num": 1, "dynamic": True}
PEERS: dict[str, list[Settings]] = {
    "implicit ALS": [
        {"regularization": reg, "alpha": alpha} for reg, alpha in ((0.1, 10), (10.0, 10), (0.01, 1), (10.0, 1))
    ],
    "implicit BPR": [{"learning_rate": lr, "regularization": 0.01} for lr in (0.05, 0.1, 0.02)],
    "LightFM WARP": [
        {"learning_rate": 0.05, "item_alpha": 1e-6, "user_alpha": 1e-6},
        {"learning_rate": 0.05},
        {"learning_rate": 0.1, "item_alpha": 1e-5, "user_alpha": 1e-5},
    ],
    "cornac BPR": [{"learning_rate": lr, "lambda_reg": 0.01} for lr in (0.05, 0.1, 0.02)],
    "RecBole BPR": [{"train_batch_size": 2048, "learning_rate": lr} for lr in (0.002, 0.005)],
    "RecBole DNS": [
        {
            "train_batch_size": 2048,
            "learning_rate": lr,
            "train_neg_sample_args": {**DYNAMIC, "candidate_num": candidates},
        }
        for lr, candidates in ((0.005, 8), (0.002, 32))
    ],
}
PACKAGES = ["implicit", "cornac", "lightfm-next"]
RECBOLE = ["torch==2.13.0", "recbole==1.2.1", "pandas<3", "numpy<2", "scipy<1.14", "setuptools<81"]  # it needs old ones


class Vectors(DotRecommender):
    """Vectors of anybody's, ranked as ours are."""

    def __init__(self, train: vr.Interactions, users: Any, items: Any) -> None:
        self.train = train
        self._users, self._items = np.ascontiguousarray(users), np.ascontiguousarray(items)

    def fit(self, train: vr.Interactions) -> Vectors:
        return self

    def queries(self, users: Any) -> Any:
        return self._users[users]

    @property
    def item_table(self) -> Any:
        return self._items

    def settings(self) -> dict[str, Any]:
        return {}

    def tensors(self) -> dict[str, Any]:
        return {}

    def restore(self, tensors: Any, record: Any) -> None:
        raise SystemExit("the vectors of a benchmark are not saved")


def quality(model: Any, valid: vr.Interactions, test: vr.Interactions) -> tuple[float, float]:
    """NDCG@10 on valid and on test."""
    measured = [
        vr.evaluate(model, part, at=10, metrics="ndcg", exclude=rest)["ndcg@10"]
        for part, rest in ((valid, None), (test, valid))
    ]
    return measured[0], measured[1]


def note(curve: Curve, seconds: float, processor: float, found: tuple[float, float]) -> None:
    for name, value in zip(("seconds", "processor", "valid", "test"), (seconds, processor, *found), strict=True):
        curve.setdefault(name, []).append(round(value, 5))


def vins_curve(logs: Logs, settings: Settings, budget: float) -> Curve:
    train, valid, test = logs
    training = dict(settings)
    sampler = vr.VINS(**{name: training.pop(name) for name in SAMPLER if name in training})
    vr.MF(dim=64).fit(train, sampler, progress=False, **{**training, "epochs": 1})  # compile
    curve: Curve = {}
    spent, began, next_look = [0.0, 0.0], (time.perf_counter(), time.process_time()), FIRST

    def look(record: dict[str, Any], model: Any) -> bool:
        nonlocal began, next_look
        spent[0] += time.perf_counter() - began[0]
        spent[1] += time.process_time() - began[1]
        if spent[0] >= next_look or record["epoch"] == training["epochs"]:
            note(curve, *spent, quality(model, valid, test))
            next_look = STEP * spent[0]
        began = (time.perf_counter(), time.process_time())
        return spent[0] > budget

    began = (time.perf_counter(), time.process_time())
    vr.MF(dim=64).fit(train, sampler, seed=0, callbacks=[look], progress=False, **training)
    return curve


def ease_curve(logs: Logs, settings: Settings, budget: float) -> Curve:
    train, valid, test = logs
    curve: Curve = {}
    if vr.EASE(**settings).estimate(train).seconds > 2 * budget:
        return curve  # too late for the picture
    began, used = time.perf_counter(), time.process_time()
    model = vr.EASE(**settings).fit(train)
    spent = time.perf_counter() - began, time.process_time() - used
    note(curve, *spent, quality(model, valid, test))
    return curve


def peer_curve(logs: Logs, name: str, settings: Settings, budget: float) -> Curve:
    train, valid, test = logs
    python = peers_python(RECBOLE, "recbole") if name.startswith("RecBole") else peers_python(PACKAGES)
    if python is None:
        raise RuntimeError("it could not be installed")
    curve: Curve = {}
    with tempfile.TemporaryDirectory() as folder:
        scipy.sparse.save_npz(Path(folder) / "train.npz", train.csr)
        command = [python, HERE / "race_peers.py", name, folder, json.dumps(settings), CORES, budget, FIRST, STEP]
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # implicit asks for it: its own threads are faster
        texts = [str(one) for one in command]
        limit = 60 + 40 * budget  # an epoch of RecBole may take many budgets
        done = subprocess.run(texts, capture_output=True, text=True, cwd=folder, env=environment, timeout=limit)
        found = [line for line in done.stdout.splitlines() if line.startswith("SPENT ")]
        if not found:
            raise RuntimeError(done.stderr[-2000:])
        for number, (seconds, processor) in enumerate(json.loads(found[0].removeprefix("SPENT "))):
            with np.load(Path(folder) / f"{number}.npz") as arrays:
                vectors = Vectors(train, arrays["users"], arrays["items"])
            note(curve, seconds, processor, quality(vectors, valid, test))
    return curve


def jobs(logs: list[str]) -> Iterator[tuple[str, str, Settings]]:
    """The first settings of all methods on all logs, then the second."""
    methods = {**PEERS, **OURS}
    for row in zip_longest(*methods.values()):
        for log in logs:
            for name, settings in zip(methods, row, strict=True):
                if settings is not None:
                    yield log, name, settings


def run(logs: Logs, name: str, settings: Settings, budget: float) -> Curve:
    if name in PEERS:
        return peer_curve(logs, name, settings, budget)
    own: Callable[[Logs, Settings, float], Curve] = vins_curve if name == "vitalrank VINS" else ease_curve
    return own(logs, settings, budget)


def lines() -> list[dict[str, Any]]:
    return [json.loads(line) for line in OUT.read_text().splitlines()] if OUT.exists() else []


def race(folder: Path, logs: list[str], budget: float, minutes: float) -> None:
    """Run what race.jsonl does not have undisturbed."""
    ends = time.monotonic() + 60 * minutes
    done = [(line["log"], line["method"], line["settings"]) for line in lines() if line["others"] <= QUIET]
    for log, name, settings in jobs(logs):
        if (log, name, settings) in done or time.monotonic() > ends:
            continue
        logs_parts = parts(folder, log)
        before = busy()
        try:
            curve = run(logs_parts, name, settings, budget)
        except (RuntimeError, subprocess.TimeoutExpired) as error:  # the others go on
            print(f"{log}: {name} {settings} failed: {error}", flush=True)
            continue
        own, everyone, ticks = busy() - before
        facts = {"cores": CORES, "budget": budget, "others": round(float((everyone - own) / ticks), 3)}
        facts |= {"date": time.strftime("%Y-%m-%d"), "machine": machine()["cpu"]}
        with OUT.open("a") as file:
            file.write(json.dumps({"log": log, "method": name, "settings": settings, **facts, **curve}) + "\n")
        if curve:
            at = int(np.argmax(curve["valid"]))
            spent = f"{curve['seconds'][at]:.1f} s ({curve['processor'][at]:.1f} of the processor)"
            print(f"{log:11s} {name:15s} {curve['test'][at]:.4f} in {spent}, others {facts['others']:.0%}", flush=True)


def busy() -> Any:
    """Processor seconds of this process and its children, of everyone, and all that there were (3,)."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    each = os.sysconf("SC_CLK_TCK")
    everyone, total = sum(ticks) - ticks[3] - ticks[4], sum(ticks)  # without idle, iowait
    return np.array([sum(os.times()[:4]), everyone / each, total / each])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of the logs, NAME.tsv.gz; without it nothing is run")
    parser.add_argument("--logs", default="amazon-cds,ml-1m,yelp")
    parser.add_argument("--budget", type=float, default=15, help="most training seconds of a run")
    parser.add_argument("--minutes", type=float, default=90, help="start no run after them")
    arguments = parser.parse_args()
    if arguments.data:
        race(arguments.data, arguments.logs.split(","), arguments.budget, arguments.minutes)
    text = page(lines(), QUIET)
    (HERE / "race.md").write_text(text, encoding="utf-8")
    print(text)
    draw(so_far(lines()), HERE.parent / "docs" / "images")


if __name__ == "__main__":
    main()
