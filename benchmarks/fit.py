"""What a fit costs besides its epochs: its start, its memory, serving everybody; and VINS beside LFM-W over whole runs.

    python benchmarks/fit.py [--data FOLDER]

The goals: the first fit after an install starts its first epoch within 10 s, later ones within 1 s; at most 24 bytes
per interaction besides the tables and their moments; recommendations for all users in bounded memory; VINS in at most
0.6 of LFM-W's seconds at equal or better NDCG@10 (``--data`` holds amazon-cds.tsv.gz and yelp.tsv.gz).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from _common import save, yelp_like

import vitalrank as vr

DIM = 64

# A process of its own: from its start to the end of one short epoch, which is where kernels are compiled or loaded.
START = """
import time; began = time.perf_counter()
import numpy as np, vitalrank as vr
rng = np.random.default_rng(0)
log = vr.Interactions.from_arrays(rng.integers(0, 2000, 40_000), rng.integers(0, 1500, 40_000))
vr.MF(64).fit(log, epochs=1, progress=False)
print(time.perf_counter() - began)
"""

# Best settings by validation: see quality.py.
RUNS = {
    "amazon-cds": {
        "LFM-W": (vr.LFMW(margin=1.0), {"reg": 0.05, "batch": 2048}),
        "VINS": (vr.VINS(beta=0.25), {"reg": 0.05, "batch": 2048}),
    },
    "yelp": {
        "LFM-W": (vr.LFMW(margin=1.0), {"reg": 0.05, "batch": 2048}),
        "VINS": (vr.VINS(), {"reg": 0.06, "batch": 2048}),
    },
}


def starts() -> dict[str, float]:
    """Seconds of the first fit, with an empty cache of kernels, and of a later one."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
        command = [sys.executable, "-c", START]
        seconds = [float(subprocess.check_output(command, env=environment, text=True)) for _ in range(4)]
    return {"first": seconds[0], "later": min(seconds[1:])}


def resident(field: str) -> int:
    """Bytes of memory now (VmRSS) or at the highest since the mark was reset (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def peak_above(action: Any) -> tuple[int, float, Any]:
    """How many bytes an action takes at its peak, its seconds, its result."""
    Path("/proc/self/clear_refs").write_text("5")  # the highest mark starts again
    before, began = resident("VmRSS"), time.perf_counter()
    result = action()
    return resident("VmHWM") - before, time.perf_counter() - began, result


def memory() -> dict[str, float]:
    """Bytes per interaction while fitting, and what recommending to everybody takes."""
    log = yelp_like()
    vr.MF(DIM).fit(vr.datasets.synthetic(users=300, items=200, interactions=3000), epochs=1, progress=False)
    taken, _, model = peak_above(lambda: vr.MF(DIM).fit(log, vr.VINS(), epochs=1, progress=False))
    tables = 3 * 4 * DIM * (log.n_users + log.n_items)
    model.recommend(log.user_ids[:100], n=10)  # compile
    extra, seconds, _ = peak_above(lambda: model.recommend(log.user_ids, n=10))
    return {
        "interactions": len(log),
        "tables_with_moments_mib": tables / 2**20,
        "fit_bytes_per_interaction": (taken - tables) / len(log),
        "recommend_all_users_s": seconds,
        "recommend_all_users_mib": extra / 2**20,
    }


def whole_runs(data: Path) -> dict[str, Any]:
    """Training seconds until the best epoch by validation, and its NDCG@10 on test."""
    found: dict[str, Any] = {}
    for name, runs in RUNS.items():
        rest, test = vr.read(data / f"{name}.tsv.gz").k_core(10, 10).split_last(0.2)
        train, valid = rest.split_last(0.1)
        found[name] = {}
        for label, (sampler, options) in runs.items():
            model = vr.MF(DIM).fit(
                train, sampler, lr=0.003, epochs=120, valid=valid, valid_every=2, progress=False, **options
            )
            records = model.history.records
            best = max((r for r in records if r.get("ndcg@10") is not None), key=lambda r: r["ndcg@10"])
            found[name][label] = {
                "sampler": repr(sampler),
                "options": options,
                "epoch": best["epoch"],
                "epochs": len(records),
                "seconds": sum(r["seconds"] for r in records),
                "seconds_to_best": sum(r["seconds"] for r in records if r["epoch"] <= best["epoch"]),
                "tries": best["tries"],
                "test": vr.evaluate(model, test, at=10, metrics="ndcg", exclude=(train, valid))["ndcg@10"],
            }
            print(name, label, json.dumps(found[name][label]), flush=True)
        found[name]["ratio"] = found[name]["VINS"]["seconds"] / found[name]["LFM-W"]["seconds"]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    arguments = parser.parse_args()
    result: dict[str, Any] = {"dim": DIM, "date": time.strftime("%Y-%m-%d"), "start": starts(), "memory": memory()}
    print(json.dumps(result, indent=1), flush=True)
    if arguments.data:
        result["whole_runs"] = whole_runs(arguments.data)
    save("fit", result)


if __name__ == "__main__":
    main()
