"""What a ceiling on the negatives' scores does: quality, and how often a false negative that was planted is drawn.

    python benchmarks/ceiling.py --data FOLDER [--logs lastfm,ml-100k] [--seeds 3] [--epochs 25] [--planted 0.2]

The test set is the last 20 % of each user. Of the training log a share is hidden, chosen at random: these pairs are
positives that the sampler takes for negatives. Runs at default settings for each sampler, ceiling and seed, which also
chooses the hidden pairs; means of NDCG@10 on test of the last epoch (each seed's beside it), and of the share of the
negatives of one more draw for every positive that are hidden positives (lift: that share over Uniform's of the same
model). Logs that were saved before and are not named stay as they are.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from _common import CORE, HERE, save
from numpy.typing import NDArray

import vitalrank as vr

SAMPLERS = {"dns": vr.DNS(candidates=32), "vins": vr.VINS()}
CEILINGS: tuple[float | str | None, ...] = (None, 0.5, "10%", 0.0)


def hide(train: vr.Interactions, share: float, seed: int) -> tuple[vr.Interactions, NDArray[np.int64]]:
    """The log without a random share of its rows, and the keys of those."""
    hidden = np.random.default_rng(seed).random(len(train)) < share
    times = None if train.times is None else train.times[~hidden]
    left = vr.Interactions.from_codes(train.users[~hidden], train.items[~hidden], times, train.user_ids, train.item_ids)
    keys = train.users[hidden].astype(np.int64) * train.n_items + train.items[hidden]
    return left, keys


def hits(model: Any, sampler: vr.Sampler, train: vr.Interactions, hidden: NDArray[np.int64], seed: int) -> float:
    """Share of the negatives drawn for every positive that are hidden positives."""
    bound = sampler.bind(train, seed=seed + 1)
    found = drawn = 0
    for start in range(0, len(train), 8192):
        users, items = (part[start : start + 8192].astype(np.int64) for part in (train.users, train.items))
        ids = bound(model.queries(users), model.item_table, users, items, step=start // 8192).ids
        keys = (users[:, None] * train.n_items + ids)[ids >= 0]
        found, drawn = found + int(np.isin(keys, hidden).sum()), drawn + keys.size
    return found / max(drawn, 1)


def run(log: vr.Interactions, sampler: vr.Sampler, given: argparse.Namespace, seed: int) -> dict[str, float]:
    """What one training comes to."""
    whole, test = log.split_last(0.2)
    train, hidden = hide(whole, given.planted, seed)
    model = vr.MF(dim=32).fit(train, sampler, epochs=given.epochs, seed=seed, progress=False)
    share, chance = (hits(model, each, train, hidden, seed) for each in (sampler, vr.Uniform()))
    quality = float(vr.evaluate(model, test, at=10)["ndcg@10"])
    skipped = model.history.records[-1]["skipped"] / len(train)
    return {"ndcg@10": quality, "false": share, "lift": share / max(chance, 1e-12), "skipped": skipped}


def rows(log: vr.Interactions, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A row for each sampler and ceiling."""
    for name, sampler in SAMPLERS.items():
        for ceiling in CEILINGS:
            found = [run(log, replace(sampler, ceiling=ceiling), given, seed) for seed in range(given.seeds)]
            means = {figure: round(float(np.mean([one[figure] for one in found])), 4) for figure in found[0]}
            yield {
                "sampler": name, "ceiling": ceiling, **means, "seeds": [round(one["ndcg@10"], 4) for one in found],
            }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--logs", default="lastfm,ml-100k,steam,online-retail")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=25)
    parser.add_argument("--planted", type=float, default=0.2)
    given = parser.parse_args()
    setting = {"seeds": given.seeds, "epochs": given.epochs, "planted": given.planted}
    saved = HERE / "ceiling.json"
    before = json.loads(saved.read_text()) if saved.exists() else {}
    results = before["logs"] if all(before.get(name) == value for name, value in setting.items()) else {}
    for name in given.logs.split(","):
        core = CORE.get(name, 10)
        log = vr.read(given.data / f"{name}.tsv.gz").k_core(core, core)
        found = []
        for row in rows(log, given):
            print(name, row, flush=True)
            found.append(row)
        save("ceiling", {**setting, "logs": (results := {**results, name: found})})


if __name__ == "__main__":
    main()
