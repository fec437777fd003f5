"""One rank that trains two epochs on a prepared log, and prints the most memory that it took for that, as JSON.

    python benchmarks/_rank_memory.py PREPARED BLOCKS      # 0 blocks: mode exact

What the libraries and compiled kernels take is left out: a training on a toy log comes first. Counted are anonymous
pages, so neither the mapped log nor messages in shared memory. Started by ``ranks.py``, which sets what torchrun would.
"""

from __future__ import annotations

import ctypes
import json
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
from _common import yelp_like
from _rank_stages import BATCH, DIM

import vitalrank as vr
from vitalrank.distributed import join_group


def anonymous() -> int:
    """Bytes of anonymous pages in memory."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


class Peak:
    """The most anonymous memory, looked at 200 times a second."""

    def __init__(self) -> None:
        ctypes.CDLL(None).malloc_trim(0)
        self.before = self.most = anonymous()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._done.wait(0.005):
            self.most = max(self.most, anonymous())

    def close(self) -> int:
        """Stop looking; returns the bytes above those of the beginning."""
        self._done.set()
        self._thread.join()
        return self.most - self.before


def main() -> None:
    folder, blocks = Path(sys.argv[1]), int(sys.argv[2]) or None
    group = join_group()
    options: dict[str, Any] = {"batch": BATCH, "threads": 1, "seed": 0, "progress": False, "blocks": blocks}
    vr.MF(DIM).fit(yelp_like(users=200, items=100, positives=4000), vr.Uniform(), epochs=1, **options)
    train = vr.Prepared.open(folder).part(rank=group.rank, ranks=group.size)
    peak = Peak()
    vr.MF(DIM).fit(train, vr.Uniform(), epochs=2, callbacks=[], **options)
    took = peak.close()
    print(json.dumps({"bytes": took, "users": int(np.ptp(train.own_users)), "items": train.n_items}))


if __name__ == "__main__":
    main()
