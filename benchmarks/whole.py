"""VINS beside LFM-W over whole runs: seconds of training, and the NDCG@10 that they buy.

    python benchmarks/whole.py --data FOLDER [--logs amazon-cds,steam,yelp,amazon-movies] [--seeds 3]

The goal: VINS in at most 0.6 of LFM-W's seconds at equal or better NDCG@10. Each sampler has its best settings of 96
trials on valid (Table 2 of ``docs/paper``), found for 120 epochs in which the learning rate falls to nothing; it also
runs for 60 and for 40 epochs, with twice the rate. VINS in each length is compared with LFM-W in the length that is
best on valid. All figures are means over seeds, but the seconds, which are those of the fastest seed, evaluation aside;
both samplers take turns.
"""

from __future__ import annotations

import argparse
import itertools
import time
from pathlib import Path
from statistics import fmean
from typing import Any

from _common import parts, save

import vitalrank as vr

DIM = 64
LENGTHS = {40: 2.0, 60: 2.0, 120: 1.0}  # epochs, and the learning rate beside the tuned one
LOOKS = 8  # evaluations of a run
TUNED: dict[str, dict[str, tuple[vr.Sampler, dict[str, float]]]] = {
    "amazon-cds": {
        "LFM-W": (vr.LFMW(margin=0.79, weight="none"), {"reg": 0.0727, "lr": 0.00417}),
        "VINS": (vr.VINS(beta=0.522, kappa=128, margin=0.779, weight="harmonic"), {"reg": 0.0653, "lr": 0.00665}),
    },
    "steam": {
        "LFM-W": (vr.LFMW(margin=1.06, weight="none"), {"reg": 0.0958, "lr": 0.00307}),
        "VINS": (vr.VINS(beta=0.565, kappa=128, margin=0.635), {"reg": 0.128, "lr": 0.0055}),
    },
    "yelp": {
        "LFM-W": (vr.LFMW(margin=0.934, weight="none"), {"reg": 0.0633, "lr": 0.00346}),
        "VINS": (vr.VINS(beta=0.426, kappa=128, margin=0.4, weight="none"), {"reg": 0.077, "lr": 0.00233}),
    },
    "amazon-movies": {
        "LFM-W": (vr.LFMW(margin=0.898, weight="none"), {"reg": 0.0706, "lr": 0.00409}),
        "VINS": (vr.VINS(beta=0.459, kappa=128, margin=0.466, weight="none"), {"reg": 0.0793, "lr": 0.0048}),
    },
}
Figures = dict[str, Any]


def run(data: Path, name: str, label: str, epochs: int, seed: int) -> Figures:
    """One whole run."""
    train, valid, test = parts(data, name)
    sampler, steps = TUNED[name][label]
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
    found: dict[str, dict[str, list[Figures]]] = {label: {str(e): [] for e in LENGTHS} for label in TUNED[name]}
    for seed, epochs, label in itertools.product(range(seeds), LENGTHS, TUNED[name]):
        found[label][str(epochs)].append(run(data, name, label, epochs, seed))
        print(name, seed, epochs, label, found[label][str(epochs)][-1], flush=True)
    lengths = {label: {e: together(runs) for e, runs in by.items()} for label, by in found.items()}
    return {**lengths, "against": against(lengths)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--logs", default=",".join(TUNED))
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    logs = {name: compare(arguments.data, name, arguments.seeds) for name in arguments.logs.split(",")}
    for name, found in logs.items():
        print(name, found["against"])
    save("whole", {"dim": DIM, "date": time.strftime("%Y-%m-%d"), "lengths": list(LENGTHS), "logs": logs})


if __name__ == "__main__":
    main()
