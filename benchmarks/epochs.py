"""Seconds of an epoch of the torch models on the CPU beside RecBole's, and how much of MARank's is sampling.

    python benchmarks/epochs.py --data FOLDER              # makes benchmarks/.peers/recbole for the peer if absent
    python benchmarks/epochs.py --data FOLDER --models SASRec,LightGCN --logs ml-100k,steam --turns 2

The goals: FPMC takes at most a fifth of RecBole's seconds for a positive, SASRec and LightGCN at most half, all with
one uniform negative, at equal dimensions, layers, heads and lengths, with 2,048 positives a step and on all cores;
sampling is at most a third of a MARank epoch, at the tries of a trained model. epochs.json says what holds; what a run
does not measure again stays in it.

Ours and RecBole's take turns, on the same interactions; the first epoch of a turn is left out. RecBole's SASRec trains
one row for each positive, with the 50 items before it. Ours trains a window of up to 50 positives in one pass, each of
which sees what comes before it in the window; a batch has so many windows as hold 2,048 positives.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from typing import Any

import numpy as np
from _common import HERE, parts, save
from _recbole import recbole_epoch
from models import Timed

import vitalrank as vr

BATCH = 2048
LENGTH = 50
TRAINED = 12  # epochs after which the tries of a sampler have grown
EPOCHS = 4  # of a turn; the first is left out: it may compile
PEER_EPOCHS = {"FPMC": 4, "SASRec": 2, "LightGCN": 2}  # an epoch of its SASRec takes minutes
MODELS: dict[str, Any] = {
    "FPMC": vr.FPMC,
    "SASRec": lambda: vr.SASRec(dim=64, length=LENGTH, layers=2, heads=2, dropout=0.2),
    "LightGCN": lambda: vr.LightGCN(dim=64, layers=3),
}
RECBOLE: dict[str, dict[str, Any]] = {
    "FPMC": {"embedding_size": 64},
    "SASRec": {
        "hidden_size": 64, "inner_size": 64, "n_layers": 2, "n_heads": 2, "MAX_ITEM_LIST_LENGTH": LENGTH,
        "hidden_dropout_prob": 0.2, "attn_dropout_prob": 0.0, "hidden_act": "relu", "loss_type": "BPR",
    },
    "LightGCN": {"embedding_size": 64, "n_layers": 3, "reg_weight": 1e-4},
}  # fmt: skip


def our_epoch(train: vr.Interactions, name: str) -> dict[str, Any]:
    batch, positives = BATCH, len(train)
    if name == "SASRec":
        targets = np.maximum(train.user_degree - 1, 0)
        positives = int(targets.sum())
        batch = round(BATCH * int(np.ceil(targets / LENGTH).sum()) / positives)  # windows
    spent: list[float] = []
    note = [lambda record, model: spent.append(time.process_time())]
    model = MODELS[name]()
    model.fit(train, vr.Uniform(), epochs=EPOCHS, batch=batch, loss="bpr", callbacks=note, progress=False)
    seconds = [record["seconds"] for record in model.history[1:]]
    return {"seconds": seconds, "cpu seconds": np.diff(spent).tolist(), "positives": positives, "batch": batch}


def beside(train: vr.Interactions, name: str, turns: int, peers: bool) -> dict[str, Any]:
    """Medians over turns, and the ratios of the seconds for a positive."""
    ours: list[dict[str, Any]] = []
    theirs: list[dict[str, Any]] = []
    before = os.getloadavg()[0]
    for _ in range(turns):
        ours.append(our_epoch(train, name))
        settings = {**RECBOLE[name], "train_batch_size": BATCH}
        peer = recbole_epoch(train, name, PEER_EPOCHS[name], settings) if peers else None
        theirs += [peer] if peer else []
    found: dict[str, Any] = {name: summary(ours)}
    if theirs:
        found[f"RecBole {name}"] = summary(theirs)
        found["ratio per positive"] = ratio(ours, theirs)
        found["turn by turn"] = [ratio([one], [other]) for one, other in zip(ours, theirs, strict=True)]
        found["ratio of cpu seconds"] = ratio(ours, theirs, "cpu seconds")  # which other load changes less
    found["load"] = [round(load, 1) for load in (before, os.getloadavg()[0])]
    return {"date": time.strftime("%Y-%m-%d"), **found}


def over(turns: list[dict[str, Any]], of: str) -> float:
    """The median of every epoch of one side."""
    return median(second for turn in turns for second in turn[of])


def summary(turns: list[dict[str, Any]]) -> dict[str, Any]:
    return {**turns[0], **{of: over(turns, of) for of in ("seconds", "cpu seconds")}}


def ratio(ours: list[dict[str, Any]], theirs: list[dict[str, Any]], of: str = "seconds") -> float:
    """For a positive."""
    each = [over(turns, of) / turns[0]["positives"] for turns in (ours, theirs)]
    return round(float(each[0] / each[1]), 4)


def sampling_share(train: vr.Interactions, sampler: object) -> dict[str, Any]:
    """Of the last epochs of a MARank run."""
    timed = Timed(sampler)
    spent = []
    model = vr.MARank()
    note = [lambda record, model: spent.append(timed.seconds)]
    model.fit(train, timed, epochs=TRAINED, callbacks=note, progress=False)
    seconds = sum(record["seconds"] for record in model.history[-3:])
    share, tries = (spent[-1] - spent[-4]) / seconds, model.history[-1]["tries"]
    found = {"share": round(share, 4), "seconds": round(seconds / 3, 3), "tries": round(tries, 2)}
    return {"date": time.strftime("%Y-%m-%d"), **found}


def median(seconds: object) -> float:
    return round(float(np.median(list(seconds))), 4)  # type: ignore[call-overload]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder of the logs, NAME.tsv.gz")
    parser.add_argument("--models", default="FPMC,SASRec,LightGCN,MARank")
    parser.add_argument("--logs", default="ml-100k,amazon-games,yelp")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--no-peers", action="store_true")
    arguments = parser.parse_args()
    path = HERE / "epochs.json"
    saved: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}  # what is not measured again is kept
    saved.update(batch=BATCH, cores=os.cpu_count())
    logs, models = arguments.logs.split(","), arguments.models.split(",")
    for name in models:
        for log in logs if name in MODELS else ():
            train = parts(arguments.data, log)[0]
            found = beside(train, name, arguments.turns, not arguments.no_peers)
            saved[f"{name} on {log}"] = found
            print(f"{name} on {log}", json.dumps(found), flush=True)
            keep(saved)
    train = parts(arguments.data, logs[0])[0]
    for sampler in (vr.Uniform(), vr.VINS(), vr.LFMW()) if "MARank" in models else ():
        name = f"MARank on {logs[0]}, {type(sampler).__name__}"
        saved[name] = sampling_share(train, sampler)
        print(name, json.dumps(saved[name]), flush=True)
    keep(saved)


def keep(saved: dict[str, Any]) -> None:
    save("epochs", {name: value for name, value in saved.items() if name not in ("machine", "date")})


if __name__ == "__main__":
    main()
