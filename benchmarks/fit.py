"""What a fit costs besides its epochs: its start, its memory, serving everybody.

    python benchmarks/fit.py

The goals: the first fit after an install starts its first epoch within 10 s, later ones within 1 s; at most 24 bytes
per interaction besides the tables and their moments; recommendations for all users in bounded memory.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import Any

from _common import peak_above, save, yelp_like

import vitalrank as vr

DIM = 64

# A process of its own: from its start to the end of one short epoch, which is where kernels are compiled or loaded.
START = """
import time; began = time.perf_counter()
import numpy as np, vitalrank as vr
rng = np.random.default_rng(0)
log = vr.Interactions.from_arrays(rng.integers(0, 2000, 40_000), rng.integers(0, 1500, 40_000))
vr.MF(64).fit(log, epochs=1, progress=False)
print(time.perf_counter() - began)
"""


def starts() -> dict[str, float]:
    """Seconds of the first fit, with an empty cache of kernels, and of a later one."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
        command = [sys.executable, "-c", START]
        seconds = [float(subprocess.check_output(command, env=environment, text=True)) for _ in range(4)]
    return {"first": seconds[0], "later": min(seconds[1:])}


def memory() -> dict[str, float]:
    """Bytes per interaction while fitting, and what recommending to everybody takes."""
    log = yelp_like()
    vr.MF(DIM).fit(vr.datasets.synthetic(users=300, items=200, interactions=3000), epochs=1, progress=False)
    taken, _, model = peak_above(lambda: vr.MF(DIM).fit(log, vr.VINS(), epochs=1, progress=False))
    tables = 3 * 4 * DIM * (log.n_users + log.n_items)
    model.recommend(log.user_ids[:100], n=10)  # compile
    extra, seconds, _ = peak_above(lambda: model.recommend(log.user_ids, n=10))
    return {
        "interactions": len(log),
        "tables_with_moments_mib": tables / 2**20,
        "fit_bytes_per_interaction": (taken - tables) / len(log),
        "recommend_all_users_s": seconds,
        "recommend_all_users_mib": extra / 2**20,
    }


def main() -> None:
    result: dict[str, Any] = {"dim": DIM, "start": starts(), "memory": memory()}
    print(json.dumps(result, indent=1), flush=True)
    save("fit", result)


if __name__ == "__main__":
    main()
