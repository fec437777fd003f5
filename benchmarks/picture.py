"""The README's picture: validation NDCG@10 against training seconds for five samplers on a real log.

    python benchmarks/picture.py --data FOLDER [--log amazon-cds]

Matrix factorization, dim 64, the library's defaults but for the sampler and its best L2 of a small grid (quality.py).
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from _common import HERE, save

import vitalrank as vr

RUNNERS: dict[str, tuple[Any, float]] = {
    "Uniform": (vr.Uniform(), 0.01),
    "Popularity": (vr.Popularity(), 0.02),
    "DNS, 32 candidates": (vr.DNS(candidates=32), 0.05),
    "LFM-W (WARP)": (vr.LFMW(), 0.05),
    "VINS": (vr.VINS(), 0.05),
}
COLOURS = ("#999999", "#56B4E9", "#E69F00", "#0072B2", "#D55E00")


def curve(train: vr.Interactions, valid: vr.Interactions, sampler: Any, reg: float) -> dict[str, list[float]]:
    history = (
        vr.MF(dim=64)
        .fit(train, sampler, valid=valid, reg=reg, epochs=60, valid_every=2, patience=60, progress=False)
        .history
    )
    seconds = np.cumsum([record["seconds"] for record in history])
    kept = [(second, record["ndcg@10"]) for second, record in zip(seconds, history, strict=True) if "ndcg@10" in record]
    return {"seconds": [float(second) for second, _ in kept], "ndcg": [ndcg for _, ndcg in kept]}


def draw(curves: dict[str, dict[str, list[float]]], log: vr.Interactions, name: str, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4), dpi=150)
    for (label, values), colour in zip(curves.items(), COLOURS, strict=True):
        width = 2.6 if label == "VINS" else 1.6
        axes.plot(values["seconds"], values["ndcg"], color=colour, linewidth=width, label=label)
    axes.legend(frameon=False, loc="lower right", reverse=True)
    axes.set_xlabel("training seconds (2 cores)")
    axes.set_ylabel("NDCG@10 on validation")
    axes.set_title(f"{name}: {log.n_users:,} users, {log.n_items:,} items, 60 epochs each", loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlim(0)
    axes.set_ylim(0)
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--log", default="amazon-cds")
    arguments = parser.parse_args()
    log = vr.read(Path(arguments.data) / f"{arguments.log}.tsv.gz").k_core(10, 10)
    train, valid, _ = log.split_last(0.2, valid=0.1)
    for sampler, _ in RUNNERS.values():
        vr.MF(dim=64).fit(train, sampler, epochs=1, progress=False)  # compile
    curves = {label: curve(train, valid, sampler, reg) for label, (sampler, reg) in RUNNERS.items()}
    draw(curves, log, arguments.log, HERE.parent / "docs" / "images" / "samplers.png")
    save("picture", {"log": arguments.log, "curves": curves})


if __name__ == "__main__":
    main()
