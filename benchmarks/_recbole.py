"""Seconds of an epoch of RecBole's models, trained on exactly the interactions given, in a venv of their own."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from _common import peers_python

import vitalrank as vr

PEER = ["torch==2.13.0", "recbole==1.2.1", "pandas<3", "numpy<2", "scipy<1.14", "setuptools<81"]  # it asks for old ones

CODE = """
import json, sys, time
import scipy.sparse, torch
from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from recbole.utils import get_model, get_trainer, init_seed

scipy.sparse.dok_matrix._update = lambda matrix, entries: matrix._dict.update(entries)  # LightGCN's; gone in scipy 1.13
folder, model, epochs, threads, settings = sys.argv[1], sys.argv[2], *map(json.loads, sys.argv[3:6])
torch.set_num_threads(threads)
config = Config(model=model, dataset="thelog", config_dict={
    "data_path": folder, "USER_ID_FIELD": "user", "ITEM_ID_FIELD": "item", "TIME_FIELD": "time",
    "load_col": {"inter": ["user", "item", "time"]}, "epochs": epochs, "use_gpu": False, "show_progress": False,
    "eval_args": {"split": {"LS": "valid_and_test"}, "order": "TO", "mode": "full"}, "state": "ERROR", **settings,
})
init_seed(0, True)
train, _, _ = data_preparation(config, create_dataset(config))
trainer = get_trainer(config["MODEL_TYPE"], model)(config, get_model(model)(config, train.dataset))
seconds, spent = [], []
for epoch in range(epochs):
    began = time.perf_counter(), time.process_time()
    trainer._train_epoch(train, epoch, show_progress=False)
    seconds.append(time.perf_counter() - began[0])
    spent.append(time.process_time() - began[1])
found = {"seconds": seconds[1:], "cpu seconds": spent[1:], "positives": len(train.dataset)}
print("FOUND", json.dumps(found))
"""


def recbole_epoch(train: vr.Interactions, model: str, epochs: int, settings: dict[str, Any]) -> dict[str, Any] | None:
    """Seconds of each epoch but the first, and the positives of one; None if RecBole cannot be installed."""
    python = peers_python(PEER, "recbole")
    if python is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        write_atomic(train, Path(folder) / "thelog" / "thelog.inter")
        arguments = [folder, model, *map(json.dumps, (epochs, os.cpu_count() or 1, settings))]
        done = subprocess.run([python, "-c", CODE, *arguments], capture_output=True, text=True, cwd=folder)
    lines = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    if not lines:
        raise SystemExit(f"RecBole failed:\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(lines[0].removeprefix("FOUND "))
    return found


def write_atomic(train: vr.Interactions, path: Path) -> None:
    """The log in RecBole's format, positions for times, and two rows more for each user: those it sets aside."""
    path.parent.mkdir()
    place = np.arange(len(train)) - train.indptr[train.users]
    rows = [f"u{user}\ti{item}\t{time}" for user, item, time in zip(train.users, train.items, place, strict=True)]
    last = zip(train.indptr[:-1], train.indptr[1:], strict=True)
    for user, (begin, end) in enumerate(last):
        if end > begin:
            rows += [f"u{user}\ti{train.items[end - 1]}\t{end - begin + more}" for more in (0, 1)]
    path.write_text("\n".join(["user:token\titem:token\ttime:float", *rows]) + "\n")
