"""Seconds per epoch of matrix factorization beside the peers, on a log of Yelp's size; and how they grow with the log.

    python benchmarks/mf.py              # everything; makes benchmarks/.peers, an environment for the peers, if absent
    python benchmarks/mf.py --no-peers   # ours alone
    python benchmarks/mf.py --save-as mf.intel   # on a machine of another kind, beside the numbers of the first

The goals: Uniform with SGD or Adagrad no slower than implicit's BPR, Uniform with Adam at most twice that, VINS with
Adam at 15 tries at most half of LightFM's WARP; ten times the log at most eleven times the seconds. mf.json says what
holds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from _common import peers_python, save, yelp_like

import vitalrank as vr

SHAPE = {"users": 113_917, "items": 93_850, "interactions": 3_181_432}
DIM = 64
EPOCHS = 4  # the first is left out: it may compile and touches memory for the first time
ROUNDS = 4  # ours and theirs in turns; the fastest of each counts, since other load on the host only ever slows down

OURS = {
    "Uniform, SGD": (vr.Uniform(), {"optimizer": "sgd", "lr": 0.05}),
    "Uniform, Adagrad": (vr.Uniform(), {"optimizer": "adagrad", "lr": 0.05}),
    "Uniform, Adam": (vr.Uniform(), {"optimizer": "adam"}),
    "VINS, Adam, 15 tries": (vr.VINS(kappa=15, margin=-100.0), {"optimizer": "adam"}),
    "VINS, Adam": (vr.VINS(), {"optimizer": "adam"}),
    "LFM-W, Adam": (vr.LFMW(), {"optimizer": "adam"}),
}

# name -> what one epoch of it costs, for a scipy CSR matrix ``x`` and a number of epochs ``n``.
PEER_CODE = """
import json, sys, time
import numpy as np, scipy.sparse as sp
name, path, dim, epochs, threads = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])
x = sp.load_npz(path)

def implicit_bpr():
    from implicit.cpu.bpr import BayesianPersonalizedRanking
    stamps = []
    model = BayesianPersonalizedRanking(factors=dim, iterations=epochs, num_threads=threads, random_state=0)
    model.fit(x, show_progress=False, callback=lambda *a: stamps.append(time.perf_counter()))
    return np.diff(stamps).tolist()

def cornac_bpr():
    import cornac
    c = x.tocoo()
    data = cornac.data.Dataset.build(zip(c.row, c.col, c.data))
    model = cornac.models.BPR(k=dim, max_iter=1, num_threads=threads)
    seconds = []
    for n in (1, 1 + epochs):
        model = cornac.models.BPR(k=dim, max_iter=n, num_threads=threads)
        start = time.perf_counter()
        model.fit(data)
        seconds.append(time.perf_counter() - start)
    return [(seconds[1] - seconds[0]) / epochs]

def lightfm_warp():
    from lightfm import LightFM
    model = LightFM(no_components=dim, loss="warp", random_state=0)
    model.fit_partial(x.tocoo(), epochs=8, num_threads=threads)  # violators are found at once at first, later not
    seconds = []
    for _ in range(epochs):
        start = time.perf_counter()
        model.fit_partial(x.tocoo(), epochs=1, num_threads=threads)
        seconds.append(time.perf_counter() - start)
    return seconds[1:]

peers = {"implicit BPR": implicit_bpr, "cornac BPR": cornac_bpr, "LightFM WARP": lightfm_warp}
print("SECONDS", json.dumps(peers[name]()))
"""


def our_epoch(
    log: vr.Interactions, sampler: object, options: dict[str, object], epochs: int = EPOCHS
) -> dict[str, float]:
    """Median seconds and mean tries of an epoch."""
    history = vr.MF(DIM).fit(log, sampler, epochs=epochs, progress=False, **options).history
    return {
        "seconds": float(np.median([record["seconds"] for record in history[1:]])),
        "tries": float(history[-1]["tries"]),
    }


def peer_epoch(python: str, name: str, matrix: Path) -> dict[str, float]:
    command = [python, "-c", PEER_CODE, name, matrix, str(DIM), str(EPOCHS), str(os.cpu_count() or 1)]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("SECONDS ")]
    if not lines:
        raise SystemExit(f"{name} failed:\n{done.stderr[-2000:]}")
    return {"seconds": float(np.median(json.loads(lines[0].removeprefix("SECONDS "))))}


def peer_versions(python: str) -> dict[str, str]:
    code = "import json; from importlib.metadata import version as v;"
    code += "print(json.dumps({n: v(n) for n in ('implicit', 'cornac', 'lightfm-next')}))"
    done = subprocess.run([python, "-c", code], capture_output=True, check=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found


def beside_peers(python: str | None) -> dict[str, dict[str, float]]:
    """Ours and theirs in turns, several times over."""
    log = vr.datasets.synthetic(seed=0, **SHAPE)
    results: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        matrix = Path(folder) / "log.npz"
        scipy.sparse.save_npz(matrix, log.csr, compressed=False)
        uniform, later = list(OURS)[:3], list(OURS)[3:]
        turns = ["implicit BPR", *uniform, "LightFM WARP", *later, "cornac BPR"]
        for name in turns * ROUNDS:
            if name in OURS:
                show(results, name, our_epoch(log, *OURS[name]))
            elif python is not None:
                show(results, name, peer_epoch(python, name, matrix))
    return results


def growth(largest: int) -> dict[str, dict[str, float]]:
    """Uniform with Adam: more and more positives of the same users and items."""
    results: dict[str, dict[str, float]] = {}
    for positives in (300_000, 3_000_000, 30_000_000) * 2:
        if positives <= largest:
            log = yelp_like(positives=positives)
            show(results, f"{positives:,} positives", our_epoch(log, vr.Uniform(), {"optimizer": "adam"}, epochs=3))
    return results


def show(results: dict[str, dict[str, float]], name: str, result: dict[str, float]) -> None:
    if name not in results or result["seconds"] < results[name]["seconds"]:
        results[name] = result
    base = results.get("implicit BPR", {}).get("seconds")
    ratio = f"{result['seconds'] / base:10.2f}" if base else " " * 10
    tries = f"{result['tries']:8.1f}" if "tries" in result else ""
    print(f"{name:28s}{result['seconds']:10.3f} s{ratio}{tries}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--largest", type=int, default=30_000_000, help="largest log of the growth table")
    parser.add_argument("--no-save", action="store_true")
    parser.add_argument("--save-as", default="mf", help="name of the file, for a machine of another kind")
    arguments = parser.parse_args()
    print(f"{'seconds per epoch, dim 64':28s}{'':12s}{'/ implicit':>10s}{'tries':>8s}")
    python = None if arguments.no_peers else peers_python(["implicit", "cornac", "lightfm-next"])
    saved: dict[str, Any] = {"shape": SHAPE, "dim": DIM}
    saved["epoch"] = beside_peers(python)
    saved["ratios"] = ratios(saved["epoch"]) if python else {}
    saved["peers"] = peer_versions(python) if python else {}
    saved["growth"] = growth(arguments.largest)
    if not arguments.no_save:
        save(arguments.save_as, saved)


def ratios(epoch: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """What was wanted, beside what was measured."""
    implicit, warp = epoch["implicit BPR"]["seconds"], epoch["LightFM WARP"]["seconds"]
    goals = {
        "Uniform, SGD": (implicit, 1.0),
        "Uniform, Adagrad": (implicit, 1.0),
        "Uniform, Adam": (implicit, 2.0),
        "VINS, Adam, 15 tries": (warp, 0.5),
    }
    found = {
        name: {"ratio": round(epoch[name]["seconds"] / base, 3), "goal": goal} for name, (base, goal) in goals.items()
    }
    for name, pair in found.items():
        print(f"{name:28s} ratio {pair['ratio']:.2f} (goal {pair['goal']})")
    return found


if __name__ == "__main__":
    main()
