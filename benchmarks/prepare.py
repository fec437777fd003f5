"""A log larger than memory: ``vr.prepare_log`` of 100 million rows below 2 GiB, and seconds until ``fit`` trains on it.

The log is made here: Parquet files in the order of time, user and item ids that are text, long tails, repeated pairs.
Goals: peak memory of the process that prepares under 2 GiB; the first epoch of MF starts within 10 s per rank.

``python benchmarks/prepare.py --rows 100_000_000 --folder /tmp/large`` keeps the log there for the next time.
"""

from __future__ import annotations

import argparse
import json
import os
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
from _common import HERE, save
from _ranks import free_port, rank_environment

SAVED = HERE / "prepare.json"
PIECE = 4_000_000  # rows of a file
PEAK = """
import json, sys, threading, time
began, anonymous = time.perf_counter(), [0]
def memory():
    with open("/proc/self/status") as status:
        return {line.split(":")[0]: int(line.split()[1]) * 1024 for line in status if line.endswith(" kB\\n")}
def watch():
    while True:
        anonymous[0] = max(anonymous[0], memory()["RssAnon"])
        time.sleep(0.02)
threading.Thread(target=watch, daemon=True).start()
def used():  # resident pages, with those of mapped files; without them, looked at 50 times a second; processor time
    return {"peak": memory()["VmHWM"], "peak_anonymous": anonymous[0], "processor": round(time.process_time(), 2)}
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
    "repeats": prepared.repeats, **used()}))
"""
FIT = """
import os
import vitalrank as vr
from vitalrank import cli
from vitalrank.cli import splits
from vitalrank.engines.mf_cpu import CpuEngine
from vitalrank.engines.mf_ranks import RankedEngine
marks = {}
def after(name, call):
    def marked(*given, **named):
        result = call(*given, **named)
        marks[name] = round(time.perf_counter() - began, 2)
        return result
    return marked
def first_epoch(self, *_):
    marks["first epoch"] = round(time.perf_counter() - began, 2)
    found, train = used(), self._train
    if isinstance(self, RankedEngine):
        self._group.barrier()  # nobody leaves while others still need the group
    rows = int(train.indptr[train.own_users[1]] - train.indptr[train.own_users[0]])
    users = train.own_users[1] - train.own_users[0]
    print(json.dumps({"marks": marks, "rows": rows, "users": users, **found}), file=sys.__stdout__, flush=True)
    if isinstance(self, RankedEngine) and self._group.is_rank_zero:
        time.sleep(3)  # which hosts what the others have just asked
    os._exit(0)
CpuEngine.run_epoch = RankedEngine.run_epoch = first_epoch
splits.read_parts = after("log opened", splits.read_parts)
vr.VINS.bind = after("sampler bound", vr.VINS.bind)
marks["imported"] = round(time.perf_counter() - began, 2)
options = ["--set", f"dim={sys.argv[3]}", "--epochs", "1", "--no-progress"]
sys.argv = ["vitalrank", "fit", sys.argv[1], "--out", sys.argv[2], *options]
cli.main()
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


def start(code: str, *arguments: Any, **more: str) -> subprocess.Popen[str]:
    """A fresh interpreter."""
    command = [sys.executable, "-c", PEAK + code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **more})


def answer(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What it prints at last, as JSON."""
    out, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"a process failed with code {process.returncode}")
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


def fit_ranks(prepared: Path, ranks: int, dim: int) -> list[dict[str, Any]]:
    """Seconds from the start of each rank to its first epoch, as torchrun would have started them."""
    with tempfile.TemporaryDirectory() as out:
        if ranks == 1:
            return [answer(start(FIT, prepared, f"{out}/run", dim))]
        port = free_port()
        started = [
            start(FIT, prepared, f"{out}/run", dim, **rank_environment(rank, ranks, port)) for rank in range(ranks)
        ]
        return [answer(process) for process in started]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=lambda text: int(text.replace("_", "")), default=100_000_000)
    parser.add_argument("--memory", default="1GiB", help="what vr.prepare_log is told it may take")
    parser.add_argument("--folder", type=Path, help="where the log is kept; by default it is removed")
    parser.add_argument("--dim", type=int, default=16, help="of the model; the users' vectors take 12 bytes for each")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2], help="of fit")
    parser.add_argument("--fit-only", action="store_true", help="keep what was saved of vr.prepare_log")
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
        before = json.loads(SAVED.read_text()) if SAVED.exists() else {}
        if asked.fit_only and before.get("rows") == asked.rows:
            results |= {name: before[name] for name in ("memory", "prepare")}
        else:
            results["prepare"] = answer(start(PREPARE, log, folder / "prepared", asked.memory))
        print(json.dumps(results["prepare"]), flush=True)
        for ranks in asked.ranks:
            results[f"fit, {ranks} ranks, dim {asked.dim}"] = found = fit_ranks(folder / "prepared", ranks, asked.dim)
            print(ranks, json.dumps(found), flush=True)
    save("prepare", results)


if __name__ == "__main__":
    main()
