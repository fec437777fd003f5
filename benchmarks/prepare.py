"""A log larger than memory: ``vr.prepare_log`` of 100 million rows below 2 GiB, and seconds until ``fit`` trains on it.

The log is made here: Parquet files in the order of time, user and item ids that are text, long tails, repeated pairs.
Goals: peak memory of the process that prepares under 2 GiB; the first epoch of MF starts within 10 s per rank.

``python benchmarks/prepare.py --rows 100_000_000 --folder /tmp/large`` keeps the log there for the next time.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from _common import save

PIECE = 4_000_000  # rows of a file
PEAK = """
import resource, time, sys, json
began = time.perf_counter()
def peak():
    with open("/proc/self/status") as status:
        lines = {line.split(":")[0]: line.split() for line in status}
    return {"peak": int(lines["VmHWM"][1]) * 1024, "anonymous": int(lines["RssAnon"][1]) * 1024}
"""
PREPARE = """
import logging
import vitalrank as vr
stages = {}
logging.getLogger("vitalrank").setLevel("INFO")
class Keep(logging.Handler):
    def emit(self, record):
        if record.name.endswith("running"):
            stages[record.args[0]] = round(record.args[1], 1)
logging.getLogger("vitalrank").addHandler(Keep())
prepared = vr.prepare_log(sys.argv[1], sys.argv[2], memory=sys.argv[3], test=0.1)
print(json.dumps({"seconds": time.perf_counter() - began, "stages": stages, "users": prepared.n_users,
    "items": prepared.n_items, "train": prepared.rows("train"), "test": prepared.rows("test"),
    "repeats": prepared.repeats, **peak()}))
"""
FIT = """
import vitalrank as vr
from vitalrank.engines.mf_cpu import CpuEngine
marks = {}
def mark(name):
    marks[name] = round(time.perf_counter() - began, 2)
def first_epoch(self, *_):
    mark("first epoch")
    print(json.dumps({"marks": marks, "rows": len(train), "users": train.n_users, **peak()}), flush=True)
    __import__("os")._exit(0)
CpuEngine.run_epoch = first_epoch
mark("imported")
prepared = vr.Prepared.open(sys.argv[1])
rank, ranks = int(sys.argv[2]), int(sys.argv[3])
train = prepared.users_between(*prepared.user_range(rank, ranks))
mark("log opened")
sampler = vr.VINS()
original = type(sampler).bind
def bind(self, *given, **named):
    bound = original(self, *given, **named)
    mark("sampler bound")
    return bound
type(sampler).bind = bind
vr.MF(dim=int(sys.argv[4])).fit(train, sampler=sampler, epochs=1, seed=0, progress=False)
"""


def write_log(folder: Path, rows: int, seed: int = 0) -> None:
    """Users about one for 20 rows, items one for 200, both long-tailed; every file a stretch of time."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    users, items = max(rows // 20, 10), max(rows // 200, 10)
    for number, first in enumerate(range(0, rows, PIECE)):
        count = min(PIECE, rows - first)
        user = (users * rng.beta(0.8, 2.5, count)).astype(np.int64) * 2654435761 % 2**40
        item = (items * rng.beta(0.6, 3.0, count)).astype(np.int64) * 40503 % 2**32
        when = np.sort(rng.integers(0, 86_400 * 10, count)) + 1_500_000_000 + number * 86_400 * 10
        columns = [_text(user, "user-"), _text(item, "item-"), pa.array(when)]
        path = folder / f"part-{number:05}.parquet"
        pq.write_table(pa.table(columns, ["user", "item", "time"]), path, compression="zstd", row_group_size=1 << 18)


def _text(codes: np.ndarray, prefix: str) -> pa.Array:
    return pc.binary_join_element_wise(prefix, pa.array(codes).cast(pa.string()), "")


def child(code: str, *arguments: Any) -> dict[str, Any]:
    """What a fresh interpreter prints at last, as JSON."""
    command = [sys.executable, "-c", PEAK + code, *map(str, arguments)]
    found: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=lambda text: int(text.replace("_", "")), default=100_000_000)
    parser.add_argument("--memory", default="1GiB", help="what vr.prepare_log is told it may take")
    parser.add_argument("--folder", type=Path, help="where the log is kept; by default it is removed")
    parser.add_argument("--dim", type=int, default=64)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = asked.folder or Path(scratch)
        log = folder / f"log-{asked.rows}"
        if not log.exists():
            began = time.perf_counter()
            write_log(log, asked.rows)
            print(f"log of {asked.rows:,} rows made in {time.perf_counter() - began:.0f} s", flush=True)
        results: dict[str, Any] = {"rows": asked.rows, "memory": asked.memory, "pyarrow": pa.__version__}
        results["source_bytes"] = sum(path.stat().st_size for path in log.iterdir())
        results["prepare"] = child(PREPARE, log, folder / "prepared", asked.memory)
        print(json.dumps(results["prepare"]), flush=True)
        for ranks, dim in ((1, min(asked.dim, 16)), (4, asked.dim)):
            results[f"fit, {ranks} ranks, dim {dim}"] = found = child(FIT, folder / "prepared", 0, ranks, dim)
            print(ranks, json.dumps(found), flush=True)
    save("prepare", results)


if __name__ == "__main__":
    main()
