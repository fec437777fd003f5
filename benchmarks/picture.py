"""The README's picture: validation NDCG@10 against training seconds for five samplers on a real log.

    python benchmarks/picture.py --data FOLDER [--log amazon-cds]

Matrix factorization, seed 0, each sampler with the settings that the study found for it (Table 2 of ``docs/paper``),
trained as there: as many epochs, in which the learning rate falls to nothing.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from _common import HERE, machine, parts, save, study, tuned

import vitalrank as vr

RUNNERS = {"Uniform": "uni", "Popularity": "pop", "DNS": "dns", "LFM-W": "lfm-w", "VINS": "vins"}  # in the study
COLOURS = ("#999999", "#56B4E9", "#E69F00", "#0072B2", "#D55E00")
AS_STUDIED = ("epochs", "schedule", "patience")
EVERY = 2  # epochs between two looks at valid, which training does not depend on
Curve = dict[str, Any]


def curve(train: vr.Interactions, valid: vr.Interactions, sampler: Any, options: dict[str, Any]) -> Curve:
    """Quality on valid whenever it was measured, and the seconds of training until then."""
    model = vr.MF(dim=study()["facts"]["settings"]["dim"])
    history = model.fit(train, sampler, valid=valid, valid_every=EVERY, seed=0, progress=False, **options).history
    seconds = np.cumsum([record["seconds"] for record in history])
    kept = [(second, record["ndcg@10"]) for second, record in zip(seconds, history, strict=True) if "ndcg@10" in record]
    return {"seconds": [float(second) for second, _ in kept], "ndcg": [ndcg for _, ndcg in kept]}


def curves(folder: Path, log: str, options: dict[str, Any]) -> dict[str, Curve]:
    """One for each sampler."""
    train, valid, _ = parts(folder, log)
    found = {}
    for label, name in RUNNERS.items():
        sampler, steps = tuned(log, name)
        curve(train, valid, sampler, {**options, **steps, "epochs": 1})  # compile
        found[label] = {"settings": [repr(sampler), steps], **curve(train, valid, sampler, {**options, **steps})}
        print(label, found[label]["settings"], f"{found[label]['ndcg'][-1]:.4f}", flush=True)
    return found


def draw(found: dict[str, Curve], title: str, path: Path) -> None:
    """All curves in one picture."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4), dpi=150)
    for (label, values), colour in zip(found.items(), COLOURS, strict=True):
        width = 2.6 if label == "VINS" else 1.6
        axes.plot(values["seconds"], values["ndcg"], color=colour, linewidth=width, label=label)
    axes.legend(frameon=False, loc="lower right", reverse=True)
    axes.set_xlabel(f"training seconds ({machine()['cores']} cores)")
    axes.set_ylabel("NDCG@10 on validation")
    axes.set_title(title, loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlim(0)
    axes.set_ylim(0)
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--log", default="amazon-cds")
    arguments = parser.parse_args()
    options = {name: study()["facts"]["settings"][name] for name in AS_STUDIED}
    found = curves(arguments.data, arguments.log, options)
    train = parts(arguments.data, arguments.log)[0]
    size = f"{train.n_users:,} users, {train.n_items:,} items, {options['epochs']} epochs each"
    draw(found, f"{arguments.log}: {size}", HERE.parent / "docs" / "images" / "samplers.png")
    save("picture", {"log": arguments.log, **options, "curves": found})


if __name__ == "__main__":
    main()
