"""VINS beside LFM-W over whole runs: seconds of training, and the NDCG@10 that they buy.

    python benchmarks/whole.py --data FOLDER [--logs amazon-cds,steam,yelp,amazon-movies] [--seeds 3]

The goal: VINS in at most 0.6 of LFM-W's seconds at equal or better NDCG@10. Each sampler has its best settings of 128
trials on valid (Table 2 of ``docs/paper``), found for 120 epochs in which the learning rate falls to nothing; it also
runs for 80 and for 60 epochs, with one and a half times and with twice the rate, but no more than the search looked at.
VINS in each length is compared with LFM-W in the length that is best on valid. All figures are means over seeds, but
the seconds, which are those of the fastest seed, evaluation aside; both samplers take turns.
"""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path
from statistics import fmean
from typing import Any

from _common import parts, save, tuned

import vitalrank as vr
from vitalrank.paper.contenders import CONTENDERS

DIM = 64
LENGTHS = {60: 2.0, 80: 1.5, 120: 1.0}  # epochs, and the learning rate beside the tuned one
FASTEST = CONTENDERS["vins"].space["lr"].high
LOOKS = 8  # evaluations of a run
LOGS = "amazon-cds,steam,yelp,amazon-movies"
NAMES = {"LFM-W": "lfm-w", "VINS": "vins"}  # in the study
Figures = dict[str, Any]


def run(data: Path, name: str, label: str, epochs: int, seed: int) -> Figures:
    """One whole run."""
    train, valid, test = parts(data, name)
    sampler, steps = tuned(name, NAMES[label])
    rate = min(LENGTHS[epochs] * steps["lr"], FASTEST)
    model = vr.MF(DIM).fit(
        train, sampler, epochs=epochs, reg=steps["reg"], lr=rate, schedule="linear", patience=None, valid=valid,
        valid_every=epochs // LOOKS, seed=seed, progress=False,
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
    settings = {label: [repr(sampler), steps] for label in NAMES for sampler, steps in [tuned(name, NAMES[label])]}
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
    save("whole", {"dim": DIM, "lengths": list(LENGTHS), "logs": logs})


if __name__ == "__main__":
    main()
