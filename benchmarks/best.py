"""The best model found within a time budget against what a careful person would try, on the logs of a folder.

``python benchmarks/best.py --data FOLDER --minutes 10`` runs ``vr.best`` on every log, and the references: MF with
VINS at its defaults, ItemKNN, EASE, and implicit's ALS (12 settings) and BM25 neighbours (4), each with the settings
that do best on valid. All are trained again on train and valid together and measured on test. Each result is a line
of best.jsonl and is not computed again. ``--only references`` and ``--only best`` may run apart, the references at
any speed, since they are not timed. ``--show`` runs nothing and prints what there is.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from _common import machine
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import vitalrank as vr

HERE = Path(__file__).parent
METRIC = "ndcg@10"
MOST_ITEMS = 20_000  # of a dense EASE on the CPU
BLOCK = 1000  # users ranked at a time

Parts = tuple[vr.Interactions, ...]  # train, valid, test
Lists = Callable[[NDArray[np.int64]], NDArray[Any]]  # users (U,) -> their best ten items (U, 10)
Settings = Callable[[], Iterator[tuple[str, Callable[[], Any]]]]


def ndcg(lists: Lists, held_out: vr.Interactions) -> float:
    """NDCG@10 over the users with held-out items, by the formula of the docs."""
    users = np.flatnonzero(np.diff(held_out.indptr))
    discounts = 1 / np.log2(np.arange(2, 12))
    total = 0.0
    for block in np.array_split(users, max(1, len(users) // BLOCK)):
        for user, items in zip(block, lists(block), strict=True):
            wanted = held_out.items[held_out.indptr[user] : held_out.indptr[user + 1]]
            gain = discounts[np.isin(items, wanted)].sum()
            total += gain / discounts[: min(10, len(wanted))].sum()
    return float(total / len(users))


def peer_ndcg(model: Any, train: vr.Interactions, held_out: vr.Interactions) -> float:
    """A model of the implicit package, trained and measured."""
    seen = train.csr.astype(np.float32)
    with threadpool_limits(1, "blas"):  # as implicit asks for: it has threads of its own
        model.fit(seen, show_progress=False)
    return ndcg(lambda users: model.recommend(users, seen[users], N=10, filter_already_liked_items=True)[0], held_out)


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


def peer(settings: Settings, parts: Parts, both: vr.Interactions) -> dict[str, Any]:
    """The best of a peer's settings on valid, trained on train and valid."""
    train, valid, test = parts
    tried = [(peer_ndcg(make(), train, valid), name, make) for name, make in settings()]
    value, name, make = max(tried, key=lambda one: one[0])
    return {"valid": value, "test": peer_ndcg(make(), both, test), "settings": name}


def vins(parts: Parts, both: vr.Interactions) -> dict[str, Any]:
    """MF with VINS at their defaults: valid picks the epoch, then it is trained on train and valid."""
    train, valid, test = parts
    fitted = vr.MF().fit(train, valid=valid, progress=False)
    value = fitted.score(valid)
    return {"valid": value, "test": vr.evaluate(fitted.refit(both, progress=False), test, at=10)[METRIC]}


def itemknn(parts: Parts, both: vr.Interactions) -> dict[str, Any]:
    """ItemKNN at its defaults."""
    return {"test": vr.evaluate(vr.ItemKNN().fit(both), parts[2], at=10)[METRIC]}


def ease(parts: Parts, both: vr.Interactions) -> dict[str, Any]:
    """EASE at its defaults; with more items than this machine takes, the same formula on a GPU, in float64."""
    if both.n_items <= MOST_ITEMS:
        return {"test": vr.evaluate(vr.EASE().fit(both), parts[2], at=10)[METRIC]}
    import torch

    if not torch.cuda.is_available():
        raise MemoryError(f"a dense EASE of {both.n_items:,} items needs a GPU here")
    return {"test": ease_with_torch(both, parts[2], "cuda"), "device": torch.cuda.get_device_name()}


def ease_with_torch(both: vr.Interactions, test: vr.Interactions, device: str) -> float:
    """NDCG@10 of EASE at its defaults."""
    import torch

    seen = both.csr
    gram = torch.zeros(seen.shape[1], seen.shape[1], dtype=torch.float64, device=device)  # (I, I)
    for start in range(0, seen.shape[0], BLOCK):
        rows = torch.from_numpy(seen[start : start + BLOCK].toarray()).to(device).double()  # (U, I)
        gram.addmm_(rows.T, rows)
    gram.diagonal().add_(vr.EASE().reg)
    inverse = torch.linalg.inv(gram)
    weights = (-inverse / inverse.diagonal()).float().fill_diagonal_(0.0)

    def lists(users: NDArray[np.int64]) -> NDArray[Any]:
        rows = torch.from_numpy(seen[users].toarray()).to(device)
        scores = (rows @ weights).masked_fill(rows > 0, -torch.inf)
        return scores.topk(10).indices.cpu().numpy()  # type: ignore[no-any-return]

    return ndcg(lists, test)


REFERENCES: Mapping[str, Callable[[Parts, vr.Interactions], dict[str, Any]]] = {
    "itemknn": itemknn,
    "vins": vins,
    "implicit bm25": lambda parts, both: peer(implicit_bm25, parts, both),
    "implicit als": lambda parts, both: peer(implicit_als, parts, both),
    "ease": ease,
}


def found_by_best(log: vr.Interactions, minutes: float, out: Path) -> dict[str, Any]:
    """What ``vr.best`` finds; its ranking holds the winner trained on train and valid and measured on test."""
    found = vr.best(log, minutes=minutes, out=out)
    winner, plain = found.ranking[0], found.to_dict()
    kept = ("label", "value", "test", "p_value", "trials", "seconds")
    return {
        "test": winner.test,
        "winner": winner.label,
        "minutes": minutes,
        "seconds": found.seconds,
        "settings": {**plain["settings"], "epoch": found.epoch},
        "left_out": found.left_out,
        "ranking": [{name: getattr(one, name) for name in kept} for one in found.ranking],
    }


def run(path: Path, entries: list[str], given: argparse.Namespace) -> None:
    """The missing results of one log."""
    log = vr.read(path)
    parts = log.split_last(0.2, valid=0.1)
    both = log.split_last(0.2)[0]
    for entry in entries:
        began, busy = time.perf_counter(), time.process_time()
        try:
            if entry == "best":
                result = found_by_best(log, given.minutes, given.work / name_of(path))
            else:
                result = REFERENCES[entry](parts, both)
        except (ModuleNotFoundError, MemoryError) as error:
            print(f"{name_of(path)}: {entry} is left out: {error}", flush=True)
            continue
        wall, cpu = round(time.perf_counter() - began, 1), round(time.process_time() - busy, 1)
        facts = {"log": name_of(path), "entry": entry, **result, "wall": wall, "cpu": cpu}
        facts |= {"date": time.strftime("%Y-%m-%d")}
        print(f"{name_of(path)}: {entry} {result['test']:.4f} in {wall} s, {cpu} s of processors", flush=True)
        with given.out.open("a") as file:
            file.write(json.dumps({**facts, "machine": machine()}) + "\n")


def paths_of(data: Path, logs: str) -> list[Path]:
    """The files of the named logs in that order, or of all logs, the smallest first."""
    if logs:
        return [data / f"{name}.tsv.gz" for name in logs.split(",")]
    found = [path for path in data.glob("*.tsv.gz") if path.name.count(".") == 2]  # not the items of a log
    return sorted(found, key=lambda path: path.stat().st_size)


def name_of(path: Path) -> str:
    """The name of a log."""
    return path.name.partition(".")[0]


def results(path: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """The last result of each entry, by log."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        one = json.loads(line)
        found.setdefault(one["log"], {})[one["entry"]] = one
    return found


def show(found: dict[str, dict[str, dict[str, Any]]]) -> None:
    """A row for each log, and the mean of the ratios."""
    print(f"| log | {' | '.join(REFERENCES)} | best | its minutes | winner | best / best of the others |")
    print("|---" * (len(REFERENCES) + 5) + "|")
    ratios = []
    for log, rows in sorted(found.items()):
        others = [rows[name]["test"] for name in REFERENCES if name in rows]
        cells = [f"{rows[name]['test']:.4f}" if name in rows else "" for name in REFERENCES]
        if "best" in rows and others:
            best = rows["best"]
            ratios.append(best["test"] / max(others))
            cells += [f"{best['test']:.4f}", f"{best['minutes']:g}", best["winner"], f"{ratios[-1]:.3f}"]
        print(f"| {log} | {' | '.join(cells)} |")
    if ratios:
        print(f"\nmean ratio {np.mean(ratios):.3f}, lowest {min(ratios):.3f}, of {len(ratios)} logs")


def main() -> None:
    """Run what is missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of logs")
    parser.add_argument("--minutes", type=float, default=10.0, help="of vr.best on each log")
    parser.add_argument("--logs", default="", help="names with commas, run in that order; all by default")
    parser.add_argument("--only", default="", help="best, references, or names of references with commas")
    parser.add_argument("--out", type=Path, default=HERE / "best.jsonl", help="results, one line each")
    parser.add_argument("--work", type=Path, default=Path("runs/best"), help="folder of the searches")
    parser.add_argument("--show", action="store_true", help="print what there is")
    given = parser.parse_args()
    asked = {"": [*REFERENCES, "best"], "references": list(REFERENCES)}.get(given.only) or given.only.split(",")
    if given.data is not None and not given.show:
        done = results(given.out)
        for path in paths_of(given.data, given.logs):
            run(path, [one for one in asked if one not in done.get(name_of(path), {})], given)
    show(results(given.out))


if __name__ == "__main__":
    main()
