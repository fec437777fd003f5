"""``vr.mine`` beside sentence-transformers' ``mine_hard_negatives``: the same vectors, the same rule.

    python benchmarks/mine.py [--queries 10000] [--items 50000] [--rounds 3] [--quick]

Clustered unit vectors of 384 dimensions, one positive for each query, a rank range, a margin and a ceiling. Each side
reads the vectors from the same files in a process of its own, turn by turn; the peer's encoder looks them up.
Goals: the same negatives, a lower peak of memory, no more seconds. Saved: the share of the queries with the same list,
the largest difference of scores where lists differ (of items whose scores are equal but for rounding), the fastest
seconds of each, and the peak above what its imports take. ``benchmarks/.peers/text`` is made if it is absent.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from _common import peak_above, peers_python, save

import vitalrank as vr

DIM, CLUSTERS = 384, 200
RULE: dict[str, Any] = {"range_min": 10, "range_max": 100, "relative_margin": 0.05, "max_score": 0.9}
K = 5
PACKAGES = ["torch==2.13.0", "sentence-transformers==6.2.0", "datasets"]

PEER = """
import json, os, sys, time
import numpy as np, torch, sentence_transformers
from datasets import Dataset, disable_progress_bars
from sentence_transformers.util import cos_sim, mine_hard_negatives, pairwise_cos_sim

folder, k, rule = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])

class Encoder:
    device = torch.device("cpu")
    similarity, similarity_pairwise = staticmethod(cos_sim), staticmethod(pairwise_cos_sim)
    def _rows(self, name, texts):
        vectors = np.load(f"{folder}/{name}.npy")[[int(text) for text in texts]]
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    def encode_query(self, texts, **options):
        return self._rows("queries", texts)
    def encode_document(self, texts, **options):
        return self._rows("items", texts)

def resident(field):
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith(field))

positives = np.load(f"{folder}/positives.npy")
n_items = np.load(f"{folder}/items.npy", mmap_mode="r").shape[0]
pairs = Dataset.from_dict({"query": list(map(str, range(len(positives)))), "positive": list(map(str, positives))})
corpus = list(map(str, range(n_items)))
disable_progress_bars()
mine_hard_negatives(pairs.select(range(8)), Encoder(), corpus=corpus[:1000], num_negatives=1, verbose=False)  # warm
open("/proc/self/clear_refs", "w").write("5")
before, began = resident("VmRSS"), time.perf_counter()
found = mine_hard_negatives(pairs, Encoder(), corpus=corpus, num_negatives=k, output_scores=True, verbose=False, **rule)
seconds, peak = time.perf_counter() - began, resident("VmHWM") - before
columns = [np.array(found[name], np.int64) for name in ("query", "negative")]
np.savez(f"{folder}/peer.npz", query=columns[0], negative=columns[1], score=np.array(found["scores"])[:, -1])
print(json.dumps({"seconds": seconds, "peak": peak, "rows": len(found), "version": sentence_transformers.__version__}))
"""


def write_vectors(folder: Path, n_queries: int, n_items: int, seed: int = 0) -> None:
    """Items around centres, each query near its positive: some other items of its cluster score higher."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(CLUSTERS, DIM))
    items = centres[rng.integers(0, CLUSTERS, n_items)] + 0.7 * rng.normal(size=(n_items, DIM))
    positives = rng.integers(0, n_items, n_queries)
    queries = items[positives] + rng.uniform(0.3, 2.0, (n_queries, 1)) * rng.normal(size=(n_queries, DIM))
    for name, vectors in (("queries", queries), ("items", items)):
        np.save(folder / f"{name}.npy", vectors.astype(np.float32))
    np.save(folder / "positives.npy", positives)


def ours(folder: Path) -> None:
    """Mine in this process; print the seconds and the peak, keep the negatives."""
    files = [folder / f"{name}.npy" for name in ("queries", "items", "positives")]
    warm = np.eye(8, DIM, dtype=np.float32)
    vr.mine(warm, warm, np.arange(8))  # loads the compiled kernels
    peak, seconds, found = peak_above(lambda: vr.mine(*files, k=K, **RULE))
    row, column = np.nonzero(found.negatives >= 0)
    kept = found.negatives[row, column], found.scores[row, column]
    np.savez(folder / "ours.npz", query=found.queries[row], negative=kept[0], score=kept[1])
    print(json.dumps({"seconds": seconds, "peak": peak, "rows": len(row), "version": vr.__version__}))


def by_query(path: Path, n_queries: int) -> tuple[np.ndarray, np.ndarray]:
    """Negatives, ascending, and their scores, best first, of each query; -1 and NaN where there are none."""
    found = np.load(path)
    ids, scores = np.full((n_queries, K), -1), np.full((n_queries, K), np.nan)
    order = np.lexsort((-found["score"], found["query"]))
    query = found["query"][order]
    position = np.arange(len(query)) - np.searchsorted(query, query)
    ids[query, position], scores[query, position] = found["negative"][order], found["score"][order]
    return np.sort(ids, 1), scores


def run(command: list[str]) -> dict[str, Any]:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--items", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="few vectors, one round, nothing saved")
    parser.add_argument("--ours", type=Path, help=argparse.SUPPRESS)  # in a process of its own
    given = parser.parse_args()
    if given.ours:
        ours(given.ours)
        return
    n_queries, n_items, rounds = (500, 5000, 1) if given.quick else (given.queries, given.items, given.rounds)
    python = peers_python(PACKAGES, "text")
    if python is None:
        raise SystemExit("sentence-transformers cannot be installed here; nothing to compare with.")
    turns: dict[str, list[dict[str, Any]]] = {"ours": [], "peer": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_vectors(folder, n_queries, n_items)
        for _ in range(rounds):
            turns["ours"].append(run([sys.executable, __file__, "--ours", name]))
            turns["peer"].append(run([python, "-c", PEER, name, str(K), json.dumps(RULE)]))
        (our_ids, our_scores), (their_ids, their_scores) = (
            by_query(folder / f"{side}.npz", n_queries) for side in ("ours", "peer")
        )
    differ = (our_ids != their_ids).any(1)
    gaps = np.abs(our_scores - their_scores)[differ]
    result: dict[str, Any] = {
        "setting": {"queries": n_queries, "items": n_items, "dim": DIM, "k": K, **RULE, "rounds": rounds},
        "load": os.getloadavg()[0],
        "same_lists": float(1 - differ.mean()),
        "largest_gap_elsewhere": float(np.nanmax(gaps)) if differ.any() else 0.0,
    }
    for side, found in turns.items():
        best = min(found, key=lambda one: one["seconds"])
        result[side] = {**best, "peak": max(one["peak"] for one in found)}
    result["seconds_ratio"] = result["ours"]["seconds"] / result["peer"]["seconds"]
    result["memory_ratio"] = result["ours"]["peak"] / result["peer"]["peak"]
    print(json.dumps(result, indent=1))
    if not given.quick:
        save("mine", result)


if __name__ == "__main__":
    main()
