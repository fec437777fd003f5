"""What training in blocks costs in quality: test NDCG@10 of MF by the number of blocks, on real logs.

    python benchmarks/blocks.py --data FOLDER [--logs ml-100k,lastfm] [--blocks 0,2,4,16] [--samplers VINS,Uniform]
                                [--epochs 60] [--seeds 2] [--out benchmarks/blocks.jsonl]

Protocol: k-core on both sides (5 for steam, amazon-games and lastfm, else 10), test = last ceil(20 %) of each user,
valid = last 10 % of the rest; the best epoch by valid, evaluated every 3 epochs; test read once. Default settings, no
early stopping, one thread. 0 blocks is mode exact. One line of JSON per run is appended, so that a stopped benchmark
goes on where it was.
"""

from __future__ import annotations

import os

os.environ.setdefault("NUMBA_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import itertools
import json
import time
from pathlib import Path
from typing import Any

from _common import HERE, machine, parts

import vitalrank as vr

# Small ones first; what a log takes is in the last column of the saved lines.
LOGS = (
    "ml-100k", "lastfm", "yelp-2019", "steam", "amazon-cds", "amazon-games", "online-retail", "yelp", "amazon-movies",
    "ml-1m", "gowalla-unordered",
)  # fmt: skip


def measure(data: Path, run: dict[str, Any]) -> dict[str, Any]:
    """Train once, and measure the best epoch on test."""
    train, valid, test = parts(data, run["log"])
    sampler = getattr(vr, run["sampler"])()
    began = time.perf_counter()
    model = vr.MF(dim=64).fit(
        train, sampler, valid=valid, epochs=run["epochs"], valid_every=3, patience=run["epochs"], seed=run["seed"],
        blocks=run["blocks"] or None, threads=1, progress=False,
    )  # fmt: skip
    value = vr.evaluate(model, test, at=10, exclude=valid, metrics=["ndcg"], threads=1)["ndcg@10"]
    found = [record["ndcg@10"] for record in model.history if "ndcg@10" in record]
    return {
        "rows": len(train), "items": train.n_items, "test": value, "valid": max(found),
        "best_epoch": model.history.best_epoch,
        "train_seconds": sum(record["seconds"] for record in model.history),
        "tries": model.history[-1]["tries"], "skipped": model.history[-1]["skipped"],
        "seconds": time.perf_counter() - began,
    }  # fmt: skip


def main() -> None:
    """Run what is not there yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--logs", default=",".join(LOGS))
    parser.add_argument("--blocks", default="0,2,4,16")
    parser.add_argument("--samplers", default="VINS,Uniform")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--out", type=Path, default=HERE / "blocks.jsonl")
    given = parser.parse_args()
    lines = given.out.read_text().splitlines() if given.out.exists() else []
    saved = [json.loads(line) for line in lines]
    done = {tuple(line[name] for name in ("log", "seed", "sampler", "blocks", "epochs")) for line in saved}
    kinds = given.samplers.split(","), [int(count) for count in given.blocks.split(",")]
    for seed, log in itertools.product(range(given.seeds), given.logs.split(",")):
        for sampler, blocks in itertools.product(*kinds):
            run = {"log": log, "seed": seed, "sampler": sampler, "blocks": blocks, "epochs": given.epochs}
            if tuple(run.values()) in done:
                continue
            line = {**run, **measure(given.data, run), "cpu": machine()["cpu"], "date": time.strftime("%Y-%m-%d")}
            with given.out.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print({name: line[name] for name in ("log", "seed", "sampler", "blocks", "test", "seconds")}, flush=True)


if __name__ == "__main__":
    main()
