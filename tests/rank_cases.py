"""Trainings whose bits must not depend on the number of ranks. As a script it is one rank of a group: it runs the cases
named on the command line and prints what came out as JSON.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from functools import cache, partial

os.environ.setdefault("NUMBA_NUM_THREADS", "2")

import numpy as np

import vitalrank as vr
from vitalrank import registry
from vitalrank.distributed import join_group

FIT = {"epochs": 2, "batch": 64, "seed": 3, "lr": 0.05, "progress": False, "threads": 1}
SAMPLERS = {
    "uni": vr.Uniform(),
    "pop": vr.Popularity(),
    "aobpr": vr.AOBPR(),
    "aobpr refreshed": vr.AOBPR(refresh=3),
    "aobpr exact": vr.AOBPR(exact=True),
    "cml": vr.samplers.CML(),
    "pris": vr.PRIS(clusters=5),
    "pris refreshed": vr.PRIS(clusters=5, refresh=4),
    "pris static": vr.PRIS(clusters=0, detach=True),
    "sa": vr.SA(candidates=8),
    "irgan": vr.samplers.IRGAN(),
    "dns": vr.DNS(ceiling="10%"),
    "lfm-d": vr.LFMD(),
    "lfm-w": vr.LFMW(kappa=32),
    "vins": vr.VINS(),
    "vins ceiling": vr.VINS(ceiling=0.5),
    "ahns": vr.AHNS(),
    "mixgcf": vr.MixGCF(candidates=8),
    "bns": vr.BNS(sample=8),
    "mixed": vr.Mixed("uni", vr.DNS(), share=0.5),
    "in-batch": vr.InBatch(),
    "in-batch 3": vr.InBatch(candidates=3),
}


@cache
def log():
    made = vr.datasets.synthetic(users=60, items=50, interactions=700, seed=0)
    return made.split_last(0.2, valid=0.1)


@cache
def weighted():
    train = log()[0]
    weights = np.linspace(0.5, 2.0, len(train)).astype(np.float32)
    return vr.Interactions.from_arrays(train.user_ids[train.users], train.item_ids[train.items], weights=weights)


@cache
def full_user():
    """A user who has seen every item, and rows of others."""
    return vr.Interactions.from_arrays([0] * 6 + [1, 1, 2, 3, 3, 3], [*range(6), 0, 1, 2, 3, 4, 5])


def outcome(model):
    """Digests of the tables, and what the history says of each epoch."""
    tables = {
        name: hashlib.sha256(np.ascontiguousarray(a).tobytes()).hexdigest() for name, a in model.tensors().items()
    }
    history = [{name: value for name, value in record.items() if name != "seconds"} for record in model.history]
    return {"tables": tables, "history": history, "best": model.history.best_epoch}


def fitted(train, sampler=None, dim=8, bias=False, valid=None, normalize=False, **options):
    return outcome(vr.MF(dim, bias, normalize).fit(train, sampler, valid=valid, **{**FIT, **options}))


def warm():
    """On a log that has grown, from an earlier model."""
    whole = log()[0]
    start = vr.MF(dim=8).fit(whole.split_last(0.2)[0], vr.VINS(), **FIT)
    return outcome(vr.MF(dim=8).fit(whole, vr.VINS(), start=start, **{**FIT, "epochs": 1}))


def refitted():
    train, valid, _ = log()
    model = vr.MF(dim=8).fit(train, vr.VINS(), valid=valid, **FIT)
    return outcome(model.refit(train, progress=False))


def resumed():
    """Six epochs, of which this group does some: the variables of the environment say where it stops."""
    train, valid, _ = log()
    run, last = os.environ["RANKS_RUN"], int(os.environ["RANKS_STOP"])
    stop = {"callbacks": [lambda record, model: record["epoch"] == last], "checkpoint": run, "resume": True}
    return fitted(train, vr.VINS(), valid=valid, epochs=6, schedule="cosine", optimizer="adam", **stop)


def counted():
    from vitalrank.analysis import Counted

    sampler = Counted(vr.VINS())
    return fitted(log()[0], sampler, callbacks=[sampler.on_epoch])


def known():
    train, _, test = log()
    return fitted(train, vr.Mixed(vr.Known(test), "uni"))


def on_views(sampler):
    """Each rank trains on its own view of a prepared log."""
    with tempfile.TemporaryDirectory() as folder:
        prepared = vr.Prepared.write(folder, dict(zip(("train", "valid", "test"), log(), strict=True)))
        group = join_group()
        parts = prepared.split(rank=group.rank, ranks=group.size)
        return fitted(parts["train"], sampler, valid=parts["valid"], epochs=3)


class RowSampler:
    """A caller's own, which draws by the numbers of its rows."""

    def bind(self, train, seed=0):
        self.n_items = train.n_items
        return self

    def __call__(self, queries, item_table, users, positives, *, step, k=1, rows=None):
        rows = np.arange(len(users)) if rows is None else np.asarray(rows)
        ids = ((positives + 7 * rows + step) % self.n_items).astype(np.int64)[:, None]
        shape = len(rows), 1
        return vr.samplers.Draw(ids, np.ones(shape, np.float32), np.ones(len(rows), np.int32))


CASES = {
    **{f"sampler {name}": partial(lambda s: fitted(log()[0], s), sampler) for name, sampler in SAMPLERS.items()},
    **{
        f"{loss} {optimizer}": partial(
            lambda loss, optimizer: fitted(
                log()[0], vr.Uniform(), loss=loss, optimizer=optimizer, negatives=3, epochs=1, batch=128
            ),
            loss,
            optimizer,
        )
        for loss in registry.LOSSES
        for optimizer in registry.OPTIMIZERS
    },
    "valid": lambda: fitted(log()[0], vr.VINS(), valid=log()[1], epochs=4, schedule="cosine", dim=20),
    "patience": lambda: fitted(log()[0], vr.VINS(), valid=log()[1], epochs=30, lr=0.3, patience=2),
    "bias": lambda: fitted(log()[0], vr.DNS(), bias=True),
    "corrected": lambda: fitted(
        log()[0], vr.Popularity(), loss="softmax", correct="logq", negatives=4, temperature=0.5
    ),
    "weights": lambda: fitted(weighted(), vr.VINS()),
    "counted": counted,
    "known": known,
    "views of a prepared log": lambda: on_views(vr.VINS()),
    "views of a prepared log, in-batch": lambda: on_views(vr.InBatch()),
    "own sampler": lambda: fitted(log()[0], RowSampler()),
    "few positives a batch": lambda: fitted(log()[0], vr.VINS(), batch=3, epochs=1),
    "batch of one": lambda: fitted(full_user(), vr.AOBPR(), batch=1),
    "a user who has seen all": lambda: fitted(full_user(), vr.VINS(), batch=4),
    "two users": lambda: fitted(vr.Interactions.from_arrays([0, 0, 1, 1, 1], [0, 1, 1, 2, 3]), vr.Uniform(), batch=2),
    "two items": lambda: fitted(vr.Interactions.from_arrays([0, 1, 2, 3, 4], [0, 1, 0, 1, 0]), vr.Uniform()),
    "cosines": lambda: fitted(log()[0], vr.VINS(), normalize=True, loss="softmax", temperature=0.2, reg=0.0),
    "warm start": warm,
    "refit": refitted,
    "wide": lambda: fitted(log()[0], vr.VINS(), dim=67, epochs=1),
}


def run(names):
    """What each case gives, or its error."""
    found = {}
    for name in names:
        found[name] = resumed() if name == "resumed" else CASES[name]()
    return found


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1:] or list(CASES))))
