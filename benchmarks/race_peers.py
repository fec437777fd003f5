"""One peer of the race, in its own environment: trains in chunks of epochs and writes its vectors after each.

    python race_peers.py NAME FOLDER SETTINGS_JSON THREADS BUDGET FIRST STEP

FOLDER holds ``train.npz`` (a CSR matrix, users by items). From FIRST seconds of training on, whenever they have grown
by the factor STEP, the vectors go to ``FOLDER/NUMBER.npz`` as ``users`` (U, d) and ``items`` (I, d), so that every
method is ranked by the same code. The last line printed is the training seconds at each, of the clock and of the
processor: without imports, conversion of the log, and writing.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

Matrix = scipy.sparse.csr_matrix
Vectors = tuple[np.ndarray, np.ndarray]
Settings = dict[str, Any]


def with_bias(users: np.ndarray, items: np.ndarray, bias: np.ndarray) -> Vectors:
    """An item bias as one more column."""
    ones = np.ones((len(users), 1), users.dtype)
    return np.hstack([users, ones]), np.hstack([items, bias[:, None]])


def implicit_als(x: Matrix, settings: Settings, threads: int) -> Iterator[Vectors | None]:
    from implicit.cpu.als import AlternatingLeastSquares

    model = AlternatingLeastSquares(factors=64, iterations=1, num_threads=threads, random_state=0, **settings)
    yield None  # ready
    for _ in range(15):
        model.fit(x, show_progress=False)  # goes on from the factors it has
        yield np.asarray(model.user_factors), np.asarray(model.item_factors)


def implicit_bpr(x: Matrix, settings: Settings, threads: int) -> Iterator[Vectors | None]:
    from implicit.cpu.bpr import BayesianPersonalizedRanking

    model = BayesianPersonalizedRanking(factors=64, iterations=2, num_threads=threads, random_state=0, **settings)
    yield None
    for chunk in range(100):
        model.random_state = chunk  # else each call would draw the same
        model.fit(x, show_progress=False)
        yield np.asarray(model.user_factors), np.asarray(model.item_factors)


def lightfm_warp(x: Matrix, settings: Settings, threads: int) -> Iterator[Vectors | None]:
    from lightfm import LightFM

    model = LightFM(no_components=64, loss="warp", random_state=0, **settings)
    pairs = x.tocoo()
    yield None
    for _ in range(100):
        model.fit_partial(pairs, epochs=1, num_threads=threads)
        yield with_bias(model.user_embeddings, model.item_embeddings, model.item_biases)


def cornac_bpr(x: Matrix, settings: Settings, threads: int) -> Iterator[Vectors | None]:
    import cornac

    pairs = x.tocoo()
    data = cornac.data.Dataset.build(zip(pairs.row, pairs.col, pairs.data, strict=True))  # ids by first appearance
    user = np.array([data.uid_map[u] for u in range(x.shape[0])])
    item = np.array([data.iid_map.get(i, -1) for i in range(x.shape[1])])
    state: dict[str, np.ndarray] = {}
    yield None
    for _ in range(100):  # without a seed: with one it leaves all cores but one idle
        model = cornac.models.BPR(k=64, max_iter=4, num_threads=threads, init_params=dict(state), **settings)
        model.fit(data)
        state = {"U": model.u_factors, "V": model.i_factors, "Bi": model.i_biases}
        items, bias = model.i_factors[item], np.where(item < 0, -1e9, model.i_biases[item])
        yield with_bias(model.u_factors[user], items, bias.astype(np.float32))


def recbole(x: Matrix, settings: Settings, threads: int) -> Iterator[Vectors | None]:
    import torch
    from recbole.config import Config
    from recbole.data import create_dataset, data_preparation
    from recbole.utils import get_model, get_trainer, init_seed

    torch.set_num_threads(threads)
    folder = Path.cwd() / "recbole"
    write_recbole(x, folder)
    config = Config(model="BPR", dataset="race", config_dict={
        "data_path": str(folder), "USER_ID_FIELD": "user", "ITEM_ID_FIELD": "item",
        "load_col": {"inter": ["user", "item"]},
        "eval_args": {"split": {"RS": [1.0, 0.0, 0.0]}, "order": "RO", "mode": "full"},
        "embedding_size": 64, "use_gpu": False, "show_progress": False, "state": "ERROR", **settings,
    })  # fmt: skip
    init_seed(0, True)
    dataset = create_dataset(config)
    train, _, _ = data_preparation(config, dataset)
    trainer = get_trainer(config["MODEL_TYPE"], "BPR")(config, get_model("BPR")(config, train.dataset))
    train.get_model(trainer.model)  # which scores the candidates
    users = dataset.token2id("user", [str(u) for u in range(x.shape[0])])
    items = dataset.token2id("item", [str(i) for i in np.unique(x.indices)])
    table = np.zeros((x.shape[1], 65), np.float32)
    table[:, 64] = -1e9  # items without training rows
    yield None
    for epoch in range(100):
        trainer._train_epoch(train, epoch, show_progress=False)
        table[np.unique(x.indices), :64] = trainer.model.item_embedding.weight.detach().numpy()[items]
        table[np.unique(x.indices), 64] = 0
        query = trainer.model.user_embedding.weight.detach().numpy()[users]
        yield np.hstack([query, np.ones((len(query), 1), np.float32)]), table.copy()


def write_recbole(x: Matrix, folder: Path) -> None:
    (folder / "race").mkdir(parents=True, exist_ok=True)
    pairs = x.tocoo()
    rows = (f"{user}\t{item}" for user, item in zip(pairs.row, pairs.col, strict=True))
    (folder / "race" / "race.inter").write_text("\n".join(["user:token\titem:token", *rows]) + "\n")


PEERS: dict[str, Callable[[Matrix, Settings, int], Iterator[Vectors | None]]] = {
    "implicit ALS": implicit_als,
    "implicit BPR": implicit_bpr,
    "LightFM WARP": lightfm_warp,
    "cornac BPR": cornac_bpr,
    "RecBole BPR": recbole,
    "RecBole DNS": recbole,
}


def main() -> None:
    name, folder, settings, threads, budget, first, step = sys.argv[1:8]
    train = scipy.sparse.load_npz(Path(folder) / "train.npz")
    stamps: list[tuple[float, float]] = []
    spent, next_look = np.zeros(2), float(first)
    run = PEERS[name](train, json.loads(settings), int(threads))
    next(run)
    began = now()
    for users, items in run:
        spent += now() - began
        is_over = spent[0] > float(budget)
        if spent[0] >= next_look or is_over:
            np.savez(Path(folder) / f"{len(stamps)}.npz", users=np.float32(users), items=np.float32(items))
            stamps.append((float(spent[0]), float(spent[1])))
            next_look = float(step) * spent[0]
        if is_over:
            break
        began = now()
    print("SPENT", json.dumps(stamps))


def now() -> np.ndarray:
    """Seconds of the clock and of the processor (2,)."""
    return np.array([time.perf_counter(), time.process_time()])


if __name__ == "__main__":
    main()
