"""What samplers and losses make of today's models: SASRec, leave-one-out, and LightGCN; test NDCG@10 over seeds.

    python benchmarks/modern.py --data FOLDER [--grid published|sasrec|lightgcn] [--logs ml-1m] [--device cuda]
                                [--seeds 3] [--most 4] [--quick] [--out benchmarks/modern.jsonl]
                                [--methods uni-256] [--threads 2] [--runs benchmarks/runs]

``published``: SASRec with the settings of gSASRec's authors, with 1 and with 256 uniform negatives. ``sasrec`` and
``lightgcn``: one model, and the same number of settings tried for every sampler; on seed 0 they are compared on
validation, and the best one of a sampler is run with the other seeds.

Protocol: 5-core. SASRec: the last item of each user is the test, the one before it validation; a list is made from all
items before the test. LightGCN: the last 20 % are the test, the last 10 % of the rest validation. The whole catalogue
is ranked, items of the history are left out, the best epoch is that of validation, and the test is read once. One line
of JSON per run is appended, so that a stopped search goes on where it was; ``--most`` ends after so many runs. A run
that is stopped goes on from its last epoch, in a folder of ``--runs`` that is removed when the run is complete; its
validation figures so far are printed epoch by epoch.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from _common import machine

import vitalrank as vr
from vitalrank.registry import LOSSES, SAMPLERS

Run = dict[str, Any]
HERE = Path(__file__).parent
GBCE = "gbce" if "gbce" in LOSSES else "cross_entropy"
SASREC = {"dim": 128, "length": 200, "layers": 2, "heads": 1, "dropout": 0.5}
RATES = (5e-4, 1e-3)
# For every sampler three settings, each with both rates: an equal budget.
GRID: dict[str, list[tuple[str, dict[str, Any], dict[str, Any]]]] = {
    "uni-1": [("uni", {}, {"reg": reg}) for reg in (0.0, 1e-5, 1e-4)],
    "uni-256": [("uni", {}, {"negatives": 256, "loss": GBCE, "reg": reg}) for reg in (0.0, 1e-5, 1e-4)],
    "softmax-256": [("uni", {}, {"negatives": 256, "loss": "softmax", "reg": reg}) for reg in (0.0, 1e-5, 1e-4)],
    "dns": [("dns", {"candidates": candidates}, {"reg": 0.0}) for candidates in (4, 16, 64)],
    "vins": [("vins", {"margin": margin, "kappa": 64}, {"reg": 0.0}) for margin in (0.5, 1.0, 2.0)],
}
if "ahns" in SAMPLERS:
    GRID["ahns"] = [("ahns", {"candidates": candidates}, {"reg": 0.0}) for candidates in (4, 16, 64)]


def published() -> Iterator[Run]:
    """The settings of gSASRec, and the plain loss of SASRec beside them."""
    for negatives, loss in ((1, "cross_entropy"), (256, GBCE)):
        training = {"negatives": negatives, "loss": loss, "lr": 1e-3, "reg": 0.0, "batch": 128}
        yield {"method": f"uni-{negatives}", "model": "sasrec", "sampler": "uni", "sampling": {}, "training": training}


def searched(model: str) -> Iterator[Run]:
    """Every setting of every sampler."""
    steps = {"batch": 128} if model == "sasrec" else {"batch": 4096, "loss": "bpr"}
    for method, settings in GRID.items():
        for sampler, sampling, training in settings:
            for lr in RATES:
                options = {**steps, "lr": lr, **training}
                yield {"method": method, "model": model, "sampler": sampler, "sampling": sampling, "training": options}


@cache
def parts(folder: Path, log: str, model: str, quick: bool) -> tuple[vr.Interactions, ...]:
    """Train, validation, test, and all that is before the test."""
    if quick:
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


def said(record: Any, model: Any) -> None:
    """A line for an epoch."""
    print(f"  epoch {record['epoch']}: valid ndcg@10 {record['ndcg@10']:.4f}, {record['seconds']:.1f} s", flush=True)


def measured(run: Run, given: argparse.Namespace, epochs: int) -> dict[str, Any]:
    """Train, pick the epoch by validation, read the test once."""
    quick = given.quick
    train, valid, test, before = parts(given.data, run["log"], run["model"], quick)
    sampler = SAMPLERS[run["sampler"]].load()(**run["sampling"])
    options = {**run["training"], "seed": run["seed"], "device": given.device, "threads": given.threads}
    stopped = folder_of(run, given.runs)
    stopped.parent.mkdir(parents=True, exist_ok=True)
    model = model_of(run, quick).fit(
        train, sampler, valid=valid, patience=20, progress=False, epochs=epochs, callbacks=[said],
        checkpoint=stopped, resume=(stopped / "model.json").exists(), checkpoint_epochs=1, **options,
    )  # fmt: skip
    best = max(record["ndcg@10"] for record in model.history)
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
    }


def planned(grid: str, logs: list[str], seeds: int, done: dict[str, Any]) -> Iterator[Run]:
    """The runs in order; later seeds are those of the best settings of a method, once seed 0 is complete."""
    for log in logs:
        runs = [{**run, "log": log} for run in (published() if grid == "published" else searched(grid))]
        yield from ({**run, "seed": 0} for run in runs)
        for method in dict.fromkeys(run["method"] for run in runs):
            tried = [run for run in runs if run["method"] == method and key({**run, "seed": 0}) in done]
            if tried:
                best = max(tried, key=lambda run: done[key({**run, "seed": 0})]["valid"])
                yield from ({**best, "seed": seed} for seed in range(1, seeds))


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
    parser.add_argument("--logs", default="ml-1m", help="names, separated by commas")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=300)
    parser.add_argument("--threads", type=int, help="default: all cores")
    parser.add_argument("--runs", type=Path, default=HERE / "runs", help="folder of runs that are not complete")
    parser.add_argument("--most", type=int, default=10**9, help="end after so many runs")
    parser.add_argument("--quick", action="store_true", help="a small made-up log and model, two epochs")
    parser.add_argument("--out", type=Path, default=HERE / "modern.jsonl")
    given = parser.parse_args()
    lines = given.out.read_text().splitlines() if given.out.exists() else []
    done = {key(line["run"]): line["result"] for line in map(json.loads, lines)}
    where = {"machine": machine(), "device": given.device}
    epochs = 2 if given.quick else given.epochs
    logs = ["quick"] if given.quick else given.logs.split(",")
    left = given.most
    for run in planned(given.grid, logs, given.seeds, done):
        if key(run) in done or (given.methods and run["method"] not in given.methods.split(",")):
            continue
        if left == 0:
            return
        left -= 1
        result = measured(run, given, epochs)
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
