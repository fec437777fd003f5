"""The best model found within a time budget against what a careful person would try, on the logs of a folder.

``python benchmarks/best.py --data FOLDER --minutes 10`` runs ``vr.best`` on every log, and the comparison set: MF with
VINS at its defaults, ItemKNN, EASE, and implicit's ALS (12 settings) and BM25 neighbours (4), each with the settings
that do best on valid. All are trained again on train and valid together and measured on test. Finished logs stand in
best.jsonl and are not run again.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from _common import machine
from threadpoolctl import threadpool_limits

import vitalrank as vr

HERE = Path(__file__).parent
METRIC = "ndcg@10"


class Peer:
    """A model of the implicit package, as evaluation asks for scores."""

    def __init__(self, model: Any, train: vr.Interactions) -> None:
        self.model, self.train = model, train
        with threadpool_limits(1, "blas"):  # as implicit asks for: it has threads of its own
            self.model.fit(train.csr.astype(np.float32), show_progress=False)

    def ndcg(self, held_out: vr.Interactions, hidden: list[vr.Interactions]) -> float:
        """NDCG@10 over the users with held-out items; what was seen or is hidden is never listed."""
        seen = self.train.csr + sum((part.csr for part in hidden), start=self.train.csr * 0)
        users = np.flatnonzero(np.diff(held_out.indptr))
        discounts = 1 / np.log2(np.arange(2, 12))
        total = 0.0
        for block in np.array_split(users, max(1, len(users) // 1000)):
            lists, _ = self.model.recommend(
                block, seen[block].astype(np.float32), N=10, filter_already_liked_items=True
            )
            for user, items in zip(block, lists, strict=True):
                wanted = held_out.items[held_out.indptr[user] : held_out.indptr[user + 1]]
                gain = discounts[np.isin(items, wanted)].sum()
                total += gain / discounts[: min(10, len(wanted))].sum()
        return float(total / len(users))


def implicit_als() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Twelve settings."""
    from implicit.als import AlternatingLeastSquares

    for dim, reg, alpha in product((32, 64, 128), (0.01, 1.0), (1.0, 10.0)):
        settings = {"factors": dim, "regularization": reg, "alpha": alpha, "random_state": 0}
        yield f"{settings}", lambda settings=settings: AlternatingLeastSquares(**settings)  # type: ignore[misc]


def implicit_bm25() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Four settings."""
    from implicit.nearest_neighbours import BM25Recommender

    for neighbours, b in product((20, 100), (0.2, 0.8)):
        settings = {"K": neighbours, "K1": 1.2, "B": b}
        yield f"{settings}", lambda settings=settings: BM25Recommender(**settings)  # type: ignore[misc]


def whole(log: vr.Interactions, test: vr.Interactions) -> vr.Interactions:
    """Train and valid together."""
    train = log.split_last(0.2)[0]
    assert len(train) + len(test) == len(log)
    return train


def ours(model: Any, parts: tuple[Any, ...], both: vr.Interactions, **options: Any) -> dict[str, float]:
    """One of our models: valid picks the epoch, then it is trained on train and valid."""
    train, valid, test = parts
    began = time.perf_counter()
    fitted = model.fit(train, **({"valid": valid, "progress": False} if options else {}))
    value = fitted.score(valid)
    fitted = fitted.refit(both, progress=False) if options else fitted.fit(both)
    tested = vr.evaluate(fitted, test, at=10)[METRIC]
    return {"valid": value, "test": tested, "seconds": time.perf_counter() - began}


def peer(settings: Iterator[tuple[str, Callable[[], Any]]], parts: tuple[Any, ...], both: Any) -> dict[str, Any]:
    """The best of a peer's settings on valid, trained on train and valid."""
    train, valid, test = parts
    began = time.perf_counter()
    tried = [(Peer(make(), train).ndcg(valid, []), name, make) for name, make in settings]
    value, name, make = max(tried, key=lambda one: one[0])
    tested = Peer(make(), both).ndcg(test, [])
    return {"valid": value, "test": tested, "settings": name, "seconds": time.perf_counter() - began}


def found_by_best(log: vr.Interactions, parts: tuple[Any, ...], both: Any, minutes: float, out: Path) -> dict[str, Any]:
    """What ``vr.best`` finds, trained on train and valid for its epoch count and measured as the others."""
    found = vr.best(log, minutes=minutes, out=out, samplers=("vins", "uni", "pop", "dns", "lfm-w"))
    model = type(found.model)(**found.model.settings())
    if found.sampler is None:
        model.fit(both)
    else:
        model.fit(both, found.sampler, **{**found.training, "progress": False})
    tested = vr.evaluate(model, parts[2], at=10)[METRIC]
    plain = {"winner": found.label, "valid": found.value, "test": tested, "seconds": found.seconds}
    return {**plain, "verdict": found.verdict, "settings": found.to_dict()["settings"]}


def run(path: Path, minutes: float, work: Path) -> dict[str, Any]:
    """All of one log."""
    log = vr.read(path)
    parts = log.split_last(0.2, valid=0.1)
    both = whole(log, parts[2])
    name = path.name.partition(".")[0]
    rows: dict[str, Any] = {
        "vins": ours(vr.MF(), parts, both, trained=True),
        "itemknn": ours(vr.ItemKNN(), parts, both),
    }
    if log.n_items <= 20_000:
        rows["ease"] = ours(vr.EASE(), parts, both)
    try:
        rows["implicit als"] = peer(implicit_als(), parts, both)
        rows["implicit bm25"] = peer(implicit_bm25(), parts, both)
    except ModuleNotFoundError:
        print("implicit is not installed: its rows are left out")
    rows["best"] = found_by_best(log, parts, both, minutes, work / name)
    others = max(row["test"] for label, row in rows.items() if label != "best")
    ratio = rows["best"]["test"] / others
    size = {"users": log.n_users, "items": log.n_items, "interactions": len(log)}
    return {"log": name, **size, "minutes": minutes, "ratio": ratio, "rows": rows, "machine": machine()}


def main() -> None:
    """Run the logs that are not finished, and print each ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of logs")
    parser.add_argument("--minutes", type=float, default=10.0, help="of vr.best on each log")
    parser.add_argument("--logs", default="", help="names with commas; all by default")
    parser.add_argument("--out", type=Path, default=HERE / "best.jsonl", help="results, one line for each log")
    parser.add_argument("--work", type=Path, default=Path("runs/best"), help="folder of the searches")
    given = parser.parse_args()
    done = [json.loads(line) for line in given.out.read_text().splitlines()] if given.out.exists() else []
    finished = {(one["log"], one["minutes"]) for one in done}
    for path in sorted(given.data.glob("*.tsv.gz")):
        name = path.name.partition(".")[0]
        is_asked = not given.logs or name in given.logs.split(",")
        if path.name.count(".") > 2 or not is_asked or (name, given.minutes) in finished:
            continue
        result = run(path, given.minutes, given.work)
        done.append(result)
        with given.out.open("a") as file:
            file.write(json.dumps(result) + "\n")
    for one in done:
        tests = {label: round(row["test"], 4) for label, row in one["rows"].items()}
        print(f"{one['log']}: {one['ratio']:.3f} of the best of the others; {one['rows']['best']['winner']}; {tests}")


if __name__ == "__main__":
    main()
