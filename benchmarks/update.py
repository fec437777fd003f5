"""Back-test of updates: ten new days, the model updated on each, beside a full refit on the same rows.

``python benchmarks/update.py DATA_FOLDER [LOG ...]`` cuts the last 10 % of each log's time order into ten steps. The
first model is fitted on the first 90 %, for the epochs that a validation part picks. After each step it is updated
(``fit(start=...)``), ten times in a row without a refit, and a second model is trained anew on the same rows with the
same settings; both are evaluated on the rows of the next step, on users and items they know (NDCG@10, the last step on
nothing and so not evaluated). Each step is a JSON line in ``update.jsonl``; a run that was stopped goes on there.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from _common import HERE, machine

import vitalrank as vr

LOGS = ("steam", "online-retail", "ml-1m", "amazon-games")
STEPS = 10
OUT = HERE / "update.jsonl"
METRIC = "ndcg@10"


def slices(log: vr.Interactions) -> list[vr.Interactions]:
    """The first 90 % of the rows by time, then ten parts of the rest, each with its own ids."""
    order = np.argsort(log.times, kind="stable")
    users, items = log.user_ids[log.users[order]], log.item_ids[log.items[order]]
    times = log.times[order]
    bounds = [0, *np.linspace(0.9 * len(log), len(log), STEPS + 1).astype(int)]
    return [vr.Interactions.from_arrays(users[a:b], items[a:b], times=times[a:b]) for a, b in pairwise(bounds)]


def value(model: Any, test: vr.Interactions) -> float:
    """The metric on the rows whose user and item the model knows."""
    return float(vr.evaluate(model, vr.split_like(model.train, test), at=10, metrics="ndcg")[METRIC])


def run(folder: Path, name: str, epochs: int, lr: float | None) -> None:
    """The steps of one log that are not there yet."""
    key = {"log": name, "update_epochs": epochs, "update_lr": lr}
    done = [line for line in lines() if all(line[field] == wanted for field, wanted in key.items())]
    if len(done) == STEPS - 1:
        return
    parts = slices(vr.read(folder / f"{name}.tsv.gz"))
    train, valid = parts[0].split_last(0.1)
    picked = vr.MF().fit(train, valid=valid, epochs=60, patience=5, progress=False).history.best_epoch or 60
    model = vr.MF().fit(parts[0], epochs=picked, progress=False)
    grown = parts[0]
    for step in range(1, STEPS):
        grown = grown.extend(parts[step])
        options: dict[str, Any] = {"epochs": epochs, "progress": False, **({} if lr is None else {"lr": lr})}
        stale = value(model, parts[step + 1])
        began = time.perf_counter()
        model = vr.MF().fit(grown, start=model, **options)
        update_seconds = time.perf_counter() - began
        if step <= len(done):
            continue
        began = time.perf_counter()
        full = vr.MF().fit(grown, epochs=picked, progress=False)
        refit_seconds = time.perf_counter() - began
        line = {
            **key, "step": step, "refit_epochs": picked, "rows": len(grown), "new_rows": len(parts[step]),
            "updated": value(model, parts[step + 1]), "refit": value(full, parts[step + 1]), "not_updated": stale,
            "update_seconds": round(update_seconds, 3), "refit_seconds": round(refit_seconds, 3),
            "machine": machine(), "date": time.strftime("%Y-%m-%d"),
        }  # fmt: skip
        with OUT.open("a") as file:
            file.write(json.dumps(line) + "\n")


def lines() -> list[dict[str, Any]]:
    """What was measured so far."""
    return [json.loads(line) for line in OUT.read_text().splitlines()] if OUT.exists() else []


def table() -> str:
    """For each log: quality of the updated model as a share of the refit's, and seconds."""
    rows = ["| log | epochs | steps | mean | least | last | seconds |", "|---|---:|---:|---:|---:|---:|---:|"]
    measured = lines()
    for log, epochs, lr in sorted({(one["log"], one["update_epochs"], one["update_lr"] or 0) for one in measured}):
        steps = [
            one for one in measured if (one["log"], one["update_epochs"], one["update_lr"] or 0) == (log, epochs, lr)
        ]
        share = [one["updated"] / one["refit"] for one in steps]
        seconds = sum(one["update_seconds"] for one in steps) / sum(one["refit_seconds"] for one in steps)
        shown = f"{epochs} of {steps[0]['refit_epochs']}"
        rows.append(
            f"| `{log}` | {shown} | {len(steps)} | {statistics.mean(share):.1%} | {min(share):.1%} | {share[-1]:.1%} "
            f"| {seconds:.1%} |"
        )
    return "\n".join(rows)


def main() -> None:
    """Measure, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, nargs="?", help="folder with NAME.tsv.gz; none: only print the table")
    parser.add_argument("logs", nargs="*", default=LOGS)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--lr", type=float)
    given = parser.parse_args()
    if given.data is not None:
        for name in given.logs:
            run(given.data, name, given.epochs, given.lr)
    print(table())


if __name__ == "__main__":
    main()
