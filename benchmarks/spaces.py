"""Which space ``tune`` searches best: 30 trials in each named space against the defaults and against 128 trials.

``python benchmarks/spaces.py --data FOLDER`` searches MF with VINS on each log with 30 trials, in each named space, and
goes on with the same studies to 128 trials; ``--spaces wide`` searches the default space alone. Settings and epochs are
picked on valid; the defaults and the winners are measured on test once. Each result is a line of spaces.jsonl and is
not computed again; a stopped study goes on. ``--show`` runs nothing and prints what there is.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from _common import machine

import vitalrank as vr
from vitalrank.tuning import Tuned
from vitalrank.tuning.spaces import SPACES

HERE = Path(__file__).parent
LOGS = "lastfm,ml-100k,online-retail,steam"
METRIC = "ndcg@10"
FEW, MANY = 30, 128


def searched(parts: tuple[vr.Interactions, ...], space: str, trials: int, storage: Path, threads: int) -> Tuned:
    """The study of a space, until it has so many trials."""
    train, valid, _ = parts
    config = vr.TrainConfig(threads=threads)
    return vr.tune(train, valid, "mf", "vins", space=space, trials=trials, config=config, storage=storage, study=space)


def on_test(parts: tuple[vr.Interactions, ...], tuned: Tuned) -> float:
    """The winner trained once more, measured on test."""
    train, valid, test = parts
    model = tuned.make_model()
    vr.Trainer(tuned.config, progress=False).fit(model, train, tuned.make_sampler(), valid)
    return float(vr.evaluate(model, test, at=10, exclude=valid)[METRIC])


def result_of(parts: tuple[vr.Interactions, ...], space: str, trials: int, given: argparse.Namespace) -> dict[str, Any]:
    """What a search found; one trial is the defaults."""
    began, busy = time.perf_counter(), time.process_time()
    tuned = searched(parts, space, trials, given.work / f"{given.log}.db", given.threads)
    values = {"valid": tuned.value, "test": on_test(parts, tuned), "winner": vars(tuned.settings)}
    seconds = {"wall": time.perf_counter() - began, "cpu": time.process_time() - busy}
    return {**values, "trials run": len(tuned.trials), **{name: round(value, 1) for name, value in seconds.items()}}


def jobs(logs: list[str], spaces: list[str]) -> Iterator[tuple[str, str, int]]:
    """Log, space and trials; short searches first."""
    yield from ((log, spaces[0], 1) for log in logs)
    for trials in (FEW, MANY):
        yield from ((log, space, trials) for log in logs for space in spaces)


def key_of(log: str, space: str, trials: int) -> tuple[str, str, int]:
    """What names a result; the defaults are the same in every space."""
    return log, "defaults" if trials == 1 else space, trials


def results(path: Path) -> dict[tuple[str, str, int], dict[str, Any]]:
    """The results there are."""
    lines = map(json.loads, path.read_text().splitlines() if path.exists() else ())
    return {(one["log"], one["space"], one["trials"]): one for one in lines}


def show(found: dict[tuple[str, str, int], dict[str, Any]]) -> None:
    """Ratios to the defaults on valid and test, and to the search of the same space with 128 trials on valid."""
    print("| log | space | trials | valid / defaults | test / defaults | valid / 128 trials |")
    print("|---" * 6 + "|")
    shares: dict[tuple[str, int], list[float]] = {}
    for (log, space, trials), one in sorted(found.items()):
        base = found.get((log, "defaults", 1))
        many = found.get((log, space, MANY))
        if base is None or trials == 1:
            continue
        ratios = [one[part] / base[part] for part in ("valid", "test")]
        whole = one["valid"] / many["valid"] if many else None
        if whole is not None:
            shares.setdefault((space, trials), []).append(whole)
        cells = [f"{ratio:.3f}" for ratio in ratios] + ["" if whole is None else f"{whole:.3f}"]
        print(f"| {log} | {space} | {trials} | {' | '.join(cells)} |")
    for (space, trials), values in shares.items():
        if trials < MANY:
            print(f"\n{space}, {trials} trials: {np.mean(values):.3f} of 128 trials, mean over {len(values)} logs")


def main() -> None:
    """Run what is missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of logs")
    parser.add_argument("--logs", default=LOGS, help="names with commas")
    parser.add_argument("--spaces", default=",".join(SPACES), help="names with commas")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=HERE / "spaces.jsonl", help="results, one line each")
    parser.add_argument("--work", type=Path, default=Path("runs/spaces"), help="folder of the studies")
    parser.add_argument("--show", action="store_true", help="print what there is")
    given = parser.parse_args()
    if given.data is not None and not given.show:
        given.work.mkdir(parents=True, exist_ok=True)
        for log, space, trials in jobs(given.logs.split(","), given.spaces.split(",")):
            key = key_of(log, space, trials)
            if key in results(given.out):
                continue
            given.log = log
            parts = vr.read(given.data / f"{log}.tsv.gz").split_last(0.2, valid=0.1)
            facts = dict(zip(("log", "space", "trials"), key, strict=True))
            line = {**facts, **result_of(parts, space, trials, given), "date": time.strftime("%Y-%m-%d")}
            print(json.dumps(line), flush=True)
            with given.out.open("a") as file:
                file.write(json.dumps({**line, "machine": machine()}) + "\n")
    show(results(given.out))


if __name__ == "__main__":
    main()
