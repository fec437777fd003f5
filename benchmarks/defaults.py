"""MF with VINS at its default settings, next to the defaults of other models, on seven logs.

    python benchmarks/defaults.py --data FOLDER [--logs steam,...] [--settings default,ours]
    python benchmarks/defaults.py    # the table of what defaults.jsonl holds

The split of the other benchmarks: k-core on both sides, each user's last 20 % is test, the last 10 % of the rest valid,
on which MF picks its epoch. ``default`` is ``vr.MF().fit(train, valid=valid)``; the other rows of ``CANDIDATES`` are
what might become the defaults, measured likewise. ``tuned`` is VINS as found by the study of ``docs/paper``, on the
four logs that it has. Each result is a line and is not computed again; one seed.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from _common import HERE, parts, study

import vitalrank as vr

OUT = HERE / "defaults.jsonl"
LOGS = ("steam", "amazon-games", "online-retail", "amazon-cds", "ml-1m", "yelp", "amazon-movies")  # cheapest first
EXACT = vr.VINS(margin=0.75, shots=None, weight="none")
CANDIDATES: dict[str, tuple[vr.VINS, dict[str, Any]]] = {
    "default": (vr.VINS(), {}),
    "exact": (EXACT, {"epochs": 40, "lr": 0.012, "reg": 0.08, "schedule": "linear", "valid_every": 4}),
    "linear": (vr.VINS(), {"epochs": 40, "lr": 0.006, "schedule": "linear", "valid_every": 4}),
}
BASELINES = ("ItemKNN", "implicit ALS")
Parts = tuple[vr.Interactions, ...]


class Vectors(vr.ALS):
    """Vectors from elsewhere, ranked as ours are."""

    def take(self, train: vr.Interactions, users: Any, items: Any) -> Vectors:
        self.train = train
        self._users, self._items = (np.ascontiguousarray(table, np.float32) for table in (users, items))
        return self


def fitted(name: str, logs: Parts) -> Any:
    train, valid, _ = logs
    if name == "ItemKNN":
        return vr.ItemKNN().fit(train)
    if name == "implicit ALS":
        from implicit.cpu.als import AlternatingLeastSquares

        theirs = AlternatingLeastSquares(random_state=0)
        theirs.fit(train.csr, show_progress=False)
        return Vectors().take(train, theirs.user_factors, theirs.item_factors)
    sampler, training = CANDIDATES[name]
    return vr.MF().fit(train, sampler, valid=valid, seed=0, progress=False, **training)


def measure(folder: Path, log: str, name: str) -> dict[str, Any]:
    logs = parts(folder, log)
    began = time.process_time()
    model = fitted(name, logs)
    spent = time.process_time() - began
    value = vr.evaluate(model, logs[2], at=10, exclude=logs[1], metrics="ndcg")["ndcg@10"]
    found = {"log": log, "settings": name, "test": round(value, 5), "processor": round(spent, 1)}
    return found | ({"epoch": model.history.best_epoch} if name in CANDIDATES else {})


def results() -> dict[tuple[str, str], dict[str, Any]]:
    """By log and settings."""
    lines = [json.loads(line) for line in OUT.read_text().splitlines()] if OUT.exists() else []
    return {(line["log"], line["settings"]): line for line in lines}


def table(found: dict[tuple[str, str], dict[str, Any]]) -> str:
    """NDCG@10 on test; in brackets, over tuned VINS and over the better baseline."""
    rows = [f"| log | {' | '.join(CANDIDATES)} | tuned | {' | '.join(BASELINES)} |"]
    rows += ["|---" + "|---:" * (len(CANDIDATES) + 1 + len(BASELINES)) + "|"]
    ratios: dict[str, list[float]] = {}
    for log in LOGS:
        row = study()["logs"].get(log, {}).get("rows", {}).get("vins", {})
        tuned = row["metrics"]["ndcg@10"]["mean"] if row else None
        others = [found[log, name]["test"] for name in BASELINES if (log, name) in found]
        cells = []
        for name in CANDIDATES:
            value = found.get((log, name), {}).get("test")
            over = {"of tuned": tuned, "of the better": max(others, default=None)}
            parts_of = {kind: value / other for kind, other in over.items() if value and other}
            for kind, ratio in parts_of.items():
                ratios.setdefault(f"{name} {kind}", []).append(ratio)
            shown = ", ".join(f"{100 * (ratio - 1):+.1f} %" for ratio in parts_of.values())
            cells.append(f"{value:.4f} ({shown})" if value else "")
        cells += ["" if tuned is None else f"{tuned:.4f}"]
        cells += [f"{found[log, name]['test']:.4f}" if (log, name) in found else "" for name in BASELINES]
        rows.append(f"| {log} | {' | '.join(cells)} |")
    told = [
        f"- {name}: mean {np.mean(some):.3f}, lowest {min(some):.3f}, {len(some)} logs" for name, some in ratios.items()
    ]
    return "\n".join([*rows, "", *told])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of the logs; without it nothing is run")
    parser.add_argument("--logs", default=",".join(LOGS))
    parser.add_argument("--settings", default=",".join((*BASELINES, *CANDIDATES)))
    given = parser.parse_args()
    for log in given.logs.split(",") if given.data else ():
        for name in given.settings.split(","):
            if (log, name) not in results():
                line = {**measure(given.data, log, name), "date": time.strftime("%Y-%m-%d")}
                print(line, flush=True)
                with OUT.open("a") as file:
                    file.write(json.dumps(line) + "\n")
    print(table(results()))


if __name__ == "__main__":
    main()
