"""What a ceiling on the negatives' scores does: quality, and how often a false negative that was planted is drawn.

    python benchmarks/ceiling.py --data FOLDER [--logs ml-100k,online-retail] [--epochs 25] [--planted 0.2]

The test part is the last 20 % of each user. Of the training log a share is hidden, chosen at random: these pairs are
positives that the sampler takes for negatives. One run for each sampler and ceiling, at default settings, with the same
seed; NDCG@10 on test of the last epoch, and the share of the negatives of one more draw for every positive that are
hidden positives (lift: that share over Uniform's of the same model).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from _common import CORE, save

import vitalrank as vr

SAMPLERS = {"dns": vr.DNS(candidates=32), "vins": vr.VINS()}
CEILINGS: tuple[float | str | None, ...] = (None, 0.5, "10%", 0.0)
SEED = 0


def hide(train: vr.Interactions, share: float) -> tuple[vr.Interactions, set[int]]:
    """The log without a random share of its rows, and the keys of those."""
    hidden = np.random.default_rng(SEED).random(len(train)) < share
    times = None if train.times is None else train.times[~hidden]
    left = vr.Interactions.from_codes(train.users[~hidden], train.items[~hidden], times, train.user_ids, train.item_ids)
    keys = train.users[hidden].astype(np.int64) * train.n_items + train.items[hidden]
    return left, set(keys.tolist())


def hits(model: Any, sampler: vr.Sampler, train: vr.Interactions, hidden: set[int]) -> float:
    """Share of the negatives drawn for every positive that are hidden positives."""
    bound = sampler.bind(train, seed=SEED + 1)
    found = drawn = 0
    for start in range(0, len(train), 8192):
        users, items = (part[start : start + 8192].astype(np.int64) for part in (train.users, train.items))
        ids = bound(model.queries(users), model.item_table, users, items, step=start // 8192).ids
        keys = (users[:, None] * train.n_items + ids)[ids >= 0]
        found, drawn = found + sum(key in hidden for key in keys.tolist()), drawn + keys.size
    return found / max(drawn, 1)


def runs(log: vr.Interactions, epochs: int, planted: float) -> Iterator[dict[str, Any]]:
    whole, test = log.split_last(0.2)
    train, hidden = hide(whole, planted)
    for name, sampler in SAMPLERS.items():
        for ceiling in CEILINGS:
            chosen = replace(sampler, ceiling=ceiling)
            model = vr.MF(dim=32).fit(train, chosen, epochs=epochs, seed=SEED, progress=False)
            share, chance = (hits(model, each, train, hidden) for each in (chosen, vr.Uniform()))
            quality = vr.evaluate(model, test, at=10)["ndcg@10"]
            yield {
                "sampler": name, "ceiling": ceiling, "ndcg@10": round(float(quality), 4),
                "false": round(share, 4), "lift": round(share / max(chance, 1e-12), 2),
                "skipped": round(model.history.records[-1]["skipped"] / len(train), 4),
            }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--logs", default="ml-100k,online-retail")
    parser.add_argument("--epochs", type=int, default=25)
    parser.add_argument("--planted", type=float, default=0.2)
    arguments = parser.parse_args()
    results: dict[str, Any] = {}
    for name in arguments.logs.split(","):
        core = CORE.get(name, 10)
        log = vr.read(arguments.data / f"{name}.tsv.gz").k_core(core, core)
        results[name] = []
        for row in runs(log, arguments.epochs, arguments.planted):
            print(name, row, flush=True)
            results[name].append(row)
        save("ceiling", {"epochs": arguments.epochs, "planted": arguments.planted, "logs": results})


if __name__ == "__main__":
    main()
