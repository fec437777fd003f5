"""The slope of each loss by the score of a negative, over how far that is above or below its positive.

    python benchmarks/losses_picture.py [--out docs/images/losses.svg]

One positive and one negative; the derivative of the loss by the negative's score, by central differences, over the
negative's score less the positive's. Left the losses of scores without a scale, right those made for cosines, with a
temperature of 0.2.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from numpy.typing import NDArray

from vitalrank import losses

matplotlib.use("Agg")
from matplotlib import pyplot

INK = "#7d858f"  # readable on white and on dark grey
COLOURS = {
    "bpr": "#1f8fdb", "hinge": "#e0700f", "cross_entropy": "#2a9d5c",
    "softmax": "#1f8fdb", "bsl": "#e0700f", "psl": "#2a9d5c",
}  # fmt: skip
SOLID: dict[str, Any] = {"linewidth": 2.0}
LINES: dict[str, dict[str, Any]] = {"bpr": {"linewidth": 4.5}}  # cross_entropy has the same slope and lies upon it
TEMPERATURE, STEP = 0.2, 1e-4
SIDES = (("bpr", "hinge", "cross_entropy"), ("softmax", "bsl", "psl"))
REACH = (4.0, 1.0)  # of the gap


def slopes(name: str, gaps: NDArray[np.float64]) -> NDArray[np.float64]:
    """The derivative by the negative's score where the positive's is 0."""
    scale = TEMPERATURE if name in ("softmax", "bsl") else 1.0
    more: dict[str, Any] = {"temperature": TEMPERATURE} if name == "psl" else {}
    ends = [
        [losses.LOSSES[name].function(np.zeros(1), np.array([[(gap + step) / scale]]), **more) for gap in gaps]
        for step in (STEP, -STEP)
    ]
    found: NDArray[np.float64] = np.subtract(*np.array(ends, np.float64)) / (2 * STEP)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "docs" / "images" / "losses.svg")
    given = parser.parse_args()
    pyplot.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "losses", "font.family": "sans-serif"})
    figure, axes = pyplot.subplots(1, 2, figsize=(7.2, 2.9))
    for axis, names, reach in zip(axes, SIDES, REACH, strict=True):
        gaps = np.linspace(-reach, reach, 161)
        for name in names:
            label = "cross_entropy, gbce" if name == "cross_entropy" else name
            axis.plot(gaps, slopes(name, gaps), color=COLOURS[name], label=label, **LINES.get(name, SOLID))
        axis.axvline(0, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
        axis.set_xlabel("negative's score less the positive's", color=INK)
        axis.tick_params(colors=INK, labelsize=9)
        axis.spines[["top", "right"]].set_visible(False)
        axis.spines[["left", "bottom"]].set_color(INK)
        axis.legend(frameon=False, fontsize=9, labelcolor=INK)
    axes[0].set_ylabel("slope, dL / ds of the negative", color=INK)
    figure.tight_layout()
    figure.savefig(given.out, transparent=True, metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    main()
