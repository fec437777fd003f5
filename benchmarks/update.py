"""Back-test of updates: ten in a row without a refit between them, beside full refits on the same rows.

``python benchmarks/update.py DATA_FOLDER [LOG ...] [--seeds 2] [--set epochs=3]`` cuts the last 10 % of each log's time
order into eleven parts. The first model is fitted on the first 90 %, for the epochs that a validation set picks. Each
of the first ten parts makes a step: the model is updated on it (``fit(start=...)``), and beside it a model is trained
anew on the same rows with the same settings. Both are evaluated on the part that follows, on users and items they know
(NDCG@10). A part holds few rows, so single runs scatter by some per cent: each seed makes a chain of updates and refits
of its own, and the table compares means over seeds.

Everything runs on one thread, and seconds are the processor's, which other work on the machine changes little. Each
refit and each update is a JSON line in ``update.jsonl``; a run that was stopped goes on there.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections import defaultdict
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
FIXED: dict[str, Any] = {"threads": 1, "progress": False}


class BackTest:
    """The steps of one log.

    Parameters
    ----------
    folder
        Where ``NAME.tsv.gz`` is.
    name
        Which log.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.parts = slices(vr.read(folder / f"{name}.tsv.gz"))
        self.grown = [self.parts[0]]
        for part in self.parts[1 : STEPS + 1]:
            self.grown.append(self.grown[-1].extend(part))
        known = [line["epochs"] for line in lines() if line["log"] == name and line["kind"] == "refit"]
        self.epochs = known[0] if known else self._picked()

    def _picked(self) -> int:
        train, valid = self.parts[0].split_last(0.1)
        return vr.MF().fit(train, valid=valid, epochs=60, patience=5, **FIXED).history.best_epoch or 60

    def first(self, seed: int) -> vr.MF:
        """The model before the first step."""
        return vr.MF().fit(self.parts[0], epochs=self.epochs, seed=seed, **FIXED)

    def refits(self, seed: int) -> None:
        """The steps of a seed that are not there yet."""
        done = {line["step"] for line in lines() if self._is_mine(line, "refit", seed)}
        for step in range(1, STEPS + 1):
            if step not in done:
                began = time.process_time()
                model = vr.MF().fit(self.grown[step], epochs=self.epochs, seed=seed, **FIXED)
                self._keep("refit", seed, step, model, time.process_time() - began, epochs=self.epochs)

    def updates(self, seed: int, options: dict[str, Any]) -> None:
        """The same for one chain of updates, which is made again up to the step that is missing."""
        mine = [line for line in lines() if self._is_mine(line, "update", seed) and line["options"] == options]
        done = {line["step"] for line in mine}
        if len(done) == STEPS:
            return
        model = self.first(seed)
        for step in range(1, STEPS + 1):
            began = time.process_time()
            model = vr.MF().fit(self.grown[step], start=model, **FIXED, **options)
            seconds = time.process_time() - began
            if step not in done:
                self._keep("update", seed, step, model, seconds, epochs=len(model.history), options=options)

    def _is_mine(self, line: dict[str, Any], kind: str, seed: int) -> bool:
        return (line["log"], line["kind"], line["seed"]) == (self.name, kind, seed)

    def _keep(self, kind: str, seed: int, step: int, model: Any, seconds: float, **more: Any) -> None:
        line = {
            "log": self.name, "kind": kind, "seed": seed, "step": step, "value": value(model, self.parts[step + 1]),
            "cpu_seconds": round(seconds, 3), "rows": len(self.grown[step]), "new_rows": len(self.parts[step]), **more,
            "machine": machine(), "date": time.strftime("%Y-%m-%d"),
        }  # fmt: skip
        with OUT.open("a") as file:
            file.write(json.dumps(line) + "\n")


def slices(log: vr.Interactions) -> list[vr.Interactions]:
    """The first 90 % of the rows by time, then eleven parts of the rest, each with its own ids."""
    order = np.argsort(log.times, kind="stable")
    users, items = log.user_ids[log.users[order]], log.item_ids[log.items[order]]
    times = log.times[order]
    bounds = [0, *np.linspace(0.9 * len(log), len(log), STEPS + 2).astype(int)]
    return [vr.Interactions.from_arrays(users[a:b], items[a:b], times=times[a:b]) for a, b in pairwise(bounds)]


def value(model: Any, test: vr.Interactions) -> float:
    """The metric on the rows whose user and item the model knows."""
    return float(vr.evaluate(model, vr.split_like(model.train, test), at=10, metrics="ndcg", threads=1)[METRIC])


def lines() -> list[dict[str, Any]]:
    """What was measured so far."""
    return [json.loads(line) for line in OUT.read_text().splitlines()] if OUT.exists() else []


def table() -> str:
    """For each log and way of updating: quality as a share of the refits', by steps, and seconds."""
    rows = ["| log | update | seeds | mean | least | last | seconds |",
            "|---|---|---:|---:|---:|---:|---:|"]  # fmt: skip
    refits: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    ways: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for line in lines():
        if line["kind"] == "refit":
            refits[line["log"], line["step"]].append(line)
        else:
            ways[line["log"], json.dumps(line["options"])].append(line)
    for (log, options), updates in sorted(ways.items()):
        rows.append(f"| `{log}` | {_row(log, options, updates, refits)} |")
    return "\n".join(rows)


def _row(log: str, options: str, updates: list[dict[str, Any]], refits: dict[Any, list[dict[str, Any]]]) -> str:
    by_step: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for line in updates:
        if refits[log, line["step"]]:
            by_step[line["step"]].append(line)
    shares, seconds = [], []
    for step, found in sorted(by_step.items()):
        full = refits[log, step]
        shares.append(_mean(found, "value") / _mean(full, "value"))
        seconds.append(_mean(found, "cpu_seconds") / _mean(full, "cpu_seconds"))
    epochs = sorted({line["epochs"] for line in updates})
    way = " to ".join(map(str, epochs)) + f" of {refits[log, 1][0]['epochs']} epochs"
    changed = {name: given for name, given in json.loads(options).items() if name != "epochs"}
    way += "".join(f", {name} {given}" for name, given in changed.items())
    seeds = min(len(found) for found in by_step.values()), min(len(refits[log, step]) for step in by_step)
    mean = statistics.mean
    return (
        f"{way} | {seeds[0]} / {seeds[1]} | {mean(shares):.1%} | {min(shares):.1%} | {shares[-1]:.1%} "
        f"| {mean(seconds):.1%}"
    )


def _mean(found: list[dict[str, Any]], name: str) -> float:
    return statistics.mean(line[name] for line in found)


def main() -> None:
    """Measure, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, nargs="?", help="folder with NAME.tsv.gz; none: only print the table")
    parser.add_argument("logs", nargs="*", default=LOGS)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="an option of the updates")
    parser.add_argument("--only", choices=["refit", "update"])
    given = parser.parse_args()
    options = {name: json.loads(text) for name, _, text in (one.partition("=") for one in given.set)}
    for name in given.logs if given.data is not None else ():
        back_test = BackTest(given.data, name)
        for seed in range(given.seeds):
            if given.only != "update":
                back_test.refits(seed)
            if given.only != "refit":
                back_test.updates(seed, options)
    print(table())


if __name__ == "__main__":
    main()
