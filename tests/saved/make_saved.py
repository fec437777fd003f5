"""Make the files that later versions must go on reading: models, runs, searches and config files of one version.

    python tests/saved/make_saved.py       # once for a version; writes tests/saved/MAJOR.MINOR

What is in such a folder stays as it is. ``expected.json`` holds what the version itself read from it;
``tests/test_saved_by_earlier_versions.py`` holds every later one to that. Samplers of the runs that must give the same
numbers are uniform, whose draws do not follow from rounding, so that another processor agrees to rounding.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest.mock import patch

import vitalrank as vr
from vitalrank import cli

PLACE = Path(__file__).parent / ".".join(vr.__version__.split(".")[:2])
LOG = "log.parquet"
QUICK = ("--epochs", "3", "--threads", "1", "--seed", "1")
# name of the run -> its model, sampler and options; a callback ends it after STOP epochs
STOP = 3
RUNS: dict[str, dict[str, Any]] = {
    "stopped-uniform": {
        "model": {"dim": 4},
        "sampler": ["uni", {}],
        "options": {"epochs": 6, "lr": 0.05, "seed": 3, "threads": 1},
    },
    "stopped-vins": {
        "model": {"dim": 4, "bias": True},
        "sampler": ["vins", {"beta": 0.75, "shots": None}],
        "options": {"epochs": 6, "lr": 0.3, "optimizer": "adagrad", "valid_every": 2, "seed": 4, "threads": 1},
    },
}


def main() -> None:
    if PLACE.exists():
        raise SystemExit(f"{PLACE} is there already, and stays as it is.")
    PLACE.mkdir()
    os.chdir(PLACE)  # what is written names files by their relative paths
    log = write_log()
    expected = {
        "vitalrank": vr.__version__,
        "optuna": version("optuna"),
        "log": {"fingerprint": log.fingerprint, "rows": len(log), "users": log.n_users, "items": log.n_items},
        "models": models(log),
        "runs": {name: run(name, log) for name in RUNS},
        "commands": commands(),
    }
    Path("expected.json").write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")


def write_log() -> vr.Interactions:
    """A log of users with names, items with numbers, and times."""
    made = vr.datasets.synthetic(users=30, items=25, interactions=300, seed=4)
    users = [f"u{number}" for number in made.users]
    vr.datasets.write_log(vr.Interactions.from_arrays(users, 100 + made.items, made.times), LOG)
    return vr.read(LOG)


def models(log: vr.Interactions) -> dict[str, Any]:
    """Save a model of each kind; what it recommends, by its folder."""
    train, valid, test = log.split_last(0.2, valid=0.1)
    options: dict[str, Any] = {"epochs": 3, "lr": 0.05, "seed": 1, "threads": 1, "progress": False}
    fitted = {
        "mf": vr.MF(4).fit(train, vr.VINS(), valid=valid, **options),
        "mf-bias": vr.MF(4, bias=True).fit(train, vr.Uniform(), loss="hinge", margin=0.5, **options),
        "fpmc": vr.FPMC(4, length=2).fit(train, vr.Uniform(), **options),
        "itemknn": vr.ItemKNN(10, shrinkage=1.0).fit(train),
        "mostpopular": vr.MostPopular().fit(train),
    }
    found = {}
    for name, model in fitted.items():
        model.held_out = {"valid": valid, "test": test}
        model.save(name)
        found[name] = {
            "repr": repr(model),
            "history": model.history.records,
            "best_epoch": model.history.best_epoch,
            "stopped": model.history.stopped,
            "ndcg@10": vr.evaluate(model, test, at=10, exclude=valid)["ndcg@10"],
            **lists(model),
        }
        user = found[name]["users"][1]
        found[name]["unseen"] = model.recommend(user, n=6, exclude=[valid, test])[0].tolist()  # as the command has it
    return found


def lists(model: Any) -> dict[str, Any]:
    """What a model recommends to some users, and what it finds alike."""
    users = model.train.user_ids[[0, 7, 19]].tolist()
    ids, scores = model.recommend(users, n=6)
    alike, _ = model.similar_items(model.train.item_ids.tolist()[2], n=4)
    return {"users": users, "ids": ids.tolist(), "scores": scores.tolist(), "similar": alike.tolist()}


def run(name: str, log: vr.Interactions) -> dict[str, Any]:
    """Keep a run that a callback ended; what it had done by then, and what a copy of it comes to."""
    train, valid, _ = log.split_last(0.2, valid=0.1)
    told = RUNS[name]
    kind, settings = told["sampler"]
    options = {**told["options"], "valid": valid, "checkpoint": name, "progress": False}
    sampler = vr.samplers.find_sampler(kind)(**settings)
    callbacks = [lambda record, model: record["epoch"] == STOP]
    stopped = vr.MF(**told["model"]).fit(train, sampler, callbacks=callbacks, **options)
    halfway = {"history": stopped.history.records, "best_epoch": stopped.history.best_epoch, **lists(vr.load(name))}
    shutil.copytree(name, "copy")
    end = vr.MF(**told["model"]).fit(train, sampler, **{**options, "checkpoint": "copy", "resume": True})
    shutil.rmtree("copy")
    return {
        **told,
        "halfway": halfway,
        "end": {"history": end.history.records, "best_epoch": end.history.best_epoch, **lists(end)},
    }


def commands() -> dict[str, Any]:
    """Run the commands that keep folders, and have each write its config file."""
    sets = ("--set", "dim=4", "--set", "shots=none")
    words: dict[str, tuple[str, ...]] = {
        "fit": ("fit", LOG, "--out", "fit", *QUICK, "--sampler", "vins", *sets, "--lr", "0.02", "--no-progress"),
        "compare": (
            *("compare", LOG, "--out", "compare", *QUICK[:4], "--samplers", "uni,vins", "--models", "mf,mostpopular"),
            *("--seeds", "2", "--set", "mf.dim=4", "--set", "vins.beta=0.75", "--min-user", "3"),
        ),
        "tune": (
            *("tune", LOG, "--out", "tune", *QUICK, "--sampler", "dns", "--trials", "3", "--pruner", "none"),
            *("--range", "dim=2,4", "--range", "lr=0.001..0.1:log", "--set", "top=2"),
        ),
    }
    for name, line in words.items():
        with patch("socket.gethostname", return_value="host"):  # a study names the machine of each trial
            call(*line, "--save-config", f"{name}.toml")
    ranking = json.loads(Path("compare/results.json").read_text(encoding="utf-8"))["ranking"]
    Path("compare/report.html").unlink()  # a page for people, made again by the same command
    return {
        "words": {name: list(line) for name, line in words.items()},
        "fit": {"history": vr.load("fit").history.records, **lists(vr.load("fit"))},
        "compare": [{"label": row["label"], "ndcg@10": row["ndcg@10"], "runs": row["runs"]} for row in ranking],
        "tune": Path("tune/trials.csv").read_text(encoding="utf-8").splitlines(),
    }


def call(*words: str) -> None:
    """A command, run in this process."""
    before, sys.argv = sys.argv, ["vitalrank", *words]
    try:
        cli.main()
    except SystemExit as stop:
        if stop.code:
            raise
    finally:
        sys.argv = before


if __name__ == "__main__":
    main()
