"""Does the sampler pay more where the model costs more? MF, FPMC and MARank under four samplers on real sequences.

    python benchmarks/models.py --data FOLDER [--device cuda] [--workers 8] [--budget-seconds 360]
    python benchmarks/models.py --data FOLDER --pace       # seconds of each winner to its best epoch, alone
    python benchmarks/models.py --summary                  # the table of the runs saved so far

Protocol: k-core on both sides (10; 5 for steam and amazon-games), test = last ceil(20 %) of each user, valid = last
10 % of the rest. Seed 0 tries the settings of GRID and MORE; the two best by valid are run with the other seeds, and
the better mean on valid wins. The best epoch by valid is kept and test is read once. One line of JSON per run is
appended to models.jsonl, so that a search that was stopped goes on where it was. Runs side by side share the machine
and their seconds depend on each other; so ``--pace`` trains winners again alone, and the table has the mean seconds of
an epoch of such runs of a log, model and sampler times the epochs that the seeds took to their best on average. The
last epochs before a best one gain next to nothing, so the claims also say how long VINS takes to 99 % of LFM-W's best
on valid, each with the sooner of its two finalists.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from _common import HERE, parts, save

Run = dict[str, Any]


def settings(pace: tuple[float, int | None], regs: tuple[float, ...]) -> list[Run]:
    return [{"lr": pace[0], "batch": pace[1], "reg": reg} for reg in regs]


LOGS = ("ml-100k", "steam", "amazon-games", "yelp")
# Learning rate, batch (None: by the size of the log) and L2 weight, each of the last in turn.
GRID = {
    "MARank": settings((0.003, None), (2e-2, 3.5e-2, 6e-2, 1.2e-1)),
    "FPMC": settings((0.003, None), (2e-2, 6e-2, 1.2e-1)),
    "MF": settings((0.003, None), (3e-2, 6e-2, 1.2e-1)),
}
SAMPLERS = {"VINS": "VINS", "Uni": "Uniform", "LFM-W": "LFMW", "DNS": "DNS"}
# MARank is asked how long VINS and LFM-W take, so both are tuned more, one as much as the other.
MORE: dict[tuple[str, str], list[Run]] = {
    ("MARank", "VINS"): [{"margin": 0.5}, {"margin": 2.0}, {"beta": 0.25}, {"beta": 0.25, "margin": 0.5}],
    ("MARank", "LFM-W"): [{"margin": 0.5}, {"margin": 2.0}, {"margin": 0.7}, {"margin": 1.5}],
}
MORE_TRAINING = settings((0.003, None), (3.5e-2, 6e-2))
# What is asked first: VINS against uniform and WARP, where the model is costly.
ORDER = [(model, samplers) for samplers in (("VINS", "Uni", "LFM-W"), ("DNS",)) for model in GRID]
FINALISTS = 2
_NEAR = 0.99  # of the best quality of LFM-W
FITTING = {"epochs": 200, "patience": 5, "valid_every": 3, "progress": False}
_JOB = ("log", "model", "sampler", "options", "training", "seed")
_TRIED = ("options", "training")  # of the sampler, and of the steps


# ---------------------------------------------------------------------------------------------------- one run


@cache
def warm(model: str, sampler: str, device: str) -> None:
    """Compile what a run needs, so that its seconds are of training alone."""
    import vitalrank as vr

    log = vr.datasets.synthetic(users=200, items=150, interactions=4000, seed=0)
    train, valid = log.split_last(0.2)
    chosen = getattr(vr, SAMPLERS[sampler])()
    getattr(vr, model)().fit(train, chosen, valid=valid, epochs=2, device=device, progress=False)


class Timed:
    """A sampler that counts the seconds spent in it."""

    def __init__(self, sampler: Any) -> None:
        self._sampler = sampler
        self.seconds = 0.0

    def bind(self, *arguments: Any, **options: Any) -> Timed:
        self._sampler = self._sampler.bind(*arguments, **options)
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sampler, name)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        began = time.perf_counter()
        draw = self._sampler(*arguments, **options)
        self.seconds += time.perf_counter() - began
        return draw


def run(folder: str, device: str, threads: int, end: float, job: Run) -> Run:
    """Train one model, stop at ``end`` (seconds since 1970), and say what came out."""
    import vitalrank as vr

    warm(job["model"], job["sampler"], device)
    train, valid, test = parts(folder, job["log"])
    sampler = getattr(vr, SAMPLERS[job["sampler"]])(**job["options"])
    timed = Timed(sampler) if device == "cpu" else sampler  # on a GPU nobody waits for the sampler
    options = {**FITTING, **job["training"], "seed": job["seed"], "device": device, "threads": threads}
    model = getattr(vr, job["model"])()
    model.fit(train, timed, valid=valid, callbacks=[lambda record, model: time.time() > end], **options)
    history = model.history
    best = history.best_epoch or len(history)
    seconds = [record["seconds"] for record in history]
    share = {"sampling_share": round(timed.seconds / sum(seconds), 4)} if device == "cpu" else {}
    return {
        **{name: job[name] for name in _JOB},
        "device": device,
        "cut": history.stopped == "callback",
        "best_epoch": best,
        "epochs": len(history),
        "seconds": round(sum(seconds), 3),
        "seconds_to_best": round(sum(seconds[:best]), 3),
        "seconds_per_epoch": round(float(np.median(seconds)), 4),
        "tries": round(history[best - 1]["tries"], 2),
        "curve": [round(record["ndcg@10"], 5) for record in history if "ndcg@10" in record],
        **share,
        "valid": round(history[best - 1].get("ndcg@10", float("nan")), 5),
        "test": round(vr.evaluate(model, test, at=10, exclude=valid, metrics="ndcg", threads=threads)["ndcg@10"], 5),
    }


# ---------------------------------------------------------------------------------------------------- what to run


def key(job: Run) -> str:
    return json.dumps([job[name] for name in _JOB])


def read_runs(path: Path, device: str) -> list[Run]:
    """Whole runs that are saved, made on that device."""
    lines = path.read_text().splitlines() if path.exists() else []
    runs = [{"options": {}, **json.loads(line)} for line in lines]
    return [job for job in runs if not job["cut"] and job["device"] == device]


def cells(arguments: argparse.Namespace) -> Iterator[tuple[str, str, str]]:
    """Log, model and sampler, the most wanted first."""
    for model, samplers in ORDER:
        for log in arguments.logs.split(","):
            for sampler in samplers:
                if model in arguments.models.split(",") and sampler in arguments.samplers.split(","):
                    yield log, model, sampler


def next_jobs(done: list[Run], arguments: argparse.Namespace) -> Iterator[Run]:
    """Jobs that can be begun now: all of seed 0, and other seeds where seed 0 is through."""
    known = {key(job) for job in done}
    for log, model, sampler in cells(arguments):
        cell = {"log": log, "model": model, "sampler": sampler}
        tried = [{**cell, **choice, "seed": 0} for choice in choices(model, sampler)]
        left = [job for job in tried if key(job) not in known]
        if not left:
            seeds = range(1, arguments.seeds)
            again = [{**cell, **best, "seed": seed} for best in finalists(done, cell) for seed in seeds]
            left = [job for job in again if key(job) not in known]
        yield from left


def choices(model: str, sampler: str) -> Iterator[Run]:
    """What is tried for a sampler with a model."""
    for training in GRID[model]:
        yield {"options": {}, "training": training}
    for options in MORE.get((model, sampler), []):
        for training in MORE_TRAINING:
            yield {"options": options, "training": training}


def runs_of(done: list[Run], cell: Run) -> list[Run]:
    """The runs of a cell."""
    return [job for job in done if all(job[name] == value for name, value in cell.items())]


def finalists(done: list[Run], cell: Run) -> list[Run]:
    """The settings that seed 0 did best with on valid."""
    tried = sorted(runs_of(done, {**cell, "seed": 0}), key=lambda job: -job["valid"])
    return [{name: job[name] for name in _TRIED} for job in tried[:FINALISTS]]


def best_choice(done: list[Run], cell: Run) -> Run:
    """The finalist with the best mean on valid."""
    return max(finalists(done, cell), key=lambda choice: _mean(runs_of(done, {**cell, **choice}), "valid"))


def _mean(runs: list[Run], name: str) -> float:
    return float(np.mean([job[name] for job in runs]))


def search(arguments: argparse.Namespace) -> None:
    """Run what is left, several at a time, until the budget is spent."""
    end = time.time() + arguments.budget_seconds
    done = read_runs(arguments.out, arguments.device)
    begun = {key(job) for job in done}
    threads = max(1, (os.cpu_count() or 1) // arguments.workers)
    waiting: set[Future[Run]] = set()
    with ProcessPoolExecutor(arguments.workers, get_context("spawn")) as pool:
        while time.time() < end:
            free = arguments.workers - len(waiting)
            for job in [job for job in next_jobs(done, arguments) if key(job) not in begun][:free]:
                begun.add(key(job))
                waiting.add(pool.submit(run, arguments.data, arguments.device, threads, end, job))
            if not waiting:
                break
            finished, waiting = wait(waiting, timeout=5.0, return_when=FIRST_COMPLETED)
            done += [result for future in finished if (result := kept(future, arguments.out))]
        for future in waiting:
            kept(future, arguments.out)


def pace(arguments: argparse.Namespace) -> None:
    """Seconds of each winner to its best epoch while nothing else runs; what was told before stays."""
    path = arguments.out.with_suffix(".pace.json")
    told = read_paces(path)
    done, end = read_runs(arguments.out, arguments.device), time.time() + arguments.budget_seconds
    for log, model, sampler in cells(arguments):
        cell = {"log": log, "model": model, "sampler": sampler}
        if not runs_of(done, cell):
            continue  # not searched for yet
        best = {**cell, **best_choice(done, cell)}
        epochs = round(_mean(runs_of(done, best), "best_epoch"))
        job = {**best, "seed": 0}
        if key(job) not in told and time.time() < end:
            for count in (1, epochs):  # the first may compile
                whole = {**job["training"], "epochs": count, "patience": epochs}
                found = run(arguments.data, arguments.device, os.cpu_count() or 1, end, {**job, "training": whole})
            if found["cut"]:
                break
            told[key(job)] = [epochs, found["seconds"]]
            print(log, model, sampler, told[key(job)], flush=True)
            path.write_text(json.dumps(told, indent=1) + "\n")


def read_paces(path: Path) -> dict[str, list[float]]:
    """Epochs and their seconds, alone, by the key of a run."""
    return json.loads(path.read_text()) if path.exists() else {}


def kept(future: Future[Run], path: Path) -> Run | None:
    """Write down what a run found; one that failed is told and left out."""
    try:
        result = future.result()
    except Exception as error:
        print(f"failed: {error!r}", flush=True)
        return None
    with path.open("a") as out:
        out.write(json.dumps(result) + "\n")
    print(" ".join(f"{name}={value}" for name, value in result.items()), flush=True)
    return None if result["cut"] else result


# ---------------------------------------------------------------------------------------------------- what came out


def summary(path: Path, device: str) -> dict[str, Run]:
    """For each log, model and sampler at its best settings: means over seeds."""
    done, told = read_runs(path, device), read_paces(path.with_suffix(".pace.json"))
    table: dict[str, Run] = {}
    for log, model, sampler in sorted({(job["log"], job["model"], job["sampler"]) for job in done}):
        cell = {"log": log, "model": model, "sampler": sampler}
        best = {**cell, **best_choice(done, cell)}
        runs = runs_of(done, best)
        means = {name: round(_mean(runs, name), 4) for name in _MEANS}
        if each := seconds_alone(told, cell):
            means |= {"seconds_per_epoch": round(each, 4), "seconds_to_best": round(each * means["best_epoch"], 3)}
        spread = round(float(np.std([job["test"] for job in runs])), 4)
        table[f"{log} {model} {sampler}"] = {
            **best["training"],
            **best["options"],
            "seeds": len(runs),
            "alone": each is not None,
            "epochs_near_lfm_w": epochs_near(done, cell),
            **means,
            "test_deviation": spread,
        }
    return table


def seconds_alone(told: dict[str, list[float]], cell: Run) -> float | None:
    """Seconds of an epoch that had the machine to itself, whatever its settings."""
    own = [pair for job, pair in told.items() if json.loads(job)[: len(cell)] == list(cell.values())]
    return sum(seconds for _, seconds in own) / sum(epochs for epochs, _ in own) if own else None


def epochs_near(done: list[Run], cell: Run) -> int | None:
    """Epochs until the seeds' best so far on valid comes near LFM-W's best, on average and at the sooner finalist."""
    curves = [mean_curve(done, {**cell, **choice}) for choice in finalists(done, cell)]
    warp = {**cell, "sampler": "LFM-W"}
    bests = [max(curve) for choice in finalists(done, warp) if (curve := mean_curve(done, {**warp, **choice}))]
    level = _NEAR * max(bests, default=np.inf)
    reached = [[n for n, value in enumerate(curve, 1) if value >= level] for curve in curves]
    return min((first[0] * FITTING["valid_every"] for first in reached if first), default=None)


def mean_curve(done: list[Run], choice: Run) -> list[float]:
    """The best so far on valid at each look, mean over the seeds; a run that stopped keeps its best."""
    own = [job["curve"] for job in runs_of(done, choice) if "curve" in job]
    longest = max(map(len, own), default=0)
    bests = [np.maximum.accumulate(curve + [0.0] * (longest - len(curve))) for curve in own]
    return [float(value) for value in np.mean(bests, 0)] if own else []


_MEANS = ("test", "valid", "best_epoch", "seconds_to_best", "seconds_per_epoch", "tries")


def show(table: dict[str, Run]) -> None:
    names = ("seeds", "lr", "reg", "NDCG@10", "+-", "epoch", "s to best", "tries")
    print(" " * 30 + "{:>6s}{:>7s}{:>8s}{:>9s}{:>8s}{:>7s}{:>11s}{:>8s}".format(*names))
    for name, row in table.items():
        print(
            f"{name:30s}{row['seeds']:6d}{row['lr']:7g}{row['reg']:8g}{row['test']:9.4f}{row['test_deviation']:8.4f}"
            f"{row['best_epoch']:7.1f}{row['seconds_to_best']:11.2f}{row['tries']:8.1f}"
        )


def claims(table: dict[str, Run]) -> dict[str, dict[str, float]]:
    """VINS over uniform in quality, and over LFM-W in seconds, for each log and model."""
    found: dict[str, dict[str, float]] = {}
    for cell in sorted({name.rpartition(" ")[0] for name in table}):
        vins, uni, warp = (table.get(f"{cell} {sampler}") for sampler in ("VINS", "Uni", "LFM-W"))
        if vins and uni and warp:
            found[cell] = {
                "ndcg, VINS / Uni": round(vins["test"] / uni["test"], 3),
                "ndcg, VINS / LFM-W": round(vins["test"] / warp["test"], 3),
                "seconds, VINS / LFM-W": round(vins["seconds_to_best"] / warp["seconds_to_best"], 3),
            }
            near = [row["epochs_near_lfm_w"] for row in (vins, warp)]
            if all(near):
                pace = [row["seconds_per_epoch"] for row in (vins, warp)]
                found[cell]["seconds to 99 %, VINS / LFM-W"] = round(near[0] * pace[0] / (near[1] * pace[1]), 3)
            print(cell, found[cell])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of the logs, NAME.tsv.gz")
    parser.add_argument("--logs", default=",".join(LOGS))
    parser.add_argument("--models", default=",".join(GRID))
    parser.add_argument("--samplers", default=",".join(SAMPLERS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--budget-seconds", type=float, default=1e9)
    parser.add_argument("--out", type=Path, default=HERE / "models.jsonl")
    parser.add_argument("--pace", action="store_true")
    parser.add_argument("--summary", action="store_true")
    arguments = parser.parse_args()
    if arguments.pace:
        pace(arguments)
    elif not arguments.summary:
        search(arguments)
    table = summary(arguments.out, arguments.device)
    show(table)
    save(arguments.out.stem, {"device": arguments.device, "runs": table, "claims": claims(table)})


if __name__ == "__main__":
    main()
