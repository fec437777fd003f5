"""VINS beside LFM-W over whole runs: seconds of training, and the NDCG@10 that they buy.

    python benchmarks/whole.py --data FOLDER [--logs amazon-cds,steam,yelp,amazon-movies] [--seeds 3]

The goal: VINS in at most 0.6 of LFM-W's seconds at equal or better NDCG@10. Each sampler has its best settings of 64
trials on valid (Table 2 of ``docs/paper``), found for 120 epochs in which the learning rate falls to nothing; it also
runs for 60 and for 40 epochs, with twice the rate. VINS in each length is compared with LFM-W in the length that is
best on valid. All figures are means over seeds, but the seconds, which are those of the fastest seed, evaluation aside;
both samplers take turns.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from _common import HERE, parts, save

import vitalrank as vr
from vitalrank.paper.contenders import CONTENDERS

DIM = 64
LENGTHS = {40: 2.0, 60: 2.0, 120: 1.0}  # epochs, and the learning rate beside the tuned one
LOOKS = 8  # evaluations of a run
LOGS = "amazon-cds,steam,yelp,amazon-movies"
NAMES = {"LFM-W": "lfm-w", "VINS": "vins"}  # in the study
STUDY = HERE.parent / "docs" / "paper" / "table2.json"
Figures = dict[str, Any]


def tuned(name: str, label: str) -> tuple[vr.Sampler, Figures]:
    """A sampler and its steps as the study found them on a log."""
    found = json.loads(STUDY.read_text(encoding="utf-8"))["logs"][name]["rows"][NAMES[label]]["settings"]
    steps = {key: found.pop(key) for key in ("reg", "lr")}
    return replace(CONTENDERS[NAMES[label]].sampler, **found), steps


def run(data: Path, name: str, label: str, epochs: int, seed: int) -> Figures:
    """One whole run."""
    train, valid, test = parts(data, name)
    sampler, steps = tuned(name, label)
    model = vr.MF(DIM).fit(
        train, sampler, epochs=epochs, reg=steps["reg"], lr=LENGTHS[epochs] * steps["lr"], schedule="linear",
        patience=None, valid=valid, valid_every=epochs // LOOKS, seed=seed, progress=False,
    )  # fmt: skip
    records = model.history.records
    return {
        "seconds": sum(record["seconds"] for record in records),
        "tries": fmean(record["tries"] for record in records),
        "valid": max(record["ndcg@10"] for record in records if record.get("ndcg@10") is not None),
        "test": float(vr.evaluate(model, test, at=10, metrics="ndcg", exclude=valid)["ndcg@10"]),
    }


def together(runs: list[Figures]) -> Figures:
    """Means over seeds, and the seconds of the fastest."""
    means = {name: fmean(found[name] for found in runs) for name in ("tries", "valid", "test")}
    return {"seconds": min(found["seconds"] for found in runs), **means, "seeds": len(runs)}


def against(lengths: dict[str, dict[str, Figures]]) -> Figures:
    """LFM-W's best run by valid, and the seconds and the quality of VINS next to it."""
    best = max(lengths["LFM-W"], key=lambda epochs: lengths["LFM-W"][epochs]["valid"])
    bar = lengths["LFM-W"][best]
    ratios = {
        epochs: {name: found[name] / bar[name] for name in ("seconds", "valid", "test")}
        for epochs, found in lengths["VINS"].items()
    }
    return {"LFM-W": best, "VINS": ratios}


def compare(data: Path, name: str, seeds: int) -> Figures:
    """Both samplers on one log, in all lengths."""
    found: dict[str, dict[str, list[Figures]]] = {label: {str(e): [] for e in LENGTHS} for label in NAMES}
    for seed, epochs, label in itertools.product(range(seeds), LENGTHS, NAMES):
        found[label][str(epochs)].append(run(data, name, label, epochs, seed))
        print(name, seed, epochs, label, found[label][str(epochs)][-1], flush=True)
    lengths = {label: {e: together(runs) for e, runs in by.items()} for label, by in found.items()}
    settings = {label: [repr(sampler), steps] for label in NAMES for sampler, steps in [tuned(name, label)]}
    return {"settings": settings, **lengths, "against": against(lengths)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--logs", default=LOGS)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    logs = {name: compare(arguments.data, name, arguments.seeds) for name in arguments.logs.split(",")}
    for name, found in logs.items():
        print(name, found["against"])
    save("whole", {"dim": DIM, "date": time.strftime("%Y-%m-%d"), "lengths": list(LENGTHS), "logs": logs})


if __name__ == "__main__":
    main()
