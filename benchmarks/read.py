"""Reading a log of Yelp's size: seconds against bare parsing, the filters' seconds, and memory per row.

Goals: ``vr.read`` at most 2.5 times the seconds pyarrow needs to parse the same file; ``k_core`` and ``split_last``
together at most 1.5 s; peak memory under 150 bytes per row above the bare interpreter.
"""

from __future__ import annotations

import gzip
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
from _common import save

import vitalrank as vr

USERS, ITEMS, ROWS = 113_917, 93_850, 3_200_000
REPEATS = 5
PEAK = """
def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
"""


def write_log(path: Path, strings: bool) -> None:
    """Long-tailed users and items, times in random order: nothing in the file helps the reader."""
    rng = np.random.default_rng(0)
    user = (USERS * rng.beta(0.6, 1.6, ROWS)).astype(np.int64)
    item = (ITEMS * rng.beta(0.5, 1.8, ROWS)).astype(np.int64)
    when = rng.integers(1_100_000_000, 1_600_000_000, ROWS)
    # Every id occurs at least once.
    user[:USERS], item[:ITEMS] = rng.permutation(USERS), rng.permutation(ITEMS)
    columns = [_names(user), _names(item)] if strings else [pa.array(user), pa.array(item)]
    table = pa.table([*columns, pa.array(when)], ["user", "item", "time"])
    with gzip.open(path, "wb", compresslevel=6) as file:
        pacsv.write_csv(table, file, pacsv.WriteOptions(delimiter="\t", quoting_style="none"))


def _names(codes: np.ndarray) -> pa.Array:
    """22 letters each, as the ids of the Yelp files."""
    return pa.array([f"{code * 2654435761 % 2**40:022x}" for code in codes.tolist()])


def best(*calls: Callable[[], Any]) -> list[float]:
    """Least seconds of each call; the calls take turns, so that other load on the machine hits them alike."""
    seconds: list[list[float]] = [[] for _ in calls]
    for _ in range(REPEATS):
        for call, times in zip(calls, seconds, strict=True):
            begin = time.perf_counter()
            call()
            times.append(time.perf_counter() - begin)
    return [min(times) for times in seconds]


def peak_bytes(code: str) -> int:
    """Highest resident memory of a fresh interpreter that runs the code."""
    done = subprocess.run([sys.executable, "-c", f"{PEAK}\n{code}\nprint(peak())"], capture_output=True, check=True)
    return int(done.stdout)


def measure(path: Path) -> dict[str, float]:
    """All figures for one file."""
    log = vr.read(path)
    parse, read, filters = best(
        lambda: pacsv.read_csv(path, parse_options=pacsv.ParseOptions(delimiter="\t")),
        lambda: vr.read(path),
        lambda: replace(log).k_core(user=10, item=10).split_last(0.2, valid=0.1),
    )
    above = peak_bytes(f"import vitalrank as vr; log = vr.read({str(path)!r})") - peak_bytes("")
    return {
        "parse_seconds": parse,
        "read_seconds": read,
        "read_over_parse": read / parse,
        "filter_seconds": filters,
        "bytes_per_row": above / ROWS,
        "rows_after_repeats": len(log),
    }


def main() -> None:
    results: dict[str, Any] = {"rows": ROWS, "users": USERS, "items": ITEMS}
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("ints", "strings"):
            path = Path(folder) / f"{kind}.tsv.gz"
            write_log(path, strings=kind == "strings")
            results[kind] = measure(path)
    print(f"{'':22}{'ints':>12}{'strings':>12}")
    for name in results["ints"]:
        print(f"{name:22}{results['ints'][name]:12.2f}{results['strings'][name]:12.2f}")
    save("read", {"pyarrow": pa.__version__, **results})


if __name__ == "__main__":
    main()
