"""What ``inspect`` may promise: what the exponent of the degree does to the head's share of the lists and to quality.

``python benchmarks/advice.py DATA_FOLDER [LOG ...]`` trains MF(dim=32) with VINS at five values of beta on each log, at
most 40 epochs, the best by valid kept, one seed. Each run is a JSON line in ``advice.jsonl``; what is there is not run
again. ``python benchmarks/advice.py`` alone prints the table of ``docs/diagnose.md``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from _common import HERE

import vitalrank as vr

LOGS = ("lastfm", "ml-100k", "steam", "online-retail", "ml-1m", "yelp-2019")
BETAS = (0.0, 1.0, 0.5, 0.25, 0.75)
OUT = HERE / "advice.jsonl"


def lines() -> list[dict[str, Any]]:
    """What was measured so far."""
    return [json.loads(line) for line in OUT.read_text().splitlines()] if OUT.exists() else []


def measure(folder: Path, names: list[str]) -> None:
    """Train what is not there yet."""
    done = {(line["log"], line["beta"]) for line in lines()}
    for name in names:
        train, valid, test = vr.read(folder / f"{name}.tsv.gz").split_last(0.2, valid=0.1)
        for beta in BETAS:
            if (name, beta) in done:
                continue
            model = vr.MF(dim=32).fit(
                train, vr.VINS(beta=beta), valid=valid, epochs=40, patience=5, seed=0, threads=1, progress=False
            )
            shown = vr.analysis.exposure(model, 10, exclude=[valid])
            clustering = vr.analysis.frequency_clustering(model).score
            line = {
                "log": name, "beta": beta, "best_epoch": model.history.best_epoch, "epochs": len(model.history),
                "ndcg@10": vr.evaluate(model, test, at=10, exclude=valid, metrics="ndcg")["ndcg@10"],
                "head": shown.head, "coverage": shown.coverage, "clustering": clustering,
            }  # fmt: skip
            with OUT.open("a") as file:
                file.write(json.dumps(line) + "\n")


def table() -> str:
    """The head's share of the lists and NDCG@10 at three values of beta, and what NDCG@10 changed by."""
    found = {(line["log"], line["beta"]): line for line in lines()}
    rows = [
        "| log | head at beta 0 / 0.5 / 1 | NDCG@10 at beta 0 / 0.5 / 1 | from 0 to 0.5 | from 0.5 to 1 |",
        "|---|---|---|---:|---:|",
    ]
    for name in LOGS:
        three = [found.get((name, beta)) for beta in (0.0, 0.5, 1.0)]
        if None in three:
            continue
        low, middle, high = (one for one in three if one is not None)
        heads = " / ".join(f"{100 * one['head']:.0f}" for one in (low, middle, high))
        values = " / ".join(f"{one['ndcg@10']:.4f}" for one in (low, middle, high))
        steps = ((low, middle), (middle, high))
        changes = [f"{100 * (after['ndcg@10'] / before['ndcg@10'] - 1):+.1f} %" for before, after in steps]
        rows.append(f"| `{name}` | {heads} % | {values} | {' | '.join(changes)} |")
    return "\n".join(rows)


def ranges(first: float, last: float) -> tuple[tuple[int, int], tuple[int, int]]:
    """Least and most points that the head lost between two values of beta, and of the change of NDCG@10 in %."""
    found = {(line["log"], line["beta"]): line for line in lines()}
    pairs = [(found[name, first], found[name, last]) for name in LOGS]
    points = [round(100 * (one["head"] - two["head"])) for one, two in pairs]
    changes = [round(100 * (two["ndcg@10"] / one["ndcg@10"] - 1)) for one, two in pairs]
    return (min(points), max(points)), (min(changes), max(changes))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measure(Path(sys.argv[1]), sys.argv[2:] or list(LOGS))
    print(table())
