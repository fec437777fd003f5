"""The baselines beside those of implicit: NDCG@10 on test and seconds of training, on real logs.

    python benchmarks/baselines.py --data FOLDER [--logs ml-1m,amazon-cds,online-retail]

The same split for all (k-core on both sides, each user's last 20 % is test, the last 10 % of the rest is valid and left
out) and the same evaluation: what implicit learnt is ranked by our code. Nothing is tuned: defaults, and implicit's ALS
also with the settings of ours. Each is fitted twice and the second fit is timed, so that compiling is not.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from _common import parts, save

import vitalrank as vr
from vitalrank.models.item_weights import ItemWeightModel

Fitted = tuple[Any, float]
LOGS = "ml-1m,amazon-cds,online-retail"


class Weights(ItemWeightModel):
    """Item weights from elsewhere."""

    def settings(self) -> dict[str, Any]:
        return {}

    def restore(self, tensors: Mapping[str, Any], record: Mapping[str, Any]) -> None:
        raise NotImplementedError("it is measured, not saved")


class Vectors(vr.ALS):
    """Vectors from elsewhere."""

    def take(self, train: vr.Interactions, users: Any, items: Any) -> Vectors:
        self.train = train
        self._users, self._items = (np.ascontiguousarray(table, np.float32) for table in (users, items))
        return self


def ours(make: Callable[[], Any]) -> Callable[[vr.Interactions], Fitted]:
    def fit(train: vr.Interactions) -> Fitted:
        model = make()
        began = time.perf_counter()
        model.fit(train)
        return model, time.perf_counter() - began

    return fit


def item_item(make: Callable[[], Any]) -> Callable[[vr.Interactions], Fitted]:
    def fit(train: vr.Interactions) -> Fitted:
        theirs = make()
        began = time.perf_counter()
        theirs.fit(train.csr, show_progress=False)
        seconds = time.perf_counter() - began
        columns = theirs.similarity.tocsc()
        columns.sort_indices()
        model = Weights()
        model.train = train
        model._set_sparse(columns.data.astype(np.float32), columns.indices, columns.indptr)
        return model, seconds

    return fit


def implicit_als(**settings: Any) -> Callable[[vr.Interactions], Fitted]:
    def fit(train: vr.Interactions) -> Fitted:
        from implicit.cpu.als import AlternatingLeastSquares

        theirs = AlternatingLeastSquares(factors=64, iterations=15, random_state=0, **settings)
        began = time.perf_counter()
        theirs.fit(train.csr, show_progress=False)
        seconds = time.perf_counter() - began
        return Vectors().take(train, theirs.user_factors, theirs.item_factors), seconds

    return fit


def methods() -> dict[str, Callable[[vr.Interactions], Fitted]]:
    """By name, ours first."""
    from implicit.nearest_neighbours import BM25Recommender, CosineRecommender, TFIDFRecommender

    knn = {
        f"ItemKNN {name}": ours(lambda name=name: vr.ItemKNN(similarity=name)) for name in ("cosine", "tfidf", "bm25")
    }
    als = vr.ALS()
    return {
        "MostPopular": ours(vr.MostPopular),
        **knn,
        "ItemKNN cosine, 20 of the history": ours(lambda: vr.ItemKNN(20, similarity="cosine", neighbours_of="history")),
        "EASE": ours(vr.EASE),
        "EASE neighbours=100": ours(lambda: vr.EASE(neighbours=100)),
        "ALS": ours(vr.ALS),
        "implicit cosine": item_item(CosineRecommender),
        "implicit tfidf": item_item(TFIDFRecommender),
        "implicit bm25": item_item(BM25Recommender),
        "implicit bm25 K=100": item_item(lambda: BM25Recommender(K=100)),
        "implicit ALS": implicit_als(),
        "implicit ALS, settings of ours": implicit_als(regularization=als.reg, alpha=1 + als.alpha),
    }


def measure(folder: str, log: str) -> dict[str, dict[str, float]]:
    train, valid, test = parts(folder, log)
    found = {}
    for name, fit in methods().items():
        fit(train)
        model, seconds = fit(train)
        value = vr.evaluate(model, test, at=10, exclude=valid, metrics="ndcg")["ndcg@10"]
        found[name] = {"ndcg@10": round(value, 4), "seconds": round(seconds, 2)}
        print(f"{log:14s} {name:32s} {value:.4f} {seconds:7.2f} s", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--logs", default=LOGS)
    arguments = parser.parse_args()
    save("baselines", {"logs": {log: measure(arguments.data, log) for log in arguments.logs.split(",")}})


if __name__ == "__main__":
    main()
