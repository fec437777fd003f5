"""What tuned and default runs reach: test NDCG@10 of MF by sampler on real logs, over seeds.

    python benchmarks/quality.py --data FOLDER [--grid defaults|best|vins|rivals|slow] [--logs amazon-cds,yelp,steam]
                                 [--seeds 1] [--workers 16] [--out benchmarks/quality.jsonl]

Protocol: k-core on both sides (5 for steam, amazon-games and lastfm, else 10), test = last ceil(20 %) of each user,
valid = last 10 % of the rest; the best epoch by valid; test read once. One thread a run, several runs side by side.
One line of JSON per run is appended, so that a stopped search goes on where it was.
"""

from __future__ import annotations

import os

os.environ.setdefault("NUMBA_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import itertools
import json
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from _common import parts

import vitalrank as vr

Run = dict[str, Any]


def cross(sampler: str, settings: dict[str, list[Any]], training: dict[str, list[Any]]) -> Iterator[Run]:
    """Every combination of sampler settings and training settings."""
    for values in itertools.product(*settings.values(), *training.values()):
        chosen = dict(zip([*settings, *training], values, strict=True))
        yield {
            "sampler": sampler,
            "settings": {name: chosen[name] for name in settings},
            "training": {name: chosen[name] for name in training},
        }


def grid_defaults() -> Iterator[Run]:
    for name in ("VINS", "LFMW", "DNS", "Popularity", "Uniform"):
        yield from cross(name, {}, {name: [value] for name, value in DEFAULTS.items()})


# What a user gets who sets nothing, but a validation set.
DEFAULTS = {name: getattr(vr.TrainConfig, name) for name in ("epochs", "lr", "reg", "batch", "patience", "valid_every")}

# The best by validation among the grids below, log by log.
BEST = {
    "amazon-cds": [
        ("VINS", {"beta": 0.25}, {"reg": 0.05, "lr": 0.002}),
        ("LFMW", {"margin": 1.0}, {"reg": 0.05}),
        ("DNS", {"candidates": 32}, {"reg": 0.05}),
        ("Uniform", {}, {"reg": 0.01}),
    ],
    "yelp": [
        ("VINS", {"beta": 0.25}, {"reg": 0.05, "lr": 0.002}),
        ("LFMW", {"margin": 1.0}, {"reg": 0.05}),
        ("DNS", {"candidates": 32}, {"reg": 0.05}),
        ("Uniform", {}, {"reg": 0.02}),
    ],
    "steam": [
        ("VINS", {"beta": 0.25}, {"reg": 0.1}),
        ("LFMW", {"margin": 1.0}, {"reg": 0.1}),
        ("DNS", {"candidates": 4}, {"reg": 0.1}),
        ("Uniform", {}, {"reg": 0.05}),
    ],
}


def grid_best() -> Iterator[Run]:
    for log, runs in BEST.items():
        for sampler, settings, training in runs:
            yield {"log": log, "sampler": sampler, "settings": settings, "training": training}


def grid_slow() -> Iterator[Run]:
    yield from cross("VINS", {"beta": [0.25]}, {"lr": [0.001, 0.002], "batch": [2048], "reg": [0.05, 0.06]})


def grid_vins() -> Iterator[Run]:
    yield from cross(
        "VINS",
        {"beta": [0.25, 0.75], "margin": [1.0]},
        {"lr": [0.003, 0.006], "batch": [2048, 8192], "reg": [0.02, 0.05, 0.1]},
    )


def grid_rivals() -> Iterator[Run]:
    training = {"reg": [0.05, 0.1]}
    yield from cross("VINS", {"beta": [0.25], "margin": [0.5, 1.0, 2.0]}, {"reg": [0.04, 0.06]})
    yield from cross(
        "VINS", {"beta": [0.25]}, {"reg": [0.05], "schedule": ["linear"], "epochs": [60], "lr": [0.005, 0.01]}
    )
    yield from cross("VINS", {"beta": [0.25]}, {"reg": [0.05], "lr": [0.002]})
    yield from cross("DNS", {"candidates": [4, 8, 16, 32]}, training)
    yield from cross("Uniform", {}, {"reg": [0.01, 0.02, 0.05]})
    yield from cross("LFMW", {"margin": [0.5, 1.0, 2.0]}, training)


GRIDS = {"best": grid_best, "slow": grid_slow, "defaults": grid_defaults, "vins": grid_vins, "rivals": grid_rivals}


def run(folder: str, job: Run) -> Run:
    train, valid, test = parts(folder, job["log"])
    began = time.perf_counter()
    sampler = getattr(vr, job["sampler"])(**job["settings"])
    fitting = {"epochs": 300, "valid_every": 2, "patience": 8, "lr": 0.003, "batch": 8192, **job["training"]}
    model = vr.MF(dim=64).fit(train, sampler, valid=valid, seed=job["seed"], threads=1, progress=False, **fitting)
    best = model.history.best_epoch or len(model.history)
    record = model.history[best - 1]
    return {
        **job,
        "epoch": best,
        "epochs": len(model.history),
        "tries": record["tries"],
        "train_seconds": sum(r["seconds"] for r in model.history[:best]),
        "seconds": time.perf_counter() - began,
        "valid": record["ndcg@10"],
        "test": vr.evaluate(model, test, at=10, exclude=valid, metrics="ndcg", threads=1)["ndcg@10"],
    }


def key(job: Run) -> str:
    return json.dumps({name: job[name] for name in ("log", "sampler", "settings", "training", "seed")}, sort_keys=True)


def jobs_left(arguments: argparse.Namespace) -> list[Run]:
    done = set()
    if arguments.out.exists():
        done = {key(json.loads(line)) for line in arguments.out.read_text().splitlines()}
    jobs = [
        {"log": log, "seed": seed, **job}
        for seed in range(arguments.seeds)
        for job in GRIDS[arguments.grid]()
        for log in arguments.logs.split(",")
        if job.get("log", log) == log
    ]
    return [job for job in jobs if key(job) not in done]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--grid", choices=GRIDS, default="defaults")
    parser.add_argument("--logs", default="amazon-cds,yelp,steam")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".jsonl"))
    parser.add_argument("--minutes", type=float, default=1e9, help="start no new run after so long")
    arguments = parser.parse_args()
    jobs = jobs_left(arguments)
    run(arguments.data, {**jobs[0], "training": {"epochs": 1}}) if jobs else None  # compile once, before the workers
    end = time.monotonic() + 60 * arguments.minutes
    with ProcessPoolExecutor(arguments.workers, get_context("spawn")) as pool:
        waiting = {pool.submit(run, arguments.data, job) for job in jobs}
        for future in as_completed(waiting):
            if future.cancelled():
                continue
            result = future.result()
            with arguments.out.open("a") as out:
                out.write(json.dumps(result) + "\n")
            told = " ".join(
                f"{name} {result[name]:.4g}" for name in ("epoch", "tries", "valid", "test", "train_seconds")
            )
            print(result["log"], result["sampler"], result["settings"], result["training"], told, flush=True)
            if time.monotonic() > end:
                for other in waiting:
                    other.cancel()


if __name__ == "__main__":
    main()
