"""Pages say the figures that the benchmarks saved.

A line below is a page, its words with a form for each figure (``{:.2f}``), the saved file, and where the figures stand
in it. After a new run the page is written anew; where its words have changed, so is the line here.
"""

from __future__ import annotations

import json
import re
from functools import cache, reduce
from pathlib import Path

import pytest

import vitalrank as vr

ROOT = Path(__file__).parents[1]
BENCHMARKS, GPU, MF = "benchmarks/README.md", "docs/gpu.md", "docs/models/mf.md"
SGD, ADAGRAD, ADAM, VINS = "Uniform, SGD", "Uniform, Adagrad", "Uniform, Adam", "VINS, Adam, 15 tries"
LIGHTGCN = "ratio per positive", "LightGCN/seconds", "RecBole LightGCN/seconds"
EXACT = "VINS, exact law, 15 tries"
FORMULA = (
    r"MF keeps `\(users \+ items\) \* \((\d+) \* dim \+ (\d+)\) \+ (\d+) \* interactions \+ (\d+) \* users` "
    r"bytes with Adam: ([\d.]+) GB, or ([\d.]+) GiB, for a billion"
)

FIGURES = [
    (BENCHMARKS, "| {:.2f} times (", "evaluate", ["ratio"]),
    (BENCHMARKS, "{:.0f} MiB above the tables", "evaluate", ["mebibytes_above_tables"]),
    (BENCHMARKS, "{:.0f} (integers), {:.0f} (strings)", "read", ["ints/bytes_per_row", "strings/bytes_per_row"]),
    (
        BENCHMARKS, "{:.2f} times ({:.2f} s against {:.2f} s an epoch", "mf",
        [f"ratios/{SGD}/ratio", f"epoch/{SGD}/seconds", "epoch/implicit BPR/seconds"],
    ),
    (BENCHMARKS, "{:.2f} times ({:.2f} s)", "mf", [f"ratios/{ADAGRAD}/ratio", f"epoch/{ADAGRAD}/seconds"]),
    (BENCHMARKS, "{:.2f} times ({:.2f} s)", "mf", [f"ratios/{ADAM}/ratio", f"epoch/{ADAM}/seconds"]),
    (
        BENCHMARKS, "{:.2f} times ({:.2f} s against {:.2f} s)", "mf",
        [f"ratios/{VINS}/ratio", f"epoch/{VINS}/seconds", "epoch/LightFM WARP/seconds"],
    ),
    (
        BENCHMARKS, "{:.3g} s, {:.3g} s, {:.3g} s for 0.3, 3 and 30 million positives", "mf",
        [f"growth/{size} positives/seconds" for size in ("300,000", "3,000,000", "30,000,000")],
    ),
    (MF, "{:.2f} s with uniform negatives", "mf", [f"epoch/{ADAM}/seconds"]),
    (MF, "{:.2f} s with VINS at {:.0f} tries", "mf", ["epoch/VINS, Adam/seconds", "epoch/VINS, Adam/tries"]),
    (BENCHMARKS, "{:.1f} s in the run that is saved", "fit", ["start/first"]),
    (BENCHMARKS, "({:.2f} saved)", "fit", ["start/later"]),
    (BENCHMARKS, "{:.1f} bytes at Yelp's size", "fit", ["memory/fit_bytes_per_interaction"]),
    (BENCHMARKS, "{:.1f} s, {:.1f} MiB", "fit", ["memory/recommend_all_users_s", "memory/recommend_all_users_mib"]),
    (
        BENCHMARKS, "{:.2f} on ml-100k ({:.2f} s an epoch), {:.2f} on amazon-games, {:.2f} on yelp", "epochs",
        [
            "FPMC on ml-100k/ratio per positive", "FPMC on ml-100k/FPMC/seconds",
            "FPMC on amazon-games/ratio per positive", "FPMC on yelp/ratio per positive",
        ],
    ),
    (
        BENCHMARKS, "{:.3f} ({:.2f} s against {:.1f} s an epoch of {:,} positives), {:.3f} of the CPU seconds",
        "epochs",
        [
            "SASRec on lastfm/ratio per positive", "SASRec on lastfm/SASRec/seconds",
            "SASRec on lastfm/RecBole SASRec/seconds", "SASRec on lastfm/SASRec/positives",
            "SASRec on lastfm/ratio of cpu seconds",
        ],
    ),
    (
        BENCHMARKS, "{:.2f} ({:.2f} s against {:.2f} s;", "epochs",
        [f"LightGCN on lastfm/{figure}" for figure in LIGHTGCN],
    ),
    (
        BENCHMARKS, "{:.2f} ({:.1f} s against {:.1f} s;", "epochs",
        [f"LightGCN on ml-100k/{figure}" for figure in LIGHTGCN],
    ),
    (
        BENCHMARKS, "{:.1f} ms ({:.1f} with exact draws); floor by bytes {:.1f}", "gpu",
        ["epochs/VINS, 15 tries/ms", f"epochs/{EXACT}/ms", "epochs/VINS, 15 tries/floor_ms"],
    ),
    (BENCHMARKS, "{:.1f} ms; floor {:.1f}", "gpu", ["epochs/Uniform/ms", "epochs/Uniform/floor_ms"]),
    (BENCHMARKS, "{:.1f} ms at {:.1f} tries", "gpu", ["epochs/LFM-W/ms", "epochs/LFM-W/tries"]),
    (
        BENCHMARKS, "{:.0f} ms; the bare product takes {:.0f}", "gpu",
        ["evaluation/ms", "evaluation/bare_product_ms"],
    ),
    (
        BENCHMARKS, "{:.1f} s an epoch, {:.0f} GiB on the card; {:.0f} s for the whole call", "gpu",
        ["large/epoch_s", "large/peak_gib", "large/whole_fit_s"],
    ),
    (
        BENCHMARKS, "{:.2f} times on one thread ({:.1f} ms a batch against {:.1f} ms)", "shared_negatives",
        ["threads/1/ratio", "threads/1/ours", "threads/1/bare"],
    ),
    (
        BENCHMARKS, "{:.2f} times on two ({:.1f} ms against {:.1f} ms)", "shared_negatives",
        ["threads/2/ratio", "threads/2/ours", "threads/2/bare"],
    ),
    (GPU, "| epoch, Uniform | {:.1f} | {:.1f} |", "gpu", ["epochs/Uniform/ms", "epochs/Uniform/floor_ms"]),
    (
        GPU, "| epoch, VINS at 15 tries | {:.1f} | {:.1f} |", "gpu",
        ["epochs/VINS, 15 tries/ms", "epochs/VINS, 15 tries/floor_ms"],
    ),
    (GPU, "| epoch, LFM-W, {:.1f} tries | {:.1f} |", "gpu", ["epochs/LFM-W/tries", "epochs/LFM-W/ms"]),
    (GPU, "the measured peak was {:.1f} GiB", "gpu", ["large/peak_gib"]),
]  # fmt: skip


@pytest.mark.parametrize(("page", "words", "file", "places"), FIGURES)
def test_a_page_says_what_was_saved(page, words, file, places):
    wanted = words.format(*(saved(file, place) for place in places))
    assert wanted in text_of(page), f"{page} should say {wanted!r}, as benchmarks/{file}.json does"


def test_the_memory_of_a_gpu_is_what_the_engine_asks_for():
    pytest.importorskip("triton")
    engine = pytest.importorskip("vitalrank.engines.mf_gpu_arrays")
    factors, row, positive, user, gigabytes, gibibytes = map(float, re.search(FORMULA, text_of(GPU)).groups())

    def needed(users, items, interactions, dim):
        return (users + items) * (factors * dim + row) + positive * interactions + user * users

    log = vr.datasets.synthetic(users=40, items=30, interactions=300, seed=0)
    assert needed(log.n_users, log.n_items, len(log), dim=8) == engine.bytes_needed(log, 8, vr.TrainConfig())
    large = needed(*(saved("gpu", f"large/{name}") for name in ("users", "items", "interactions")), dim=64)
    assert (round(large / 1e9, 1), round(large / 2**30, 1)) == (gigabytes, gibibytes)


@cache
def text_of(page):
    """The page with its lines run together, so that a figure may stand anywhere in a paragraph."""
    return " ".join((ROOT / page).read_text(encoding="utf-8").split())


def saved(file, place):
    found = json.loads((ROOT / f"benchmarks/{file}.json").read_text(encoding="utf-8"))
    return reduce(lambda part, key: part[key], place.split("/"), found)
