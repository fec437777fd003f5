"""Matrix factorization on a GPU: milliseconds per epoch and per evaluation at Yelp's size, beside what bytes allow.

    python benchmarks/gpu.py                        # epochs, evaluation, a profile
    python benchmarks/gpu.py --data DIR             # also the search on DIR/yelp.tsv.gz
    python benchmarks/gpu.py --large 200            # also an epoch of 200 million interactions

The goals: VINS at 15 tries 25 ms an epoch or less, Uniform 10 ms or less, evaluation of all users 200 ms or less, a
search of 60 trials on yelp 45 s or less. gpu.json says what holds.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _common import save, yelp_like

import vitalrank as vr

DIM, BATCH, EPOCHS = 64, 8192, 8
POSITIVES = 2_545_000  # training positives of the paper's Yelp log
GOALS = {"Uniform": 10.0, "VINS, 15 tries": 25.0, "evaluation": 200.0}
SAMPLERS: dict[str, vr.Sampler] = {
    "Uniform": vr.Uniform(),
    "Popularity": vr.Popularity(),
    "DNS, 16": vr.DNS(16),
    "VINS": vr.VINS(),
    "VINS, 15 tries": vr.VINS(beta=0.75, kappa=15, margin=-100.0),  # nothing ever violates: all 15 are drawn
    "VINS, exact law, 15 tries": vr.VINS(beta=0.75, kappa=15, margin=-100.0, shots=None),
    "LFM-W": vr.LFMW(),
}


def bandwidth(gigabytes: float = 4.0) -> float:
    """Bytes per second of a copy on the device."""
    source = torch.empty(int(gigabytes * 2**28), device="cuda")
    target = torch.empty_like(source)
    return 2 * source.nbytes / min(timed(lambda: target.copy_(source)) for _ in range(5))


def timed(action: Any) -> float:
    """Seconds of an action on the device."""
    torch.cuda.synchronize()
    began = time.perf_counter()
    action()
    torch.cuda.synchronize()
    return time.perf_counter() - began


def floor_seconds(positives: int, tries: float, speed: float) -> float:
    """What moving the rows of an epoch takes: three rows of values and two moments read and written, and candidates."""
    row = 4 * DIM
    moved = positives * 3 * row * 6 + positives * tries * row
    return moved / speed


def epochs(log: vr.Interactions, speed: float) -> dict[str, Any]:
    """Milliseconds of the fastest epoch of each sampler."""
    found = {}
    print(f"{'epoch of':<28}{'ms':>9}{'tries':>8}{'floor':>8}{'goal':>7}")
    for name, sampler in SAMPLERS.items():
        model = vr.MF(dim=DIM).fit(log, sampler, epochs=EPOCHS, batch=BATCH, device="cuda", seed=0, progress=False)
        last = min(model.history[2:], key=lambda record: record["seconds"])
        tries = float(last["tries"])
        row = {"ms": 1e3 * last["seconds"], "tries": tries, "floor_ms": 1e3 * floor_seconds(len(log), tries, speed)}
        found[name] = row | {"goal_ms": GOALS.get(name)}
        print(f"{name:<28}{row['ms']:>9.1f}{tries:>8.1f}{row['floor_ms']:>8.1f}{GOALS.get(name, 0):>7.0f}", flush=True)
    return found


def evaluation(log: vr.Interactions) -> dict[str, Any]:
    """Milliseconds to rank every item for every user, N = 10, and to measure."""
    train, test = log.split_last(0.2)
    model = vr.MF(dim=DIM).fit(train, vr.Uniform(), epochs=2, batch=BATCH, device="cuda", progress=False)
    options: dict[str, Any] = {"at": 10, "metrics": ["ndcg"]}
    vr.evaluate(model, test, device="cuda", **options)
    seconds = min(timed(lambda: vr.evaluate(model, test, device="cuda", **options)) for _ in range(3))
    users = int((np.diff(test.indptr) > 0).sum())
    a, b = torch.rand(8192, DIM, device="cuda"), torch.rand(DIM, log.n_items, device="cuda")
    bare = min(timed(lambda: a @ b) for _ in range(5)) * users / 8192
    same = vr.evaluate(model, test, device="cpu", **options)["ndcg@10"]
    ours = vr.evaluate(model, test, device="cuda", **options)["ndcg@10"]
    row = {"ms": 1e3 * seconds, "bare_product_ms": 1e3 * bare, "users": users, "ndcg_gpu": ours, "ndcg_cpu": same}
    print("evaluation of all users", row, flush=True)
    return row | {"goal_ms": GOALS["evaluation"]}


def profile(log: vr.Interactions, name: str) -> dict[str, float]:
    """Microseconds per step of each kernel of an epoch."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as record

    model = vr.MF(dim=DIM)
    with record(activities=[ProfilerActivity.CUDA]) as seen:
        model.fit(log, SAMPLERS[name], epochs=3, batch=BATCH, device="cuda", progress=False)
    steps = 3 * -(-len(log) // BATCH)
    found = {}
    for event in seen.key_averages():
        spent = getattr(event, "self_device_time_total", 0)
        if spent / steps >= 0.2:
            found[event.key[:60]] = round(spent / steps, 2)
    found = dict(sorted(found.items(), key=lambda pair: -pair[1]))
    print(f"kernels of {name}, microseconds a step:", *(f"\n  {us:8.2f}  {key}" for key, us in found.items()))
    return found


def search(folder: Path, workers: int) -> dict[str, Any]:
    """Seconds of a search over VINS's settings on yelp, several runs side by side; the test set is read once."""
    log = vr.read(folder / "yelp.tsv.gz").k_core(10, 10)
    train, valid, test = log.split_last(0.2, valid=0.1)
    space = {
        "reg": "0.01..0.15:log",
        "lr": "0.0015..0.006:log",
        "beta": [0.25, 0.5, 0.75, 1.0],
        "margin": "0.4..2:log",
    }
    config = vr.TrainConfig(device="cuda", epochs=100, patience=4, valid_every=2, threads=2)
    vr.MF().fit(train, vr.VINS(), epochs=2, valid=valid, device="cuda", progress=False)  # compiles
    began = time.perf_counter()
    tuned = vr.tune(train, valid, sampler="vins", space=space, trials=60, config=config, workers=workers)
    seconds = time.perf_counter() - began
    model = vr.MF().fit(train, tuned.make_sampler(), valid=valid, **_training(tuned), progress=False)
    found = float(vr.evaluate(model, test, at=10, exclude=valid)["ndcg@10"])
    finished = sum(trial.epochs or 0 for trial in tuned.trials)
    print(f"search on {log}: {seconds:.1f} s, {len(tuned.trials)} trials, {finished} epochs, {workers} side by side")
    print(f"  best on valid {tuned.value:.4f}, its test NDCG@10 {found:.4f}, {tuned.settings}", flush=True)
    return {
        "seconds": seconds, "goal_seconds": 45.0, "trials": len(tuned.trials), "epochs": finished, "workers": workers,
        "valid": tuned.value, "test": found, "settings": str(tuned.settings),
    }  # fmt: skip


def _training(tuned: Any) -> dict[str, Any]:
    config = tuned.config
    names = ("epochs", "lr", "reg", "patience", "valid_every", "device", "seed")
    return {name: getattr(config, name) for name in names}


def large(users: int, items: int, each: int) -> dict[str, Any]:
    """Seconds of an epoch on a large random log, and the memory it takes."""
    rng = np.random.default_rng(0)
    gaps = rng.integers(1, 2 * (items // each) - 1, (users, each), dtype=np.int32)
    rows = np.minimum(np.cumsum(gaps, axis=1, dtype=np.int32) - 1, items - each + np.arange(each, dtype=np.int32))
    log = vr.Interactions(np.arange(users + 1) * each, rows.ravel(), None, np.arange(users), np.arange(items))
    options: dict[str, Any] = {"epochs": 1, "batch": 65_536, "device": "cuda", "progress": False}
    vr.MF(dim=DIM).fit(yelp_like(positives=200_000), vr.VINS(), **options)  # compiles
    torch.cuda.reset_peak_memory_stats()
    began = time.perf_counter()
    model = vr.MF(dim=DIM).fit(log, vr.VINS(), **options)
    row = {"users": users, "items": items, "interactions": len(log), "epoch_s": model.history[-1]["seconds"]}
    row["whole_fit_s"] = time.perf_counter() - began
    row["peak_gib"] = torch.cuda.max_memory_allocated() / 2**30
    print(f"large: {row}", flush=True)
    return row


def main() -> None:
    """Measure, print, save."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, help="folder with yelp.tsv.gz: also measure a search (needs optuna)")
    parser.add_argument("--workers", type=int, default=3, help="runs of the search side by side")
    parser.add_argument("--large", type=int, metavar="MILLIONS", help="also an epoch of so many million interactions")
    given = parser.parse_args()
    log = yelp_like(positives=POSITIVES)
    print(log)
    speed = bandwidth()
    result: dict[str, Any] = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "copy_gb_s": speed / 1e9}
    print(result)
    result["epochs"] = epochs(log, speed)
    result["profiles"] = {name: profile(log, name) for name in ("Uniform", "VINS", "VINS, 15 tries")}
    result["evaluation"] = evaluation(log)
    if given.data:
        result["search"] = search(given.data, given.workers)
    if given.large:
        result["large"] = large(given.large * 20_000, given.large * 5_000, 50)
    save("gpu", result)


if __name__ == "__main__":
    main()
