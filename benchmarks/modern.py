"""What samplers and losses make of today's models: SASRec, leave-one-out, and LightGCN; test NDCG@10 over seeds.

    python benchmarks/modern.py --data FOLDER [--grid published|sasrec|lightgcn] [--logs ml-1m] [--device cuda]
                                [--seeds 3] [--most 4] [--quick] [--out benchmarks/modern.jsonl]
                                [--methods uni-256] [--threads 2] [--runs benchmarks/runs] [--tries 2] [--rates 1e-3]
                                [--epochs 300] [--patience 20] [--valid-every 1] [--seconds 300]

``published``: SASRec with the settings of gSASRec's authors, with 1 and with 256 uniform negatives. ``sasrec`` and
``lightgcn``: one model, and the same number of settings tried for every sampler; on seed 0 they are compared on
validation, and the best one of a sampler is run with the other seeds.

Protocol: 5-core. SASRec: the last item of each user is the test, the one before it validation; a list is made from all
items before the test. LightGCN: the last 20 % are the test, the last 10 % of the rest validation. The whole catalogue
is ranked, items of the history are left out, the best epoch is that of validation, and the test is read once. One line
of JSON per run is appended, so that a stopped search goes on where it was; ``--most`` ends after so many runs. A run
that is stopped goes on from its last checkpoint, in a folder of ``--runs`` that is removed when the run is complete.
After ``--seconds`` the run under way ends with its best epoch so far, and says so (``stopped``: "callback"); no other
begins.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from _common import machine

import vitalrank as vr
from vitalrank.registry import SAMPLERS

Run = dict[str, Any]
HERE = Path(__file__).parent
SASREC = {"dim": 128, "length": 200, "layers": 2, "heads": 1, "dropout": 0.5}
BPR = {"loss": "bpr", "reg": 0.0}
# For every sampler three settings, each with every rate: an equal budget. ``--tries`` takes the first ones.
GRID: dict[str, list[tuple[str, dict[str, Any], dict[str, Any]]]] = {
    "uni-1": [("uni", {}, {"reg": reg}) for reg in (0.0, 1e-5, 1e-4)],
    "uni-256": [("uni", {}, {"negatives": 256, "loss": "gbce", "reg": reg}) for reg in (0.0, 1e-5, 1e-4)],
    "softmax-256": [("uni", {}, {"negatives": 256, "loss": "softmax", "reg": reg}) for reg in (0.0, 1e-5, 1e-4)],
    "dns": [
        ("dns", {"candidates": 16}, BPR), ("dns", {"candidates": 16}, {"reg": 0.0}), ("dns", {"candidates": 4}, BPR),
    ],
    "vins": [
        ("vins", {"margin": 1.0, "kappa": 64}, BPR), ("vins", {"margin": 1.0, "kappa": 64}, {"reg": 0.0}),
        ("vins", {"margin": 0.5, "kappa": 64}, BPR),
    ],
    "ahns": [
        ("ahns", {"candidates": 16}, BPR), ("ahns", {"candidates": 16}, {"reg": 0.0}), ("ahns", {"candidates": 4}, BPR),
    ],
}  # fmt: skip


def published() -> Iterator[Run]:
    """The settings of gSASRec, and the plain loss of SASRec beside them."""
    for negatives, loss in ((1, "cross_entropy"), (256, "gbce")):
        training = {"negatives": negatives, "loss": loss, "lr": 1e-3, "reg": 0.0, "batch": 128}
        yield {"method": f"uni-{negatives}", "model": "sasrec", "sampler": "uni", "sampling": {}, "training": training}


def searched(model: str, tries: int, rates: list[float]) -> Iterator[Run]:
    """The first settings of every sampler."""
    steps = {"batch": 128} if model == "sasrec" else {"batch": 4096, "loss": "bpr"}
    for method, settings in GRID.items():
        for sampler, sampling, training in settings[:tries]:
            for lr in rates:
                options = {**steps, "lr": lr, **training}
                if model == "lightgcn":  # it wants L2
                    options["reg"] = options["reg"] or 1e-4
                yield {"method": method, "model": model, "sampler": sampler, "sampling": sampling, "training": options}


@cache
def parts(folder: Path, log: str, model: str) -> tuple[vr.Interactions, ...]:
    """Train, validation, test, and all that is before the test."""
    if log == "quick":
        whole = vr.datasets.synthetic(users=300, items=200, interactions=9000, seed=0, sequence=0.7)
    else:
        whole = vr.read(folder / f"{log}.tsv.gz").k_core(5, 5)
    if model == "sasrec":
        return (*whole.split_last(count=1, valid=1), whole.split_last(count=1)[0])
    return (*whole.split_last(0.2, valid=0.1), whole.split_last(0.2)[0])


def model_of(run: Run, quick: bool) -> Any:
    """The model of a run, not fitted."""
    if run["model"] == "sasrec":
        return vr.SASRec(**({**SASREC, "dim": 16, "length": 30} if quick else SASREC))
    return vr.LightGCN(dim=16 if quick else 64, layers=3)


def callback(end: float) -> vr.training.Callback:
    """A line for an epoch, and the end of the run when the time is over."""

    def said(record: Any, model: Any) -> bool:
        valid = record.get("ndcg@10")
        if valid is not None:
            print(f"  epoch {record['epoch']}: valid ndcg@10 {valid:.4f}, {record['seconds']:.1f} s", flush=True)
        return time.monotonic() > end

    return said


def measured(run: Run, given: argparse.Namespace, end: float) -> dict[str, Any]:
    """Train, pick the epoch by validation, read the test once."""
    quick = given.quick
    train, valid, test, before = parts(given.data, run["log"], run["model"])
    sampler = SAMPLERS[run["sampler"]].load()(**run["sampling"])
    options = {**run["training"], "seed": run["seed"], "device": given.device, "threads": given.threads}
    stopped = folder_of(run, given.runs)
    stopped.parent.mkdir(parents=True, exist_ok=True)
    model = model_of(run, quick).fit(
        train, sampler, valid=valid, patience=given.patience, valid_every=given.valid_every, progress=False,
        epochs=2 if quick else given.epochs, callbacks=[callback(end)], checkpoint=stopped,
        resume=(stopped / "model.json").exists(), **options,
    )  # fmt: skip
    best = max((record["ndcg@10"] for record in model.history if "ndcg@10" in record), default=None)
    if run["model"] == "sasrec":
        model.train = before  # lists are made from what was held out for validation too
        found = vr.evaluate(model, test, at=10)
    else:
        found = vr.evaluate(model, test, at=10, exclude=valid)
    pace = sorted(record["seconds"] for record in model.history)
    return {
        "valid": best,
        "ndcg@10": found["ndcg@10"],
        "recall@10": found["recall@10"],
        "epochs": len(model.history),
        "best_epoch": model.history.best_epoch,
        "epoch_seconds": pace[len(pace) // 2],
        "seconds": sum(record["seconds"] for record in model.history),
        "stopped": model.history.stopped,
    }


def planned(given: argparse.Namespace, logs: list[str], done: dict[str, Any]) -> Iterator[Run]:
    """The runs in order; later seeds are those of the best settings of a method, once seed 0 is complete."""
    rates = [float(rate) for rate in given.rates.split(",")]
    for log in logs:
        found = published() if given.grid == "published" else searched(given.grid, given.tries, rates)
        runs = [{**run, "log": log} for run in found]
        if given.methods:
            runs = [run for run in runs if run["method"] in given.methods.split(",")]
        yield from ({**run, "seed": 0} for run in runs)
        for method in dict.fromkeys(run["method"] for run in runs):
            tried = [run for run in runs if run["method"] == method and key({**run, "seed": 0}) in done]
            if tried:
                best = max(tried, key=lambda run: done[key({**run, "seed": 0})]["valid"] or 0.0)
                yield from ({**best, "seed": seed} for seed in range(1, given.seeds))


def key(run: Run) -> str:
    """A run as text."""
    return json.dumps(run, sort_keys=True)


def folder_of(run: Run, runs: Path) -> Path:
    """Where a run is kept until it is complete."""
    return runs / hashlib.sha256(key(run).encode()).hexdigest()[:16]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of the logs")
    parser.add_argument("--grid", choices=("published", "sasrec", "lightgcn"), default="published")
    parser.add_argument("--methods", help="of the grid, separated by commas; default: all")
    parser.add_argument("--logs", help="names, separated by commas; default: ml-1m, or a made-up one with --quick")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tries", type=int, default=3, help="settings of a method")
    parser.add_argument("--rates", default="5e-4,1e-3", help="learning rates of every setting")
    parser.add_argument("--epochs", type=int, default=300)
    parser.add_argument("--patience", type=int, default=20)
    parser.add_argument("--valid-every", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--threads", type=int, help="default: all cores")
    parser.add_argument("--runs", type=Path, default=HERE / "runs", help="folder of runs that are not complete")
    parser.add_argument("--most", type=int, default=10**9, help="end after so many runs")
    parser.add_argument("--quick", action="store_true", help="a small model, two epochs")
    parser.add_argument("--out", type=Path, default=HERE / "modern.jsonl")
    given = parser.parse_args()
    lines = given.out.read_text().splitlines() if given.out.exists() else []
    done = {key(line["run"]): line["result"] for line in map(json.loads, lines)}
    device = given.device
    if device.startswith("cuda"):
        import torch

        device = torch.cuda.get_device_name(device)
    where = {"machine": machine(), "device": device, "epochs": given.epochs, "patience": given.patience}
    logs = (given.logs or ("quick" if given.quick else "ml-1m")).split(",")
    end = time.monotonic() + given.seconds
    left = given.most
    for run in planned(given, logs, done):
        if key(run) in done:
            continue
        if left == 0 or time.monotonic() > end:
            return
        left -= 1
        result = measured(run, given, end)
        done[key(run)] = result
        with given.out.open("a") as file:
            file.write(json.dumps({"run": run, "result": result, **where}) + "\n")
        shutil.rmtree(folder_of(run, given.runs))
        print(
            f"{run['log']} {run['model']} {run['method']} lr {run['training']['lr']:g} seed {run['seed']}: "
            f"ndcg@10 {result['ndcg@10']:.4f} at epoch {result['best_epoch']}, {result['epoch_seconds']:.2f} s each",
            flush=True,
        )


if __name__ == "__main__":
    main()
