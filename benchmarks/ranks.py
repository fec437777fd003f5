"""What several ranks cost: bytes, wire time, stages of a step, memory; two ranks against two threads; a model of more.

    sudo python benchmarks/ranks.py [--only stages,links,memory] [--short] [--show]

Log of Yelp's size, dim 64, batch 8192, one negative, Adam. Goals: at most 280 bytes for each positive; on loopback with
two ranks at most 15 % of a step for what a process alone has not to do (message, exchange, laying out). The exchange of
a step is that of the rank which came last: the others wait for it, which is imbalance and no cost of the exchange.
Ranks of one machine share memory for their messages; "loopback" is without it, as between machines.

The parts are measured and saved in ``ranks.json`` one by one, and those that are not asked for stay there; ``--show``
prints what is saved as the tables of the README. "links" needs root, for two network namespaces, and is left out
without it. ``--short`` is a trial of a few minutes, saved in ``ranks.short.json``, which git ignores: its figures mean
nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _common import HERE, YELP, machine, save, yelp_like
from _rank_stages import DIM
from _rank_tables import OWN, model, tables
from _ranks import answers, bytes_out, namespaces, run

import vitalrank as vr
from vitalrank.distributed.shared_memory import VARIABLE

SPIN = "import time; b = time.perf_counter(); sum(i * i for i in range(6_000_000)); print(time.perf_counter() - b)"
RATES = {"10 Gbit": ("10gbit", "256kb"), "1 Gbit": ("1gbit", "256kb")}  # tbf: rate and burst
WAYS = ("shared memory", "loopback")
TWO, THREADS, ALONE = "2 ranks x 1 thread", "1 process x 2 threads", "1 x 1"
MEMORY_LOG = {"users": 50_000, "items": 400_000, "positives": 1_000_000}
BLOCKS = 4
Found = list[dict[str, Any]]


def parallelism() -> float:
    """How many processes' worth of work two processes do at once: 2 on two free cores."""
    alone = min(float(line) for _ in range(3) for line in run([[sys.executable, "-c", SPIN]], [{}]))
    both = min(max(map(float, run([[sys.executable, "-c", SPIN]] * 2, [{}] * 2))) for _ in range(3))
    return round(2 * alone / both, 2)


def stages(found: Found, share: float = 0.5) -> dict[str, float]:
    """Milliseconds of each stage of a step, a quantile over the steps and a median over the ranks.

    The exchange is that of the last rank to come; how much longer the others were in it is "waiting".
    """
    steps = list(zip(*(one["steps"] for one in found), strict=True))

    def over_steps(value: Callable[[Any], float]) -> float:
        return float(1e3 * np.quantile([value(step) for step in steps], share))

    names = [name for name in found[0]["steps"][0] if name != "exchange"]
    result = {name: over_steps(lambda step, n=name: float(np.median([rank[n] for rank in step]))) for name in names}
    if len(found) > 1:
        result["exchange"] = over_steps(lambda step: min(rank["exchange"] for rank in step))
        longest = over_steps(lambda step: max(rank["exchange"] for rank in step))
        result["waiting"] = longest - result["exchange"]
    return {name: round(value, 3) for name, value in result.items()}


def overhead(found: dict[str, float]) -> float:
    """The share of a step that is spent on what a process alone has not to do, without waiting for other ranks."""
    return round(sum(found[name] for name in OWN) / (found["step"] - found["waiting"]), 3)


def measure_stages(folder: Path, asked: argparse.Namespace) -> dict[str, Any]:
    """Stages of a step by sampler, over shared memory and on loopback, beside those of one process."""
    vr.Prepared.write(folder, yelp_like(positives=asked.rows))
    results: dict[str, Any] = {"parallelism": [parallelism()]}
    for sampler in ("uni", "vins"):
        seconds: dict[str, list[float]] = {TWO: [], THREADS: [], ALONE: []}
        ways: dict[str, list[Found]] = {way: [] for way in WAYS}
        alone: list[Found] = []
        for _ in range(asked.turns):  # turn by turn, so that a busy minute hits all
            for way, measured in ways.items():
                shared = str(int(way == WAYS[0]))
                measured.append(answers("_rank_stages.py", [folder, sampler, 1, asked.steps], 2, **{VARIABLE: shared}))
            seconds[TWO].append(stages(ways[WAYS[0]][-1])["step"])
            threads = answers("_rank_stages.py", [folder, sampler, 2, asked.steps], 1)
            seconds[THREADS].append(stages(threads)["step"])
            alone.append(answers("_rank_stages.py", [folder, sampler, 1, asked.steps], 1))
            seconds[ALONE].append(stages(alone[-1])["step"])
        best = {way: min(each, key=lambda one: stages(one)["step"]) for way, each in ways.items()}
        sent, first = best[WAYS[1]][0]["sent"], best[WAYS[1]][0]
        results[sampler] = {
            "stages, ms": {way: stages(one) for way, one in best.items()},
            "10 % quantile of the stages, ms": {way: stages(one, 0.1) for way, one in best.items()},
            "one process, ms": stages(min(alone, key=lambda one: stages(one)["step"])),
            "one process, 10 % quantile, ms": stages(min(alone, key=lambda one: stages(one)["step"]), 0.1),
            "bytes a positive": round(sum(one["sent"][1] for one in best[WAYS[1]]) / first["positives"], 1),
            "bytes a step and rank": round(sent[1] / sent[0]),
            "overhead": {way: overhead(stages(one)) for way, one in best.items()},
            "overhead, 10 % quantile": {way: overhead(stages(one, 0.1)) for way, one in best.items()},
            "overheads": {way: [overhead(stages(one)) for one in each] for way, each in ways.items()},
            "steps, ms": {name: [round(one, 2) for one in each] for name, each in seconds.items()},
            "2 x 1 against 1 x 2": round(min(seconds[TWO]) / min(seconds[THREADS]), 2),
        }
        results["parallelism"].append(parallelism())
    uni = results["uni"]
    results["model"] = model(uni["stages, ms"][WAYS[1]], min(uni["steps, ms"][ALONE]), uni["bytes a positive"])
    return results


def measure_links(folder: Path, asked: argparse.Namespace) -> dict[str, Any]:
    """Stages over links of two rates between two network namespaces, and bytes on the wire for each positive."""
    vr.Prepared.write(folder, yelp_like(positives=asked.rows))
    results: dict[str, Any] = {}
    for name, (rate, burst) in RATES.items():
        with namespaces(rate, burst):
            # Namespaces of one machine share memory, which two machines do not.
            found = answers("_rank_stages.py", [folder, "uni", 1, asked.steps], 2, spaces=True, **{VARIABLE: "0"})
            on_wire = bytes_out()
        results[name] = {
            "stages": stages(found),
            "wire bytes a positive": round(on_wire / found[0]["positives"], 1),
        }
    return results


def measure_memory(folder: Path, asked: argparse.Namespace) -> dict[str, Any]:
    """The most memory of a rank by their number, in blocks and in mode exact, over an item table of 307 MB."""
    sizes = {name: size // (20 if asked.short else 1) for name, size in MEMORY_LOG.items()}
    vr.Prepared.write(folder, yelp_like(**sizes))
    table = 12 * DIM * sizes["items"]
    results: dict[str, Any] = {**sizes, "item table with moments, MB": round(table / 1e6, 1)}
    for mode, blocks in ((f"{BLOCKS} blocks", BLOCKS), ("exact", 0)):
        for ranks in (1, 2, 4):
            found = answers("_rank_memory.py", [folder, blocks], ranks)
            row = results.setdefault(mode, {})
            row[str(ranks)] = {"MB of each rank": [round(one["bytes"] / 1e6, 1) for one in found]}
    return results


PARTS: dict[str, Callable[[Path, argparse.Namespace], dict[str, Any]]] = {
    "stages": measure_stages,
    "links": measure_links,
    "memory": measure_memory,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(PARTS), help="parts, by commas")
    parser.add_argument("--short", action="store_true", help="try it: a small log and few steps")
    parser.add_argument("--show", action="store_true", help="print what is saved")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--rows", type=int, default=YELP["positives"], help="of the log")
    asked = parser.parse_args()
    if unknown := set(asked.only) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    name = "ranks.short" if asked.short else "ranks"
    if asked.short:
        asked.steps, asked.turns, asked.rows = 20, 1, 400_000
    saved = HERE / f"{name}.json"
    before = json.loads(saved.read_text()) if saved.exists() else {}
    results: dict[str, Any] = {part: before[part] for part in PARTS if part in before}
    for part in () if asked.show else asked.only:
        if part == "links" and os.geteuid() != 0:
            print("links: left out, it needs root", file=sys.stderr)
            continue
        load = os.getloadavg()[0]
        with tempfile.TemporaryDirectory() as scratch:
            found = PARTS[part](Path(scratch) / "log", asked)
        about = {
            "machine": machine(),
            "steps": asked.steps,
            "turns": asked.turns,
            "rows": asked.rows,
        }
        when = {"load": [round(load, 1), round(os.getloadavg()[0], 1)], "finished": time.strftime("%Y-%m-%d %H:%M")}
        results[part] = {**about, **when, **found}
        save(name, results)
        print(part, json.dumps(results[part]), file=sys.stderr, flush=True)
    print(tables(results))


if __name__ == "__main__":
    main()
