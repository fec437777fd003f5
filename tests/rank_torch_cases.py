"""Trainings of torch models; as a script, those of one rank of a group, which prints their values as JSON."""

from __future__ import annotations

import json
import os
import sys
import tempfile

os.environ.setdefault("NUMBA_NUM_THREADS", "2")

import numpy as np
import torch
from torch import nn

import vitalrank as vr
from rank_cases import log, outcome, weighted

FIT = {"epochs": 2, "batch": 32, "seed": 3, "lr": 0.01, "progress": False, "threads": 1}


def fitted(model, train=None, sampler=None, **options):
    train = log()[0] if train is None else train
    model.fit(train, sampler, **{**FIT, **options})
    scores = model.queries(np.arange(train.n_users)) @ model.item_table.T
    return {**outcome(model), "scores": scores.astype(float).round(7).tolist()}


class Tower(nn.Module):
    """The user's vector, normalized over the batch, so that it has a buffer."""

    def __init__(self, n_users):
        super().__init__()
        self.users = nn.Embedding(n_users, 8)
        self.norm = nn.BatchNorm1d(8)

    def forward(self, users):
        return self.norm(self.users(users))


def own_modules(**options):
    torch.manual_seed(int(os.environ.get("RANK", "0")))  # each rank begins with other values
    train = log()[0]
    modules = Tower(train.n_users), nn.Embedding(train.n_items, 8)
    return fitted(vr.TorchRecommender(*modules, **options))


def resumed():
    """Two epochs, with a stop after the first."""
    sasrec = vr.SASRec(dim=8, length=5)
    group = vr.distributed.join_group()
    folder = group.on_rank_zero(tempfile.mkdtemp)
    fitted(sasrec, callbacks=[lambda record, model: True], checkpoint=f"{folder}/run")
    return fitted(vr.SASRec(dim=8, length=5), checkpoint=f"{folder}/run", resume=True)


def refused():
    """What the trainer says of a loss over whole batches."""
    try:
        fitted(vr.CML(dim=8, covariance=1.0))
    except vr.SettingError as error:
        return str(error)
    return ""


# Without dropout: like one process but for rounding.
ROUNDED = {
    "fpmc": lambda: fitted(vr.FPMC(dim=8)),
    "marank": lambda: fitted(vr.MARank(dim=8, length=4, dropout=0.0)),
    "sasrec": lambda: fitted(vr.SASRec(dim=8, length=5, dropout=0.0)),
    "sasrec in batch": lambda: fitted(vr.SASRec(dim=8, length=5, dropout=0.0), None, vr.InBatch(), loss="softmax"),
    "lightgcn": lambda: fitted(vr.LightGCN(dim=8, layers=2), reg=1e-3),
    "cml": lambda: fitted(vr.CML(dim=8, covariance=0.0), loss="hinge"),
    "weights": lambda: fitted(vr.FPMC(dim=8), weighted()),
    "few rows a batch": lambda: fitted(vr.FPMC(dim=8), batch=2, epochs=1),
}
OTHERS = {
    "sasrec with dropout": lambda: fitted(vr.SASRec(dim=8, length=5)),
    "irgan": lambda: fitted(vr.models.IRGAN(dim=8, warm=1)),
    "own modules": own_modules,
    "resumed": resumed,
}
CASES = {**ROUNDED, **OTHERS}


if __name__ == "__main__":
    found = {name: case() for name, case in CASES.items()}
    found["again"] = {name: CASES[name]()["tables"] for name in ("sasrec with dropout", "irgan", "own modules")}
    found["refused"] = refused()
    print(json.dumps(found))
    sys.stdout.flush()
