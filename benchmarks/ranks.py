"""What several ranks cost: bytes, wire time, stages of a step, two ranks against two threads, and a model of more.

    sudo python benchmarks/ranks.py            # root makes the two network namespaces; without it that part is left out

Log of Yelp's size, dim 64, batch 8192, one negative, Adam. Goals: at most 280 bytes for each positive; on loopback with
two ranks at most 15 % of a step for what a process alone has not to do (message, exchange, laying out). The exchange of
a step is that of the rank which came last: the others wait for it, which is imbalance and no cost of the exchange.
Ranks of one machine share memory for their messages; "loopback" is without it, as between machines.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from _common import HERE, YELP, save, yelp_like
from _rank_stages import BATCH, DIM
from _ranks import free_port, rank_environment

import vitalrank as vr
from vitalrank.distributed.shared_memory import VARIABLE

SPIN = "import time; b = time.perf_counter(); sum(i * i for i in range(6_000_000)); print(time.perf_counter() - b)"
RATES = {"10 Gbit": ("10gbit", "256kb"), "1 Gbit": ("1gbit", "256kb")}  # tbf: rate and burst
TWO = "2 ranks x 1 thread"
SPACES = ("vitalrank-a", "vitalrank-b")
OWN = ("message", "exchange", "lay out")  # stages that a process alone has not
SHARED = ("load", "draw", "update, users", "message")  # stages of which each rank has its share
Found = list[dict[str, Any]]


def run(commands: Sequence[Sequence[str]], environments: Sequence[dict[str, str]]) -> list[str]:
    """What processes that run at once print last."""
    started = [
        subprocess.Popen(command, env={**os.environ, **own}, stdout=subprocess.PIPE, text=True)
        for command, own in zip(commands, environments, strict=True)
    ]
    found = [process.communicate(timeout=600)[0] for process in started]
    if any(process.returncode for process in started):
        raise SystemExit(f"exit codes {[process.returncode for process in started]}")
    return [out.splitlines()[-1] for out in found]


def train(
    folder: Path, sampler: str, ranks: int, threads: int, steps: int, spaces: Sequence[str] = (), shared: bool = False
) -> Found:
    """The steps of each rank: over shared memory, on loopback, or each in its own network namespace."""
    address, port = ("10.77.0.1" if spaces else "127.0.0.1"), free_port()
    command = [sys.executable, str(HERE / "_rank_stages.py"), str(folder), sampler, str(threads), str(steps)]
    if ranks == 1:
        return [json.loads(run([command], [{}])[0])]
    places = [["ip", "netns", "exec", space] for space in spaces] or [[]] * ranks
    own = [
        rank_environment(r, ranks, port, address, f"veth-{'ab'[r]}" if spaces else "lo", here=1 if spaces else None)
        for r in range(ranks)
    ]
    own = [{**one, VARIABLE: str(int(shared))} for one in own]
    return [json.loads(line) for line in run([place + command for place in places], own)]


def parallelism() -> float:
    """How many processes' worth of work two processes do at once: 2 on two free cores."""
    alone = min(float(line) for _ in range(3) for line in run([[sys.executable, "-c", SPIN]], [{}]))
    both = min(max(map(float, run([[sys.executable, "-c", SPIN]] * 2, [{}] * 2))) for _ in range(3))
    return 2 * alone / both


def stages(found: Found) -> dict[str, float]:
    """Median milliseconds of each stage of a step, over the ranks; the exchange is that of the last to come."""
    steps = list(zip(*(one["steps"] for one in found), strict=True))
    names = [name for name in found[0]["steps"][0] if name != "exchange"]
    result = {name: 1e3 * median(median(rank[name] for rank in step) for step in steps) for name in names}
    if len(found) > 1:
        result["exchange"] = 1e3 * median(min(rank["exchange"] for rank in step) for step in steps)
        result["waiting"] = 1e3 * median(max(rank["exchange"] for rank in step) for step in steps) - result["exchange"]
    return {name: round(value, 3) for name, value in result.items()}


def overhead(found: dict[str, float]) -> float:
    """The share of a step that is spent on what a process alone has not to do, without waiting for other ranks."""
    return sum(found[name] for name in OWN) / (found["step"] - found["waiting"])


# ------------------------------------------------------------------------------------------- two namespaces


@contextmanager
def namespaces(rate: str, burst: str) -> Iterator[None]:
    """Two network namespaces with a link of that rate between them."""

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True)

    for space in SPACES:
        subprocess.run(["ip", "netns", "del", space], capture_output=True, check=False)
    try:
        for space in SPACES:
            ip("netns", "add", space)
        first, second = SPACES
        ip("link", "add", "veth-a", "netns", first, "type", "veth", "peer", "name", "veth-b", "netns", second)
        for number, (space, name) in enumerate(zip(SPACES, ("veth-a", "veth-b"), strict=True), 1):
            ip("-n", space, "addr", "add", f"10.77.0.{number}/24", "dev", name)
            ip("-n", space, "link", "set", name, "up")
            ip("-n", space, "link", "set", "lo", "up")
            shape = ["tc", "-n", space, "qdisc", "add", "dev", name, "root", "tbf", "rate", rate, "burst", burst]
            subprocess.run([*shape, "latency", "100ms"], check=True)
        yield
    finally:
        for space in SPACES:
            subprocess.run(["ip", "netns", "del", space], capture_output=True, check=False)


def bytes_out(space: str, name: str) -> int:
    """Bytes that have left an interface, headers included."""
    shown = subprocess.run(["ip", "-n", space, "-s", "-j", "link", "show", name], capture_output=True, check=True)
    return int(json.loads(shown.stdout)[0]["stats64"]["tx"]["bytes"])


def wire(folder: Path, rate: str, burst: str, steps: int) -> dict[str, Any]:
    """Stages over a shaped link, and bytes on the wire for each positive that a rank sends."""
    with namespaces(rate, burst):
        found = train(folder, "uni", 2, 1, steps, SPACES)
        out = sum(bytes_out(space, name) for space, name in zip(SPACES, ("veth-a", "veth-b"), strict=True))
    return {"stages": stages(found), "wire bytes a positive": round(out / found[0]["positives"], 1)}


# ------------------------------------------------------------------------------------------- the model


def model(found: dict[str, float], alone: float, message_bytes: float) -> dict[str, Any]:
    """Hours of an epoch by the stages measured here with one thread a rank: a model, not a measurement.

    ``alone`` are the milliseconds of a step of one process with one thread, and one rank of the model.
    """
    shared = sum(found[name] for name in SHARED) * 2 / BATCH / 1e3  # of two ranks; seconds for a positive
    all_ranks = (found["lay out"] + found["update"]) / BATCH / 1e3
    hours: dict[str, dict[str, dict[str, float]]] = {}
    for gbit in (10, 100):
        for rows in (10**9, 10**10, 10**11):
            for ranks in (1, 8, 16, 32, 64):
                transfer = message_bytes * 8 * (ranks - 1) / ranks / (gbit * 1e9)
                each = shared / ranks + all_ranks + transfer if ranks > 1 else alone / BATCH / 1e3
                row = hours.setdefault(f"{gbit} Gbit", {}).setdefault(f"{rows:.0e}", {})
                row[str(ranks)] = round(rows * each / 3600, 3)
    return {
        "assumptions": (
            "mode exact; one rank a machine, one thread a rank; time for a positive of load, draw, the users' half of "
            "the update and the message falls with the ranks, that of laying out and of the items' update does not; "
            "every rank receives the messages of all others over its own full-duplex link, at its full rate, not "
            "overlapped with the rest; rows are spread evenly; caches as at this log's size; nobody dies"
        ),
        "microseconds a positive": {"shared by the ranks": 1e6 * shared, "on every rank": 1e6 * all_ranks},
        "hours of an epoch": hours,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--rows", type=int, default=YELP["positives"], help="of the log")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        vr.Prepared.write(folder, yelp_like(positives=asked.rows))
        results: dict[str, Any] = {"batch": BATCH, "dim": DIM, "load before": os.getloadavg()[0]}
        results["parallelism"] = [round(parallelism(), 2)]
        for sampler in ("uni", "vins"):
            seconds: dict[str, list[float]] = {TWO: [], "1 process x 2 threads": [], "1 x 1": []}
            ways: dict[str, list[dict[str, float]]] = {"shared memory": [], "loopback": []}
            for _ in range(asked.turns):  # turn by turn, so that a busy minute hits all
                for way, measured in ways.items():
                    found = train(folder, sampler, 2, 1, asked.steps, shared=way == "shared memory")
                    measured.append(stages(found))
                seconds[TWO].append(ways["shared memory"][-1]["step"])
                seconds["1 process x 2 threads"].append(stages(train(folder, sampler, 1, 2, asked.steps))["step"])
                seconds["1 x 1"].append(stages(train(folder, sampler, 1, 1, asked.steps))["step"])
            best = {way: min(measured, key=lambda one: one["step"]) for way, measured in ways.items()}
            results[sampler] = {
                "stages, ms": best,
                "bytes a positive": round(found[0]["sent"][1] / (found[0]["positives"] / 2), 1),
                "bytes a step and rank": round(found[0]["sent"][1] / found[0]["sent"][0]),
                "overhead": {way: round(overhead(one), 3) for way, one in best.items()},
                "overheads": {way: [round(overhead(one), 3) for one in each] for way, each in ways.items()},
                "steps, ms": {name: [round(one, 2) for one in each] for name, each in seconds.items()},
                "2 x 1 against 1 x 2": round(min(seconds[TWO]) / min(seconds["1 process x 2 threads"]), 2),
            }
            results["parallelism"].append(round(parallelism(), 2))
            print(sampler, json.dumps(results[sampler]), flush=True)
        results["links"] = {}
        for name, (rate, burst) in RATES.items() if os.geteuid() == 0 else ():
            results["links"][name] = wire(folder, rate, burst, asked.steps)
            print(name, json.dumps(results["links"][name]), flush=True)
        uni = results["uni"]
        alone = min(uni["steps, ms"]["1 x 1"])
        results["model"] = model(uni["stages, ms"]["loopback"], alone, uni["bytes a positive"])
    results["load after"], results["finished"] = os.getloadavg()[0], time.strftime("%H:%M")
    save("ranks", results)


if __name__ == "__main__":
    main()
