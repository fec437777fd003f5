"""The softmax loss over 1,024 in-batch negatives beside the bare matrix products, on a log of Yelp's size.

    python benchmarks/shared_negatives.py [--threads 1,2] [--batches 120] [--quick]

One batch is trained by the engine (positives gathered, accidental hits left out, softmax, three products, Adam), then
NumPy multiplies matrices of the same sizes: scores (4096, 64) x (64, 1024), then the gradients of both sides; turn by
turn, the same threads for both. Some batches go through the plain path, which scores each row's negatives one by one.
Saved: milliseconds a batch (median), and the ratio of the medians. Goal: at most 2 times the bare products.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from _common import YELP, save, yelp_like

import vitalrank as vr
from vitalrank._util.threads import limited
from vitalrank.config import TrainConfig
from vitalrank.engines.base import Totals
from vitalrank.engines.shared_negatives import SharedNegatives
from vitalrank.kernels.cpu.training.permutation import epoch_permutation

DIM, BATCH, NEGATIVES = 64, 4096, 1024
SLOW = 4  # batches of the plain path


def seconds_of(action: Callable[[], Any]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def engine_of(log: vr.Interactions) -> Any:
    config = TrainConfig(loss="softmax", batch=BATCH, correct="logq", temperature=0.2)
    return vr.MF(dim=DIM).build(log, vr.InBatch(candidates=NEGATIVES).bind(log, seed=0), config)


def measured(log: vr.Interactions, threads: int, batches: int) -> dict[str, float]:
    """Milliseconds of a batch: trained by blocks, by the plain path, and the bare products."""
    rng = np.random.default_rng(0)
    queries, items = (rng.normal(size=(rows, DIM)).astype(np.float32) for rows in (BATCH, NEGATIVES))
    scores = np.empty((BATCH, NEGATIVES), np.float32)

    def bare() -> None:
        np.matmul(queries, items.T, out=scores)
        scores @ items
        scores.T @ queries

    ours, floor, plain = [], [], []
    with limited(threads):
        engine = engine_of(log)
        stream = engine._batches(log, epoch_permutation(len(log), 0, 1))
        step = lambda: engine._train_batch(next(stream), 1e-3, Totals())  # noqa: E731  with what loads the batch
        for number in range(batches + 5):
            times = seconds_of(step), seconds_of(bare)
            if number >= 5:  # the first compile and touch memory
                ours.append(times[0])
                floor.append(times[1])
        SharedNegatives.of = lambda *given: None  # type: ignore
        engine = engine_of(log)
        stream = engine._batches(log, epoch_permutation(len(log), 0, 1))
        plain = [seconds_of(step) for _ in range(SLOW + 1)][1:]
    found = {
        name: statistics.median(times) * 1e3 for name, times in (("ours", ours), ("bare", floor), ("plain", plain))
    }
    return {**found, "ratio": found["ours"] / found["bare"], "epoch_seconds": found["ours"] * len(log) / BATCH / 1e3}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", default=",".join(str(n) for n in range(1, (os.cpu_count() or 1) + 1)))
    parser.add_argument("--batches", type=int, default=120)
    parser.add_argument("--quick", action="store_true", help="a small log, nothing saved")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)  # NumPy reads its number of threads when it starts
    given = parser.parse_args()
    if given.one:
        log = yelp_like(3000, 2000, 60_000) if given.quick else yelp_like()
        print(json.dumps(measured(log, given.one, 5 if given.quick else given.batches)))
        return
    results = {}
    for threads in map(int, given.threads.split(",")):
        command = [sys.executable, __file__, "--one", str(threads), "--batches", str(given.batches)]
        variables = {name: str(threads) for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        command += ["--quick"] if given.quick else []
        done = subprocess.run(command, env={**os.environ, **variables}, check=True, capture_output=True, text=True)
        results[str(threads)] = json.loads(done.stdout)
        print(threads, results[str(threads)], flush=True)
    if not given.quick:
        setting = {**YELP, "dim": DIM, "batch": BATCH, "negatives": NEGATIVES, "batches": given.batches}
        save("shared_negatives", {"setting": setting, "load": os.getloadavg()[0], "threads": results})


if __name__ == "__main__":
    main()
