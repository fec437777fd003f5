"""Quality against training time beside the peers, on real logs: the README's picture.

    python benchmarks/race.py --data FOLDER [--logs amazon-cds,ml-1m,yelp] [--budget 60]

Protocol: 10-core, each user's last 20 % is test, the last 10 % of the rest valid. Every method has the same cores, 64
dimensions and a few settings (``OURS`` and ``PEERS`` below), each trained until its epochs or the budget of seconds are
spent. The curve shown is of the setting whose best NDCG@10 on valid is highest. All vectors are ranked by the same
code, and only training is timed: no evaluation, no compilation. Methods run one after the other, in one sitting.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from _common import HERE, parts, peers_python, save

import vitalrank as vr
from vitalrank.models.base import DotRecommender

CORES = os.cpu_count() or 1
OURS: dict[str, list[tuple[Any, dict[str, Any]]]] = {
    "vitalrank VINS": [
        (vr.VINS(), {"epochs": 40}),
        (vr.VINS(beta=0.25), {"lr": 0.006, "reg": 0.05, "batch": 2048, "epochs": 20}),
        (vr.VINS(beta=0.25), {"lr": 0.004, "reg": 0.05, "batch": 2048, "epochs": 60, "schedule": "linear"}),
    ],
    "vitalrank Uniform": [(vr.Uniform(), {"epochs": 40}), (vr.Uniform(), {"epochs": 40, "lr": 0.006, "reg": 0.05})],
}
PEERS: dict[str, list[dict[str, Any]]] = {
    "implicit ALS": [{"regularization": reg, "alpha": alpha} for reg, alpha in ((0.01, 1), (0.1, 10), (10.0, 10))],
    "implicit BPR": [{"learning_rate": lr, "regularization": 0.01} for lr in (0.02, 0.05, 0.1)],
    "LightFM WARP": [{"learning_rate": 0.05}, {"learning_rate": 0.05, "item_alpha": 1e-6, "user_alpha": 1e-6}],
    "cornac BPR": [{"learning_rate": lr, "lambda_reg": 0.01} for lr in (0.02, 0.05)],
    "RecBole DNS": [
        {"train_batch_size": 2048, "learning_rate": lr,
         "train_neg_sample_args": {"distribution": "uniform", "sample_num": 1, "dynamic": True, "candidate_num": 32}}
        for lr in (0.002,)
    ],
}  # fmt: skip
RECBOLE = ["torch==2.13.0", "recbole==1.2.1", "pandas<3", "numpy<2", "scipy<1.14"]  # it asks for old versions
COLOURS = {
    "vitalrank VINS": "#D55E00", "vitalrank Uniform": "#E69F00", "implicit ALS": "#0072B2", "implicit BPR": "#56B4E9",
    "LightFM WARP": "#009E73", "cornac BPR": "#999999", "RecBole DNS": "#CC79A7",
}  # fmt: skip
Curve = dict[str, Any]


class Vectors(DotRecommender):
    """Vectors of anybody's, ranked as ours are."""

    def __init__(self, train: vr.Interactions, users: Any, items: Any) -> None:
        self.train = train
        self._users, self._items = np.ascontiguousarray(users), np.ascontiguousarray(items)

    def fit(self, train: vr.Interactions) -> Vectors:
        return self

    def queries(self, users: Any) -> Any:
        return self._users[users]

    @property
    def item_table(self) -> Any:
        return self._items

    def settings(self) -> dict[str, Any]:
        return {}

    def tensors(self) -> dict[str, Any]:
        return {}

    def restore(self, tensors: Any, record: Any) -> None:
        raise SystemExit("the vectors of a benchmark are not saved")


def quality(model: Any, valid: vr.Interactions, test: vr.Interactions) -> tuple[float, float]:
    """NDCG@10 on valid and on test."""
    measured = [
        vr.evaluate(model, part, at=10, metrics="ndcg", exclude=rest)["ndcg@10"]
        for part, rest in ((valid, None), (test, valid))
    ]
    return measured[0], measured[1]


def our_curve(logs: tuple[vr.Interactions, ...], sampler: Any, options: dict[str, Any], budget: float) -> Curve:
    train, valid, test = logs
    curve: Curve = {"settings": f"{sampler!r} {options}", "seconds": [], "valid": [], "test": []}
    seconds = 0.0

    def look(record: dict[str, Any], model: Any) -> bool:
        nonlocal seconds
        seconds += record["seconds"]
        if record["epoch"] % 2 == 0:
            note(curve, seconds, quality(model, valid, test))
        return seconds > budget

    vr.MF(dim=64).fit(train, sampler, seed=0, callbacks=[look], progress=False, **options)
    return curve


def peer_curve(logs: tuple[vr.Interactions, ...], name: str, settings: dict[str, Any], budget: float) -> Curve | None:
    train, valid, test = logs
    is_recbole = name.startswith("RecBole")
    python = peers_python(RECBOLE, "recbole") if is_recbole else peers_python(["implicit", "cornac", "lightfm-next"])
    if python is None:
        return None
    curve: Curve = {"settings": json.dumps(settings), "seconds": [], "valid": [], "test": []}
    with tempfile.TemporaryDirectory() as folder:
        scipy.sparse.save_npz(Path(folder) / "train.npz", train.csr)
        command = [python, HERE / "race_peers.py", name, folder, json.dumps(settings), CORES, budget]
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # implicit asks for it: its own threads are faster
        done = subprocess.run(
            [str(part) for part in command], capture_output=True, text=True, cwd=folder, env=environment
        )
        lines = [line for line in done.stdout.splitlines() if line.startswith("SECONDS ")]
        if not lines:
            raise SystemExit(f"{name} failed:\n{done.stderr[-2000:]}")
        for number, seconds in enumerate(json.loads(lines[0].removeprefix("SECONDS "))):
            with np.load(Path(folder) / f"{number}.npz") as arrays:
                note(curve, seconds, quality(Vectors(train, arrays["users"], arrays["items"]), valid, test))
    return curve


def note(curve: Curve, seconds: float, found: tuple[float, float]) -> None:
    for name, value in zip(("seconds", "valid", "test"), (seconds, *found), strict=True):
        curve[name].append(round(value, 5))


def race(folder: Path, log: str, budget: float) -> dict[str, list[Curve]]:
    """Curves of every method and setting on a log, best on valid first."""
    logs = parts(folder, log)
    vr.MF(dim=64).fit(logs[0], vr.VINS(), epochs=1, progress=False)  # compile
    found: dict[str, list[Curve]] = {}
    for name, runs in OURS.items():
        found[name] = [our_curve(logs, sampler, options, budget) for sampler, options in runs]
    for name, choices in PEERS.items():
        curves = [curve for settings in choices if (curve := peer_curve(logs, name, settings, budget))]
        if curves:
            found[name] = curves
    for name, curves in found.items():
        curves.sort(key=lambda curve: -max(curve["valid"]))
        best = curves[0]
        at = int(np.argmax(best["valid"]))
        print(f"{log:12s} {name:18s} test {best['test'][at]:.4f} after {best['seconds'][at]:7.2f} s", flush=True)
    return found


def draw(logs: dict[str, dict[str, list[Curve]]], path: Path) -> None:
    """One panel per log: the best test NDCG@10 so far, by the epoch that is best on valid so far."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    matplotlib.rcParams.update({"svg.hashsalt": "race", "font.family": "sans-serif", "svg.fonttype": "none"})
    figure, axes = pyplot.subplots(
        1, len(logs), figsize=(4 + 3.2 * len(logs), 4.2), squeeze=False, layout="constrained"
    )
    figure.patch.set_facecolor("white")  # legible on dark pages too
    for axis, (log, found) in zip(axes[0], logs.items(), strict=True):
        for name, curves in found.items():
            seconds, test = so_far(curves[0])
            wide = 2.6 if name == "vitalrank VINS" else 1.5
            axis.plot(seconds, test, color=COLOURS[name], linewidth=wide, label=name, marker=".", markersize=4)
        axis.set_xscale("log")
        axis.set_ylim(0)
        axis.set_title(log, loc="left", fontsize=10)
        axis.set_xlabel(f"training seconds, {CORES} cores (log scale)")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0, 0].set_ylabel("NDCG@10 on test")
    axes[0, -1].legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(path, metadata={"Date": None})


def so_far(curve: Curve) -> tuple[list[float], list[float]]:
    """What one has after so many seconds who keeps the epoch that is best on valid."""
    best = np.maximum.accumulate(curve["valid"])
    keeper = [int(np.flatnonzero(np.asarray(curve["valid"][: n + 1]) == best[n])[0]) for n in range(len(best))]
    return curve["seconds"], [curve["test"][n] for n in keeper]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the logs, NAME.tsv.gz")
    parser.add_argument("--logs", default="amazon-cds")
    parser.add_argument("--budget", type=float, default=60, help="most training seconds of a run")
    parser.add_argument("--only-draw", action="store_true")
    arguments = parser.parse_args()
    if arguments.only_draw:
        logs = json.loads((HERE / "race.json").read_text(encoding="utf-8"))["logs"]
    else:
        began = time.perf_counter()
        logs = {log: race(arguments.data, log, arguments.budget) for log in arguments.logs.split(",")}
        save("race", {"budget": arguments.budget, "seconds": round(time.perf_counter() - began), "logs": logs})
    draw(logs, HERE.parent / "docs" / "images" / "race.svg")


if __name__ == "__main__":
    main()
