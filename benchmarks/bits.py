"""Digests of what the library computes, so that a change that should leave every bit alone can be held against them.

    python benchmarks/bits.py --save FILE              # before the change
    python benchmarks/bits.py --against FILE           # after it: the names that differ or are missing, exit code 1
    python benchmarks/bits.py --against FILE --only draws/vins

Trained tables of matrix factorization for every sampler, loss and optimizer; draws of every sampler on one thread and
on two; runs that were stopped and resumed; the other models on one thread; figures and lists. Only the public API is
called, on small logs.

The bits are those of one kind of processor and of one set of library versions: NumPy, SciPy, torch and LLVM choose
their instructions by the processor, and sum in another order on another one. The file says where it was made, and a
comparison says what is different here. What may be compared between machines is the number of threads: names that
end in ``threads=1`` and ``threads=2`` have equal digests.
"""

from __future__ import annotations

import os

# Set before NumPy is loaded: a matrix product may be summed in another order on several threads.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_NUM_THREADS", "2")

import argparse
import hashlib
import json
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import binding

import vitalrank as vr

Parts = Mapping[str, Any]  # name of a part -> what is digested
Case = Callable[[], Parts]

LIBRARIES = ("vitalrank", "numpy", "scipy", "numba", "llvmlite", "torch", "optuna")
# Fields of a history's record; seconds are no bits, and a later version may record more.
RECORD = ("epoch", "lr", "loss", "tries", "vanished", "unviolated", "skipped", "without_history", "ndcg@10")

SAMPLERS: dict[str, Any] = {
    "uni": vr.Uniform(),
    "pop": vr.Popularity(),
    "aobpr": vr.AOBPR(),
    "cml": vr.samplers.CML(),
    "pris": vr.PRIS(clusters=12),
    "sa": vr.SA(candidates=32),
    "irgan": vr.samplers.IRGAN(),
    "dns": vr.DNS(),
    "lfm-d": vr.LFMD(),
    "lfm-w": vr.LFMW(kappa=128),
    "vins": vr.VINS(),
}
KEEPS_ALL = ("pris", "sa")  # k is their number of candidates
LOSSES = ("bpr", "hinge", "cross_entropy", "softmax")
RATES = {"adam": 0.05, "adagrad": 0.1, "sgd": 0.02}  # high, so that scores spread in two epochs
DIM = 16


# ------------------------------------------------------------------------------------------------------ the logs


@cache
def whole() -> vr.Interactions:
    """A log with long tails, and with two users who have seen all items and all but one."""
    made = vr.datasets.synthetic(users=500, items=300, interactions=12_000, seed=5)
    every = made.item_ids
    users = np.concatenate([made.users, np.full(len(every), 500), np.full(len(every) - 1, 501)])
    items = np.concatenate([made.item_ids[made.items], every, every[:-1]])
    return vr.Interactions.from_arrays(users, items)


@cache
def parts() -> tuple[vr.Interactions, ...]:
    """Train, valid and test of a log in which items follow each other."""
    return vr.datasets.synthetic(users=200, items=120, interactions=5000, seed=2, sequence=0.3).split_last(
        0.2, valid=0.1
    )


def log_bits() -> Parts:
    """What reading, filtering and splitting make of a log."""
    made = vr.datasets.synthetic(users=200, items=150, interactions=4000, seed=1)
    train, valid, test = made.split_last(0.2, valid=0.1)
    named = vr.Interactions.from_arrays(
        [f"u{u}" for u in made.users], [f"i{i}" for i in made.items], made.times.astype(float)
    )
    with tempfile.TemporaryDirectory() as folder:
        file = vr.datasets.write_log(named, Path(folder) / "log.parquet")
        read = vr.read(file)
    logs = {"whole": made, "core": made.k_core(12, 15), "train": train, "valid": valid, "test": test}
    logs |= {"named": named, "read": read, "with-full-users": whole()}
    return {name: log.fingerprint for name, log in logs.items()}


# --------------------------------------------------------------------------------------------------- fitted models


def fitted(model: Any, log: vr.Interactions, sampler: Any = None, **options: Any) -> Any:
    """The model, trained quietly."""
    return model.fit(log, sampler, progress=False, **{"epochs": 2, "seed": 7, "threads": 1, **options})


def of_model(model: Any) -> Parts:
    """Its vectors, its arrays, and what happened in each epoch."""
    found: dict[str, Any] = {"history": records(model)}
    if getattr(model, "has_vectors", hasattr(model, "queries")):
        found["users"] = model.queries(np.arange(model.train.n_users))
        found["items"] = np.asarray(model.item_table)
    else:
        users = np.arange(model.train.n_users)
        found["scores"] = model.scores(users, 0, model.train.n_items)
    tensors = {name: array for name, array in model.tensors().items() if name not in ("users", "items")}
    return {**found, "tensors": tensors} if tensors else found


def records(model: Any) -> list[dict[str, Any]]:
    """The history without what depends on the clock."""
    told = [{name: record[name] for name in RECORD if name in record} for record in model.history]
    ends = {"best_epoch": model.history.best_epoch, "stopped": model.history.stopped}
    return [*told, ends]


def mf_bits(sampler: str, loss: str, optimizer: str, bias: bool, **options: Any) -> Parts:
    """Matrix factorization on the whole log."""
    given = {"lr": RATES[optimizer], "reg": 0.01, "batch": 1024, "threads": 2, **options}
    return of_model(fitted(vr.MF(DIM, bias), whole(), SAMPLERS[sampler], loss=loss, optimizer=optimizer, **given))


def mf_cases() -> Iterator[tuple[str, Case]]:
    for sampler in SAMPLERS:
        for loss in LOSSES:
            for optimizer in RATES:
                for bias in (False, True):
                    name = f"mf/{sampler}/{loss}/{optimizer}/{'bias' if bias else 'plain'}"
                    several = {"negatives": 2} if loss == "softmax" and sampler not in KEEPS_ALL else {}
                    yield name, partial(mf_bits, sampler, loss, optimizer, bias, **several)
        for threads in (1, 2):
            more: dict[str, Any] = {"threads": threads, "batch": 8192, "schedule": "linear"}
            if sampler not in KEEPS_ALL:
                more["negatives"] = 3
            yield f"mf/{sampler}/large-batch/threads={threads}", partial(mf_bits, sampler, "bpr", "adam", True, **more)
    yield "mf/defaults", lambda: of_model(vr.MF().fit(whole(), epochs=2, progress=False))
    yield "mf/cosine", partial(mf_bits, "vins", "hinge", "adam", False, schedule="cosine", margin=0.5, epochs=3)
    yield "mf/small-batch", partial(mf_bits, "vins", "bpr", "adagrad", True, batch=7, epochs=1)
    yield "mf/odd-dim", lambda: of_model(fitted(vr.MF(13), whole(), vr.VINS(shots=None), lr=0.05))


# ---------------------------------------------------------------------------------------------------------- draws


@cache
def batch(width: int = DIM, rows: int = 5000) -> tuple[Any, Any, Any, Any]:
    """Queries, item table, users and positives: scores spread over several margins."""
    log, rng = whole(), np.random.default_rng(11)
    picked = rng.integers(0, len(log), rows)
    queries = rng.normal(0.0, 0.7, (rows, width)).astype(np.float32)
    table = rng.normal(0.0, 0.7, (log.n_items, width)).astype(np.float32)
    return queries, table, log.users[picked], log.items[picked]


def of_draw(draw: Any) -> Parts:
    """Every part of it that there is."""
    told = {name: getattr(draw, name) for name in ("ids", "weights", "tries", "log_q", "violated")}
    return {name: np.asarray(part) for name, part in told.items() if part is not None}


def draw_bits(sampler: Any, threads: int = 1, allowed: Any = None, width: int = DIM, **options: Any) -> Parts:
    """A draw, and the one of the next step from the same bound sampler."""
    bound = sampler.bind(whole(), seed=2**40 + 3, allowed=allowed, threads=threads)
    first = bound(*batch(width), step=5, **options)
    later = bound(*batch(width), step=6, **options)
    return {**of_draw(first), "later": of_draw(later)}


def scored_bits(sampler: Any) -> Parts:
    """A draw for a scorer of the caller's."""
    queries, table, users, positives = batch(rows=1000)

    def score(rows: Any, ids: Any) -> Any:
        return np.einsum("rd,rcd->rc", queries[rows], table[ids])

    return of_draw(sampler.bind(whole(), seed=3)(users=users, positives=positives, step=1, score=score))


def torch_bits(sampler: Any) -> Parts:
    """A draw for tensors."""
    import torch

    given = [torch.from_numpy(np.array(part)) for part in batch(rows=1000)]
    return of_draw(sampler.bind(whole(), seed=3)(*given, step=1))


def reordered_bits(sampler: Any) -> Parts:
    """A draw for every other row, from the last, by the rows' own numbers."""
    queries, table, users, positives = batch()
    rows = np.arange(len(users))[::-2]
    bound = sampler.bind(whole(), seed=2**40 + 3)
    return of_draw(bound(queries[rows], table, users[rows], positives[rows], step=5, rows=rows))


def variants() -> Iterator[tuple[str, Any]]:
    """Samplers with the settings that run other code."""
    yield from SAMPLERS.items()
    for kappa in (1, 16, 64, 500):
        for shots in (1, 3, 8, 64, None):
            yield f"vins-kappa{kappa}-shots{shots}", vr.VINS(kappa=kappa, shots=shots)
    for beta in (0.0, 0.75, 1.0):
        for margin in (-2.0, 0.25):
            yield f"vins-beta{beta}-margin{margin}", vr.VINS(beta=beta, margin=margin)
            yield f"vins-beta{beta}-margin{margin}-limit", vr.VINS(beta=beta, margin=margin, shots=None)
    for weight in ("harmonic", "none"):
        yield f"vins-{weight}", vr.VINS(weight=weight)
    for kappa in (1, 15, 1024):
        yield f"lfm-w-kappa{kappa}", vr.LFMW(kappa=kappa)
    yield "lfm-w-log2", vr.LFMW(margin=-1.0, kappa=64, weight="log2")
    yield "pop-0.0", vr.Popularity(0.0)
    yield "pop-1.0", vr.Popularity(1.0)
    yield "dns-top", vr.DNS(candidates=12, top=4)
    yield "dns-64", vr.DNS(candidates=64)
    yield "lfm-d-wide", vr.LFMD(candidates=50, rho=0.4)
    yield "cml-5", vr.samplers.CML(candidates=5, margin=0.5)
    yield "sa-256", vr.SA()
    yield "sa-cold", vr.SA(candidates=20, temperature=0.3)
    yield "pris-static", vr.PRIS(clusters=0)
    yield "pris-uniform", vr.PRIS(candidates=9, clusters=5, proposal="uniform", refresh=1)
    yield "aobpr-hard", vr.AOBPR(rho=0.01, refresh=1)
    yield "aobpr-exact", vr.AOBPR(exact=True)
    yield "irgan-warm", vr.samplers.IRGAN(temperature=1.0)


def draw_cases() -> Iterator[tuple[str, Case]]:
    third = np.arange(0, whole().n_items, 3)
    for name, sampler in variants():
        for threads in (1, 2):
            yield f"draws/{name}/threads={threads}", partial(draw_bits, sampler, threads)
    limit = {"vins-limit": vr.VINS(shots=None)}
    for name, sampler in (SAMPLERS | limit).items():
        yield f"draws/{name}/allowed", partial(draw_bits, sampler, allowed=third)
        yield f"draws/{name}/odd-width", partial(draw_bits, sampler, width=13)
        yield f"draws/{name}/tensors", partial(torch_bits, sampler)
        yield f"draws/{name}/reordered", partial(reordered_bits, sampler)
        if name not in KEEPS_ALL:
            for threads in (1, 2):
                yield f"draws/{name}/k=3/threads={threads}", partial(draw_bits, sampler, threads, k=3)
        scored = sampler if name != "pris" else vr.PRIS(clusters=0)
        yield f"draws/{name}/scorer", partial(scored_bits, scored)
    yield "draws/counts", counted_bits


def counted_bits() -> Parts:
    """The counts behind the imbalance values, of draws on two threads."""
    bound = vr.VINS().bind(whole(), seed=1, threads=2, count=True)
    bound(*batch(), step=1)
    return {"positive": bound.counts.positive, "negative": bound.counts.negative}


# -------------------------------------------------------------------------------------------- stopped and resumed


def resumed_bits(make: Callable[[], Any], sampler: Any, stop: int, **options: Any) -> Parts:
    """A run that a callback stops and that goes on from its folder; what was kept on the way and at the end."""
    train, valid, _ = parts()
    given = {"epochs": 7, "lr": 0.05, "reg": 0.01, "batch": 512, "valid": valid, "checkpoint_seconds": None, **options}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        fitted(
            make(), train, sampler, callbacks=[lambda record, _: record["epoch"] == stop], checkpoint=folder, **given
        )
        halfway = loaded(folder)
        model = fitted(make(), train, sampler, checkpoint=folder, resume=True, **given)
        return {"end": of_model(model), **({"halfway": halfway, "loaded": loaded(folder)} if halfway else {})}


def loaded(folder: Path) -> Parts:
    """The model in a run folder; nothing of one over modules, which must be attached first."""
    model = vr.load(folder)
    return {} if hasattr(model, "attach") else of_model(model)


def undisturbed_bits(make: Callable[[], Any], sampler: Any, **options: Any) -> Parts:
    """The same run without a stop; its end has the bits of the resumed one."""
    train, valid, _ = parts()
    given = {"epochs": 7, "lr": 0.05, "reg": 0.01, "batch": 512, "valid": valid, **options}
    return {"end": of_model(fitted(make(), train, sampler, **given))}


def run_cases() -> Iterator[tuple[str, Case]]:
    plain, biased = partial(vr.MF, DIM), partial(vr.MF, DIM, bias=True)
    runs: dict[str, tuple[Callable[[], Any], Any, dict[str, Any]]] = {
        "vins-adam": (plain, vr.VINS(), {}),
        "vins-adam-two-threads": (plain, vr.VINS(), {"threads": 2}),
        "limit-adagrad": (biased, vr.VINS(shots=None), {"optimizer": "adagrad"}),
        "dns-sgd": (plain, vr.DNS(), {"optimizer": "sgd", "lr": 0.02}),
        "aobpr-linear": (plain, vr.AOBPR(), {"schedule": "linear"}),
        "pris-softmax": (biased, vr.PRIS(clusters=8), {"loss": "softmax", "patience": 2}),
        "every-other-epoch": (plain, vr.LFMW(), {"valid_every": 2, "lr": 0.2}),
        "fpmc": (lambda: vr.FPMC(8), vr.VINS(), {}),
        "torch": (torch_encoder, vr.Uniform(), {}),
    }
    for name, (make, sampler, options) in runs.items():
        yield f"resumed/{name}", partial(resumed_bits, make, sampler, 4, **options)
        yield f"undisturbed/{name}", partial(undisturbed_bits, make, sampler, **options)


# --------------------------------------------------------------------------------------------------- other models


def seeded(make: Callable[[], Any]) -> Any:
    """What torch makes from a seed, on one thread."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    return make()


def torch_encoder() -> Any:
    """Modules over the split log: an encoder with layers, an embedding of the items."""
    from torch import nn

    users, items = parts()[0].n_users, parts()[0].n_items
    return seeded(
        lambda: vr.TorchRecommender(
            nn.Sequential(nn.Embedding(users, 8), nn.Linear(8, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 8)),
            nn.Embedding(items, 8),
        )
    )


def torch_parameter() -> Any:
    """Sparse rows of the users, one parameter for the items."""
    import torch
    from torch import nn

    users, items = parts()[0].n_users, parts()[0].n_items
    return seeded(
        lambda: vr.TorchRecommender(nn.Embedding(users, 8, sparse=True), nn.Parameter(0.1 * torch.randn(items, 8)))
    )


def torch_sequence() -> Any:
    """An encoder that reads the last items."""
    from torch import nn

    class Last(nn.Module):
        """The mean of the last items' vectors beside the user's."""

        def __init__(self) -> None:
            super().__init__()
            self.users, self.items = nn.Embedding(parts()[0].n_users, 8), nn.Embedding(parts()[0].n_items + 1, 8)

        def forward(self, users: Any, context: Any) -> Any:
            return self.users(users) + self.items(context + 1).mean(1)

    return seeded(lambda: vr.TorchRecommender(Last(), nn.Embedding(parts()[0].n_items, 8), length=3))


def torch_scorer() -> Any:
    """A score that is no dot product."""
    import torch
    from torch import nn

    class Perceptron(nn.Module):
        """A layer over both vectors."""

        def __init__(self) -> None:
            super().__init__()
            self.users, self.items = nn.Embedding(parts()[0].n_users, 6), nn.Embedding(parts()[0].n_items, 6)
            self.out = nn.Sequential(nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 1))

        def forward(self, users: Any, ids: Any) -> Any:
            vectors = self.items(ids)  # (B, C, d)
            return self.out(torch.cat([self.users(users).unsqueeze(1).expand_as(vectors), vectors], -1)).squeeze(-1)

    return seeded(lambda: vr.TorchRecommender(score=Perceptron()))


def network_bits(make: Callable[[], Any], sampler: Any = None, **options: Any) -> Parts:
    """A torch model on the split log, on one thread."""
    return of_model(fitted(seeded(make), parts()[0], sampler, **options))


def model_cases() -> Iterator[tuple[str, Case]]:
    makers: dict[str, Callable[[], Any]] = {
        "fpmc": lambda: vr.FPMC(8, length=2),
        "marank": lambda: vr.MARank(8, length=4),
        "torch-encoder": torch_encoder,
        "torch-parameter": torch_parameter,
        "torch-sequence": torch_sequence,
        "torch-scorer": torch_scorer,
    }
    laws = {"vins": vr.VINS(), "uni": vr.Uniform(), "pris": vr.PRIS(clusters=8), "sa": vr.SA(16)}
    for name, make in makers.items():
        for law, sampler in laws.items():
            yield f"models/{name}/{law}", partial(network_bits, make, sampler, lr=0.02)
        for loss in LOSSES[1:]:
            yield f"models/{name}/{loss}", partial(network_bits, make, vr.DNS(8), loss=loss, lr=0.02)
        for optimizer in ("adagrad", "sgd"):
            more = {"optimizer": optimizer, "lr": 0.02, "negatives": 2}
            yield f"models/{name}/{optimizer}", partial(network_bits, make, vr.Uniform(), **more)
    yield "models/cml", partial(network_bits, partial(vr.CML, 8))
    yield "models/cml/covariance", partial(network_bits, partial(vr.CML, 8, covariance=0.1), vr.VINS(), lr=0.02)
    for role in ("generator", "discriminator"):
        yield f"models/irgan/{role}", partial(network_bits, partial(vr.IRGAN, 8, role=role, warm=1))
    for neighbours, shrinkage in ((100, 0.0), (9, 2.5)):
        yield f"models/itemknn/{neighbours}-{shrinkage}", partial(knn_bits, neighbours, shrinkage)
    yield "models/mostpopular", lambda: of_model(vr.MostPopular().fit(parts()[0]))


def knn_bits(neighbours: int, shrinkage: float) -> Parts:
    """Neighbours, and scores of everyone."""
    return of_model(vr.ItemKNN(neighbours, shrinkage, similarity="cosine").fit(parts()[0]))


# --------------------------------------------------------------------------------------------- figures and lists


@cache
def to_measure(name: str) -> Any:
    """A fitted model by name."""
    train, valid, _ = parts()
    if name == "mf":
        return fitted(vr.MF(DIM, bias=True), train, vr.VINS(), valid=valid, lr=0.03, epochs=6)
    if name == "fpmc":
        return fitted(seeded(lambda: vr.FPMC(8)), train, vr.Uniform(), lr=0.03)
    if name == "cml":
        return fitted(seeded(lambda: vr.CML(8)), train)
    return (vr.ItemKNN(20, similarity="cosine") if name == "itemknn" else vr.MostPopular()).fit(train)


def measured_bits(name: str) -> Parts:
    """Figures of a model, as a whole, by user and by group."""
    _, valid, test = parts()
    model = to_measure(name)
    found: dict[str, Any] = {}
    for by in ("degree", "popularity"):
        result = vr.evaluate(model, test, exclude=valid, by=by, bootstrap=50, threads=2)
        found[by] = {"values": dict(result), "groups": result.groups, "intervals": result.intervals}
    users = {metric: np.asarray(values) for metric, values in result.per_user.items()}
    return {**found, "per-user": users, "all-items": dict(vr.evaluate(model, test, at=1000, threads=1))}


def served_bits(name: str) -> Parts:
    """Lists of a model, with their scores."""
    train, valid, _ = parts()
    model = to_measure(name)
    found = {
        "recommend": model.recommend(train.user_ids, n=20, exclude=valid),
        "one": model.recommend(train.user_ids[3], n=200),
        "similar": model.similar_items(train.item_ids[4], n=15),
        "fold-in": model.fold_in(train.item_ids[[5, 9, 17]].tolist(), n=15),
    }
    if hasattr(model, "similar_users"):
        found["similar-users"] = model.similar_users(train.user_ids[2], n=10)
    return {
        f"{part}-{what}": each
        for part, pair in found.items()
        for what, each in zip(("ids", "scores"), pair, strict=True)
    }


def tested_bits() -> Parts:
    """Whether two models differ."""
    results = [vr.evaluate(to_measure(name), parts()[2], at=10) for name in ("mf", "itemknn")]
    return {test: repr(vr.compare(*results, test=test, rounds=500)) for test in ("t", "sign-flip")}


def comparison_bits() -> Parts:
    """The ranking of a comparison, without the seconds."""
    config = vr.TrainConfig(epochs=2, lr=0.02, threads=1)
    log = vr.datasets.synthetic(users=80, items=60, interactions=1200, seed=3)
    models = {"mf": partial(vr.MF, 8), "itemknn": partial(vr.ItemKNN, similarity="cosine")}
    found = vr.comparing.run_comparison(log, {"uni": vr.Uniform(), "vins": vr.VINS()}, models, seeds=2, config=config)
    shown = ("label", "mean", "spread", "epochs", "tries", "other", "difference", "p_value")
    return {
        "ranking": [{name: getattr(row, name) for name in shown} for row in found.rows],
        "bands": [outcome.bands for outcome in found.outcomes],
        "inspections": [outcome.inspection for outcome in found.outcomes],
    }


def search_bits(space: Any, sampler: str) -> Parts:
    """What a search tried, and its winner."""
    train, valid, _ = vr.datasets.synthetic(users=80, items=60, interactions=1200, seed=3).split_last(0.2, valid=0.1)
    config = vr.TrainConfig(epochs=2, threads=1)
    found = vr.tune(train, valid, partial(vr.MF, 8), sampler, space=space, trials=6, seed=4, config=config)
    tried = [(trial.number, asdict(trial.settings), trial.state, trial.value, trial.epoch) for trial in found.trials]
    return {"tried": tried, "best": [asdict(found.settings), found.value]}


def loss_bits() -> Parts:
    """Losses of scores."""
    rng = np.random.default_rng(8)
    pos, neg = rng.normal(size=50).astype(np.float32), rng.normal(size=(50, 4)).astype(np.float32)
    weights = rng.random((50, 4)).astype(np.float32)
    return {name: np.asarray(getattr(vr.losses, name)(pos, neg, weights)) for name in LOSSES}


def other_cases() -> Iterator[tuple[str, Case]]:
    for name in ("mf", "fpmc", "cml", "itemknn", "mostpopular"):
        yield f"evaluate/{name}", partial(measured_bits, name)
        yield f"serve/{name}", partial(served_bits, name)
    yield "evaluate/tests", tested_bits
    yield "compare", comparison_bits
    yield "tune/ranges", partial(search_bits, {"beta": "0..1", "lr": "1e-3..1e-1:log"}, "vins")
    yield "tune/grid", partial(search_bits, {"candidates": [4, 8], "lr": [0.01, 0.1]}, "dns")
    yield "losses", loss_bits
    yield "logs", log_bits


# -------------------------------------------------------------------------------------------------------- digests


def cases() -> Iterator[tuple[str, Case]]:
    """Everything that is digested, by name."""
    for group in (other_cases, draw_cases, run_cases, model_cases, mf_cases):
        yield from group()


def digest(value: Any) -> str:
    """Of an array its type, shape and bytes; of anything else its JSON, in which numbers have all their digits."""
    found = hashlib.sha256()
    _update(found, value)
    return found.hexdigest()


def _update(found: Any, value: Any) -> None:
    if isinstance(value, Mapping):
        for name in sorted(value):
            found.update(f"<{name}>".encode())
            _update(found, value[name])
    elif isinstance(value, np.ndarray) and value.dtype != object:
        found.update(f"{value.dtype.str}{value.shape}".encode())
        found.update(np.ascontiguousarray(value).tobytes())
    else:
        found.update(json.dumps(value, sort_keys=True, default=lambda one: one.tolist()).encode())


def computed(only: str) -> tuple[dict[str, str], list[str]]:
    """Digests by name, and the cases that failed."""
    bits: dict[str, str] = {}
    failed = []
    for name, case in cases():
        if not name.startswith(only):
            continue
        try:
            bits |= {f"{name}/{part}": digest(value) for part, value in case().items()}
        except Exception as error:  # the other cases are still worth a look
            failed.append(name)
            print(f"failed    {name}: {type(error).__name__}: {error}")
    return bits, failed


def surroundings() -> dict[str, Any]:
    """What the bits depend on beside the library."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.split(":")[1].strip() for line in lines if "model name" in line]
    features = sorted(name for name, has in binding.get_host_cpu_features().items() if has)
    return {
        "cpu": names[0] if names else platform.processor(),
        "cpu kind": binding.get_host_cpu_name(),
        "cpu features": digest(features)[:16],
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: _version(name) for name in LIBRARIES},
    }


def _version(name: str) -> str | None:
    if name == "vitalrank":
        return vr.__version__
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def compare(bits: Mapping[str, str], saved: Mapping[str, Any], only: str) -> int:
    """Print what is not as it was; 1 if there is anything."""
    here = surroundings()
    for name, value in saved["where"].items():
        if here.get(name) != value:
            print(f"note      {name} was {value}, is {here.get(name)}")
    before = {name: value for name, value in saved["bits"].items() if name.startswith(only)}
    differ = [name for name, value in before.items() if name in bits and bits[name] != value]
    missing = [name for name in before if name not in bits]
    for word, names in (("differs", differ), ("missing", missing)):
        for name in names:
            print(f"{word:10s}{name}")
    new = len(bits.keys() - before.keys())
    print(f"{len(before)} names: {len(differ)} differ, {len(missing)} are missing; {new} are new.")
    return int(bool(differ or missing))


def uneven(bits: Mapping[str, str]) -> list[str]:
    """Names whose bits depend on the number of threads, or on a stop on the way, which none may."""
    pairs = {name: name.replace("threads=2", "threads=1") for name in bits if "threads=2" in name}
    pairs |= {name: name.replace("undisturbed/", "resumed/") for name in bits if name.startswith("undisturbed/")}
    return [name for name, other in pairs.items() if other in bits and bits[name] != bits[other]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--save", type=Path, metavar="FILE", help="keep the digests there")
    parser.add_argument("--against", type=Path, metavar="FILE", help="compare with digests kept before")
    parser.add_argument("--only", default="", metavar="START", help="names that begin like this")
    arguments = parser.parse_args()
    began = time.perf_counter()
    bits, failed = computed(arguments.only)
    print(f"{len(bits)} digests in {time.perf_counter() - began:.0f} s")
    for name in uneven(bits):
        print(f"uneven    {name}")
    if arguments.save:
        text = json.dumps({"where": surroundings(), "bits": bits}, indent=1)
        arguments.save.write_text(text + "\n", encoding="utf-8")
    bad = int(bool(failed or uneven(bits)))
    if arguments.against:
        return compare(bits, json.loads(arguments.against.read_text(encoding="utf-8")), arguments.only) or bad
    if not arguments.save:
        for name, value in bits.items():
            print(f"{value[:16]}  {name}")
    return bad


if __name__ == "__main__":
    sys.exit(main())
