"""The law of each sampler as a picture: how often it draws an item, by popularity and by score.

    python benchmarks/laws_picture.py [--out docs/images/laws] [--only bns,in-batch]

A matrix factorization trained on the built-in log, and one item as the positive of all users who have it. Each sampler
draws for these pairs again and again through the library's own call; what it draws is counted, by its weight where a
sampler keeps several. In-batch negatives are those of each pair in a random batch. Items a user has seen are no part of
his catalogue.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from numpy.typing import NDArray

import vitalrank as vr
from vitalrank.samplers import SAMPLERS

matplotlib.use("Agg")
from matplotlib import pyplot

Shares = NDArray[np.float64]
POPULARITY_RANK = 100  # of the positive
DRAWS, ROWS, BINS = 400_000, 4096, 22
BATCH = 256  # in-batch negatives of a pair
FLOOR = 0.012  # drawn less often is drawn here
INK, CURVE, POSITIVE = "#7d858f", "#1f8fdb", "#e0700f"  # each is readable on white and on dark grey


@dataclass(frozen=True)
class Scene:
    """A trained model, one item, and the users who have it."""

    model: Any
    positive: int
    users: NDArray[np.int64]  # (U,)
    seen: NDArray[np.bool_]  # (U, n)
    places: dict[str, NDArray[np.int64]]  # by popularity and by score: place of each item for each user, (U, n)


def scene() -> Scene:
    train = vr.datasets.synthetic(seed=0).split_last(0.2)[0]
    model = vr.MF(dim=32).fit(train, vr.Uniform(), epochs=40, lr=0.003, reg=0.01, seed=0, progress=False)
    positive = int(np.argsort(-train.item_degree, kind="stable")[POPULARITY_RANK - 1])
    users = train.users[train.items == positive].astype(np.int64)
    scores = model.queries(users) @ model.item_table.T  # (U, n)
    places = {
        "popularity": np.tile(ranks(train.item_degree), (len(users), 1)),
        "score": np.stack([ranks(row) for row in scores]),
    }
    return Scene(model, positive, users, train.csr[users].toarray() > 0, places)


def ranks(values: NDArray[Any]) -> NDArray[np.int64]:
    """Place of each item, the highest value first, from 1."""
    place = np.empty(len(values), np.int64)
    place[np.argsort(-values, kind="stable")] = np.arange(1, len(values) + 1)
    return place


def law(sampler: Any, shown: Scene) -> Shares:
    """Share of each user's draws, or of their weight, that falls on each item."""  # (U, n)
    bound = sampler.bind(shown.model.train, seed=0)
    row = np.arange(ROWS) % len(shown.users)
    users, positives = shown.users[row], np.full(ROWS, shown.positive)
    queries, mass, drawn, step = shown.model.queries(users), np.zeros(shown.seen.shape), 0, 0
    while drawn < DRAWS or step < 8:
        draw = bound(queries, shown.model.item_table, users, positives, step=step)
        kept = draw.weights if draw.ids.shape[1] > 1 else np.ones_like(draw.weights)
        np.add.at(mass, (row[:, None], draw.ids), kept)
        drawn, step = drawn + draw.ids.size, step + 1
    return mass / mass.sum(axis=1, keepdims=True)


def in_batch_law(shown: Scene) -> Shares:
    """The same of the other positives of a batch: one pair, and random rows of the log."""  # (U, n)
    train, rng = shown.model.train, np.random.default_rng(0)
    bound, mass = vr.InBatch().bind(train, seed=0), np.zeros(shown.seen.shape)
    for number in range(DRAWS // BATCH):
        rows, row = rng.integers(0, len(train), BATCH), number % len(shown.users)
        users, positives = np.append(shown.users[row], train.users[rows]), np.append(shown.positive, train.items[rows])
        ids = bound(users=users, positives=positives, step=number).ids[0]
        np.add.at(mass[row], ids[ids >= 0], 1.0)
    return mass / mass.sum(axis=1, keepdims=True)


def curve(share: Shares, place: NDArray[np.int64], seen: NDArray[np.bool_]) -> tuple[Shares, Shares]:
    """Mean place, and how many times as often as by Uni its items are drawn, in bins that widen with the place."""
    edges = np.unique(np.geomspace(1, place.shape[1] + 1, BINS).round())
    inside = np.digitize(place[~seen], edges) - 1
    uniform = (~seen / (~seen).sum(axis=1, keepdims=True))[~seen]
    count, expected, found, where = (
        np.bincount(inside, values, len(edges)) for values in (None, uniform, share[~seen], place[~seen])
    )
    full = count > 0
    return where[full] / count[full], found[full] / expected[full]


def draw_picture(share: Shares, shown: Scene, path: Path) -> None:
    figure, axes = pyplot.subplots(1, 2, figsize=(7.2, 2.7), sharey=True)
    for axis, (side, place) in zip(axes, shown.places.items(), strict=True):
        across, up = curve(share, place, shown.seen)
        mark = float(np.median(place[:, shown.positive]))
        axis.axhline(1, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
        axis.axvline(mark, color=POSITIVE, linewidth=1.2)
        axis.text(mark, 1100, "positive", color=POSITIVE, ha="center", va="bottom", fontsize=9)
        axis.plot(across, np.maximum(up, FLOOR), color=CURVE, linewidth=2.2, solid_capstyle="round")
        axis.set(xscale="log", yscale="log", xlim=(1, share.shape[1]), ylim=(0.01, 1000))
        axis.set_xlabel(f"rank by {side}", color=INK)
        axis.set_yticks([0.01, 1, 100], ["0.01", "1", "100"])
        axis.set_xticks([1, 10, 100, 1000], ["1", "10", "100", "1,000"])
        axis.minorticks_off()
        axis.tick_params(colors=INK, labelsize=9)
        axis.spines[["top", "right"]].set_visible(False)
        axis.spines[["left", "bottom"]].set_color(INK)
    axes[0].set_ylabel("times as often as Uni", color=INK)
    figure.tight_layout()
    figure.savefig(path, transparent=True, metadata={"Date": None, "Creator": None})
    pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "docs" / "images" / "laws")
    parser.add_argument("--only", help="samplers, separated by commas; default: all")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    pyplot.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "laws", "font.family": "sans-serif"})
    shown = scene()
    rank = np.median(shown.places["score"][:, shown.positive])
    print(f"{len(shown.users)} users, median score rank of the positive {rank:.0f} of {shown.seen.shape[1]:,}")
    for name in arguments.only.split(",") if arguments.only else (*SAMPLERS, "in-batch"):
        share = in_batch_law(shown) if name == "in-batch" else law(SAMPLERS[name](), shown)
        draw_picture(share, shown, arguments.out / f"{name}.svg")


if __name__ == "__main__":
    main()
