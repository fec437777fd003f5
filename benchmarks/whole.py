"""VINS beside LFM-W over whole runs: seconds of training, and the NDCG@10 that they buy.

    python benchmarks/whole.py --data FOLDER [--logs amazon-cds,steam,yelp,amazon-movies] [--lengths 40,60,80,120]

The goal: VINS in at most 0.6 of LFM-W's seconds at equal or better NDCG@10. LFM-W is here twice: with WARP's weight, as
it was published and as ``vr.LFMW()`` has it, and with its weight searched as VINS's is. Each has its best settings of
128 trials on valid (Table 2 of ``docs/paper``), found for 120 epochs in which the learning rate falls to nothing; it
also runs for fewer, with as many times the rate, but no more than the search looked at. VINS in each length is compared
with LFM-W in the length that is best on valid; ``soonest`` is the one with the fewest seconds among those that are no
worse on valid. All figures are means over seeds, but the seconds, which are those of the fastest seed, evaluation
aside; the samplers take turns.
"""

from __future__ import annotations

import argparse
import itertools
import json
from pathlib import Path
from statistics import fmean
from typing import Any

from _common import parts, save, tuned

import vitalrank as vr
from vitalrank.paper.methods import METHODS

DIM = 64
SAVED = Path(__file__).with_name("whole.json")
LENGTHS = "40,60,80,120"
FULL = 120  # epochs that the settings were found for
FASTEST = METHODS["vins"].space["lr"].high
LOOKS = 8  # evaluations of a run
LOGS = "amazon-cds,steam,yelp,amazon-movies"
RIVALS = {"LFM-W": "lfm-w-harmonic", "LFM-W, weight searched": "lfm-w"}  # and their names in the study
NAMES = {**RIVALS, "VINS": "vins"}
Figures = dict[str, Any]


def run(data: Path, name: str, label: str, epochs: int, seed: int) -> Figures:
    """One whole run."""
    train, valid, test = parts(data, name)
    sampler, steps = tuned(name, NAMES[label])
    rate = min(FULL / epochs * steps["lr"], FASTEST)
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


def against(rival: dict[str, Figures], ours: dict[str, Figures]) -> Figures:
    """LFM-W's best run by valid, and the seconds and the quality of VINS next to it."""
    best = max(rival, key=lambda epochs: rival[epochs]["valid"])
    bar = rival[best]
    ratios = {
        epochs: {name: found[name] / bar[name] for name in ("seconds", "valid", "test")}
        for epochs, found in ours.items()
    }
    level = [epochs for epochs, found in ratios.items() if found["valid"] >= 1.0]
    soonest = min(level, key=lambda epochs: ratios[epochs]["seconds"], default=None)
    return {"best": best, "VINS": ratios, "soonest": soonest}


def compare(data: Path, name: str, lengths_of_runs: list[int], seeds: int) -> Figures:
    """All samplers on one log, in all lengths."""
    found: dict[str, dict[str, list[Figures]]] = {label: {str(e): [] for e in lengths_of_runs} for label in NAMES}
    for seed, epochs, label in itertools.product(range(seeds), lengths_of_runs, NAMES):
        found[label][str(epochs)].append(run(data, name, label, epochs, seed))
        print(name, seed, epochs, label, found[label][str(epochs)][-1], flush=True)
    lengths = {label: {e: together(runs) for e, runs in by.items()} for label, by in found.items()}
    settings = {label: [repr(sampler), steps] for label in NAMES for sampler, steps in [tuned(name, NAMES[label])]}
    return {
        "settings": settings, **lengths,
        "against": {rival: against(lengths[rival], lengths["VINS"]) for rival in RIVALS},
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--logs", default=LOGS, help="the others stay as they were saved")
    parser.add_argument("--lengths", default=LENGTHS, help="epochs of a run")
    parser.add_argument("--seeds", type=int, default=2)
    arguments = parser.parse_args()
    epochs = [int(length) for length in arguments.lengths.split(",")]
    logs = {name: compare(arguments.data, name, epochs, arguments.seeds) for name in arguments.logs.split(",")}
    for name, found in logs.items():
        for rival, ratios in found["against"].items():
            print(name, rival, ratios)
    saved = json.loads(SAVED.read_text())["logs"] if SAVED.exists() else {}
    save("whole", {"dim": DIM, "logs": {**saved, **logs}})


if __name__ == "__main__":
    main()
