"""The README's picture: validation NDCG@10 against training seconds for five samplers on the study's logs.

    python benchmarks/picture.py --data FOLDER
    python benchmarks/picture.py            # draws the saved numbers again

Matrix factorization, seed 0, each sampler with the settings that the study found for it (Table 2 of ``docs/paper``),
trained as there: as many epochs, in which the learning rate falls to nothing.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from _common import HERE, parts, save, study, tuned

import vitalrank as vr

RUNNERS = {"Uniform": "uni", "Popularity": "pop", "DNS": "dns", "LFM-W": "lfm-w", "VINS": "vins"}  # in the study
COLOURS = ("#999999", "#56B4E9", "#E69F00", "#0072B2", "#D55E00")
DARK = ("#8b93a0", "#7cc7f5", "#f0b73f", "#5a9bf0", "#ff8f4d")
PICTURES = {  # for pages on white, and for those in dark mode, where the background is the page's own
    "samplers.png": {"colours": COLOURS, "ink": "#1b1f24", "paper": "#ffffff"},
    "samplers-dark.png": {"colours": DARK, "ink": "#d5dae1", "paper": "none"},
}
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


def draw(logs: dict[str, dict[str, Curve]], path: Path, cores: int, colours: Any, ink: str, paper: str) -> None:
    """A panel for each log."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    inked = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    grounds = ("axes.facecolor", "figure.facecolor", "savefig.facecolor")
    pyplot.rcParams.update({**dict.fromkeys(inked, ink), **dict.fromkeys(grounds, paper)})
    figure, axes = pyplot.subplots(2, 2, figsize=(9, 6), dpi=130, layout="constrained")
    for axis, (log, found) in zip(axes.flat, logs.items(), strict=True):
        for (label, values), colour in zip(found.items(), colours, strict=True):
            width = 2.4 if label == "VINS" else 1.4
            axis.plot(values["seconds"], values["ndcg"], color=colour, linewidth=width, label=label)
        axis.set_title(log, loc="left", fontsize=10)
        axis.spines[["top", "right"]].set_visible(False)
        axis.set_xlim(0)
        axis.set_ylim(0)
    axes[0, 0].legend(frameon=False, loc="lower right", reverse=True, fontsize=9)
    figure.supxlabel(f"training seconds ({cores} cores)", fontsize=10)
    figure.supylabel("NDCG@10 on validation", fontsize=10)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="the study's logs; the saved numbers are drawn without them")
    arguments = parser.parse_args()
    if arguments.data is not None:
        options = {name: study()["facts"]["settings"][name] for name in AS_STUDIED}
        logs = {log: curves(arguments.data, log, options) for log in study()["logs"]}
        save("picture", {**options, "logs": logs})
    saved = json.loads((HERE / "picture.json").read_text(encoding="utf-8"))
    for name, look in PICTURES.items():
        draw(saved["logs"], HERE.parent / "docs" / "images" / name, saved["machine"]["cores"], **look)


if __name__ == "__main__":
    main()
