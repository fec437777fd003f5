"""Full-catalogue evaluation against the bare blocked matrix product on the same cores.

    python benchmarks/evaluate.py [--users 113917] [--items 93850] [--dim 64] [--repeats 3]

The claim: ranking every item for every user, seen items struck out, and measuring NDCG and the rest at N = 10 takes at
most 1.5 times the seconds of only multiplying the two tables tile by tile (NumPy's BLAS, the fastest of several
tile shapes), in less than 1 GiB above the tables. The two take turns, so that both see the same machine.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
from _common import peak_above, save

import vitalrank as vr

TILES = [(128, 512), (256, 2048), (512, 2048), (512, 4096), (1024, 4096)]  # users x items
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
GOAL = {"ratio": 1.5, "mebibytes": 1024}


def tables(train: vr.Interactions, dim: int, seed: int) -> vr.MF:
    """A model of random vectors; how good they are does not matter for speed."""
    rng = np.random.default_rng(seed)
    rows = {"users": train.n_users, "items": train.n_items}
    model = vr.MF(dim)
    model.train = train
    model.restore(
        {name: rng.standard_normal((count, dim), np.float32) for name, count in rows.items()}, {"history": []}
    )
    return model


def make_log(users: int, items: int, seed: int) -> tuple[vr.Interactions, vr.Interactions]:
    """About 28 interactions per user, items with a long tail; every user and item occurs."""
    rng = np.random.default_rng(seed)
    rows = 27 * users
    user = np.concatenate([np.arange(users), rng.integers(0, users, rows), rng.integers(0, users, items)])
    item = np.concatenate([(items * rng.random(users + rows) ** 3).astype(np.int64), np.arange(items)])
    return vr.Interactions.from_arrays(user, item).split_last(0.2)


def bare_product(model: vr.MF, tile: tuple[int, int], limit: int | None = None) -> None:
    """Multiply the two tables tile by tile; of the users only the first ``limit``."""
    table = model.tensors()
    users, items = table["users"][:limit], table["items"]
    out = np.empty(tile, np.float32)
    for first in range(0, len(users), tile[0]):
        queries = users[first : first + tile[0]]
        for start in range(0, len(items), tile[1]):
            block = items[start : start + tile[1]]
            np.matmul(queries, block.T, out=out[: len(queries), : len(block)])


def seconds(action: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    start = clock()
    action()
    return clock() - start


def peak_above_tables(model: vr.MF, test: vr.Interactions) -> float:
    """MiB that an evaluation takes at its peak."""
    return peak_above(lambda: vr.evaluate(model, test, at=10))[0] / 2**20


def one_thread_ratio(model: vr.MF, test: vr.Interactions, tile: tuple[int, int], repeats: int) -> float:
    """CPU seconds against CPU seconds: hardly moved by what else runs on the machine."""
    vr.evaluate(model, test, at=10)
    bare = min(seconds(lambda: bare_product(model, tile), time.process_time) for _ in range(repeats))
    ours = min(seconds(lambda: vr.evaluate(model, test, at=10), time.process_time) for _ in range(repeats))
    return ours / bare


def in_own_process(arguments: argparse.Namespace, measure: str, users: int, **environment: str) -> float:
    sizes = [
        f"--users={users}",
        f"--items={arguments.items}",
        f"--dim={arguments.dim}",
        f"--repeats={arguments.repeats}",
    ]
    command = [sys.executable, __file__, f"--measure={measure}", *sizes]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment})
    return float(done.stdout)


def run(arguments: argparse.Namespace) -> dict[str, object]:
    train, test = make_log(arguments.users, arguments.items, seed=0)
    model = tables(train, arguments.dim, seed=1)
    trials = {tile: min(seconds(lambda tile=tile: bare_product(model, tile, 4096)) for _ in range(3)) for tile in TILES}
    tile = min(trials, key=trials.__getitem__)
    first = seconds(lambda: vr.evaluate(model, test, at=10))
    bare, ours = [], []
    for _ in range(arguments.repeats):
        bare.append(seconds(lambda: bare_product(model, tile)))
        ours.append(seconds(lambda: vr.evaluate(model, test, at=10)))
    work = 2 * train.n_users * train.n_items * arguments.dim / 1e9
    return {
        "users": train.n_users,
        "items": train.n_items,
        "dim": arguments.dim,
        "train_rows": len(train),
        "test_rows": len(test),
        "bare_tile": list(tile),
        "bare_tile_trials": {f"{a}x{b}": round(value, 3) for (a, b), value in trials.items()},
        "bare_seconds": [round(value, 3) for value in bare],
        "evaluate_seconds": [round(value, 3) for value in ours],
        "first_evaluate_seconds": round(first, 3),
        "bare_gflops": round(work / min(bare), 1),
        "evaluate_gflops": round(work / min(ours), 1),
        "ratio": round(min(ours) / min(bare), 3),
        "one_thread_cpu_ratio": round(in_own_process(arguments, "ratio", arguments.users // 10, **ONE_THREAD), 3),
        "mebibytes_above_tables": round(in_own_process(arguments, "memory", arguments.users), 1),
        "goal": GOAL,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=113_917)
    parser.add_argument("--items", type=int, default=93_850)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--measure", choices=["memory", "ratio"], help="print this figure alone")
    arguments = parser.parse_args()
    if arguments.measure:
        train, test = make_log(arguments.users, arguments.items, seed=0)
        model = tables(train, arguments.dim, seed=1)
        ratio = arguments.measure == "ratio"
        print(
            one_thread_ratio(model, test, (512, 4096), arguments.repeats) if ratio else peak_above_tables(model, test)
        )
        return
    result = run(arguments)
    save("evaluate", result)
    for name, value in result.items():
        print(f"{name:24} {value}")


if __name__ == "__main__":
    main()
