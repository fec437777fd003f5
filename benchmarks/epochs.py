"""Seconds of an epoch of the torch models on the CPU: FPMC beside RecBole's, and how much of MARank's is sampling.

    python benchmarks/epochs.py --data FOLDER              # makes benchmarks/.peers/recbole for the peer if absent
    python benchmarks/epochs.py --data FOLDER --no-peers

The goals: FPMC with uniform negatives takes at most a fifth of RecBole's seconds for a positive, both at dim 64, batch
2048 and on all cores; sampling is at most a third of a MARank epoch, at the tries of a trained model. epochs.json says
what holds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from _common import parts, peers_python, save
from models import Timed

import vitalrank as vr

BATCH = 2048
EPOCHS = 4  # the first is left out: it may compile
TRAINED = 12  # epochs after which the tries of a sampler have grown
CORES = os.cpu_count() or 1
PEER = ["torch", "recbole==1.2.1", "pandas<3", "numpy<2", "scipy<1.14"]  # it asks for old versions

PEER_CODE = """
import json, sys, time
import torch
from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from recbole.utils import get_model, get_trainer, init_seed

folder, epochs, threads, batch = sys.argv[1], *map(int, sys.argv[2:5])
torch.set_num_threads(threads)
config = Config(model="FPMC", dataset="thelog", config_dict={
    "data_path": folder, "USER_ID_FIELD": "user", "ITEM_ID_FIELD": "item", "TIME_FIELD": "time",
    "load_col": {"inter": ["user", "item", "time"]}, "embedding_size": 64, "train_batch_size": batch,
    "epochs": epochs, "use_gpu": False, "show_progress": False, "state": "ERROR",
})
init_seed(0, True)
train, _, _ = data_preparation(config, create_dataset(config))
trainer = get_trainer(config["MODEL_TYPE"], "FPMC")(config, get_model("FPMC")(config, train.dataset))
seconds = []
for epoch in range(epochs):
    began = time.perf_counter()
    trainer._train_epoch(train, epoch, show_progress=False)
    seconds.append(time.perf_counter() - began)
print("FOUND", json.dumps({"seconds": seconds[1:], "positives": len(train.dataset)}))
"""


def our_epoch(train: vr.Interactions) -> dict[str, float]:
    model = vr.FPMC().fit(train, vr.Uniform(), epochs=EPOCHS, batch=BATCH, progress=False)
    return {"seconds": median(record["seconds"] for record in model.history[1:]), "positives": len(train)}


def peer_epoch(train: vr.Interactions) -> dict[str, float] | None:
    """RecBole trains on a little less: the last two items of each user are its validation and test."""
    python = peers_python(PEER, "recbole")
    if python is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        write_atomic(train, Path(folder) / "thelog" / "thelog.inter")
        command = [python, "-c", PEER_CODE, folder, str(EPOCHS), str(CORES), str(BATCH)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    lines = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    if not lines:
        raise SystemExit(f"RecBole failed:\n{done.stderr[-2000:]}")
    found = json.loads(lines[0].removeprefix("FOUND "))
    return {"seconds": median(found["seconds"]), "positives": found["positives"]}


def write_atomic(train: vr.Interactions, path: Path) -> None:
    """The log in RecBole's format, with positions for times."""
    path.parent.mkdir()
    place = np.arange(len(train)) - train.indptr[train.users]
    rows = (f"u{user}\ti{item}\t{time}" for user, item, time in zip(train.users, train.items, place, strict=True))
    path.write_text("\n".join(["user:token\titem:token\ttime:float", *rows]) + "\n")


def sampling_share(train: vr.Interactions, sampler: object) -> dict[str, float]:
    """Of the last epochs of a MARank run."""
    timed = Timed(sampler)
    spent = []
    model = vr.MARank()
    note = [lambda record, model: spent.append(timed.seconds)]
    model.fit(train, timed, epochs=TRAINED, callbacks=note, progress=False)
    seconds = sum(record["seconds"] for record in model.history[-3:])
    share = (spent[-1] - spent[-4]) / seconds
    return {"share": round(share, 4), "seconds": round(seconds / 3, 3), "tries": round(model.history[-1]["tries"], 2)}


def median(seconds: object) -> float:
    return round(float(np.median(list(seconds))), 4)  # type: ignore[call-overload]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder of the logs, NAME.tsv.gz")
    parser.add_argument("--logs", default="ml-100k,amazon-games,yelp")
    parser.add_argument("--no-peers", action="store_true")
    arguments = parser.parse_args()
    saved: dict[str, object] = {"batch": BATCH, "cores": CORES}
    logs = arguments.logs.split(",")
    for log in logs:
        train = parts(arguments.data, log)[0]
        ours, theirs = our_epoch(train), None if arguments.no_peers else peer_epoch(train)
        found: dict[str, object] = {"FPMC": ours, "RecBole FPMC": theirs}
        if theirs is not None:
            each = [one["seconds"] / one["positives"] for one in (ours, theirs)]
            found["ratio per positive"] = round(each[0] / each[1], 4)
        saved[log] = found
        print(log, json.dumps(found), flush=True)
    train = parts(arguments.data, logs[0])[0]
    for sampler in (vr.Uniform(), vr.VINS(), vr.LFMW()):
        name = f"MARank on {logs[0]}, {type(sampler).__name__}"
        saved[name] = sampling_share(train, sampler)
        print(name, json.dumps(saved[name]), flush=True)
    save("epochs", saved)


if __name__ == "__main__":
    main()
