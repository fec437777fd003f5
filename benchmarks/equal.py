"""The study with equal budgets, log by log: run what is missing for as long as you like, then publish what is there.

    python benchmarks/equal.py --data FOLDER --logs steam [--budget-seconds 3600] [--workers 2]

It runs ``vitalrank paper table2`` with the settings below for every method, keeps finished runs in ``runs/equal``,
writes the tables and the page to ``docs/paper/equal``, and the trials and run-offs to ``trials.jsonl`` there, from
which another machine goes on: final runs are few and are trained again where their outcomes are not at hand.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from _common import HERE

ROOT = HERE.parent
PAGE, UNITS = ROOT / "docs" / "paper" / "equal", ROOT / "runs" / "equal" / "units"
TRIALS = PAGE / "trials.jsonl"
STUDY = (
    "--trials 8 --epochs 40 --run-seconds 6 --min-user 10 --min-item 10 --set costly_trials=8 --set model_trials=8 "
    "--set model_epochs=40 --set model_seeds=5 --set finalists=2 --set runoff_seeds=2"
)
KINDS = ("trial", "runoff")


def unpack() -> None:
    """Finished runs of another machine become this one's."""
    UNITS.mkdir(parents=True, exist_ok=True)
    for line in TRIALS.read_text().splitlines() if TRIALS.exists() else []:
        found = json.loads(line)
        place = UNITS / f"{found.pop('key')}.json"
        if not place.exists():
            place.write_text(json.dumps(found))


def pack() -> int:
    """Keep what was searched; returns how many runs that is."""
    found = {}
    for place in UNITS.glob("*.json"):
        if not place.name.endswith(".outcome.json"):
            unit = json.loads(place.read_text())
            if unit["unit"]["kind"] in KINDS:
                found[place.stem] = unit
    lines = [json.dumps({"key": key, **found[key]}) for key in sorted(found)]
    TRIALS.write_text("".join(f"{line}\n" for line in lines))
    return len(lines)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--logs", default="steam")
    parser.add_argument("--budget-seconds", default="3600")
    parser.add_argument("--workers", default="1")
    given = parser.parse_args()
    logs = [part for name in given.logs.split(",") for part in ("--data", str(given.data / f"{name}.tsv.gz"))]
    unpack()
    command = [sys.executable, "-m", "vitalrank", "paper", "table2", *logs, *STUDY.split()]
    places = ["--out", str(PAGE), "--work", str(UNITS)]
    limits = ["--budget-seconds", given.budget_seconds, "--workers", given.workers]
    subprocess.run([*command, *places, *limits], check=False)  # unfinished is no fault
    print(pack(), "runs of searches are kept")


if __name__ == "__main__":
    main()
