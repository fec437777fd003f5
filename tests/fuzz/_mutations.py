"""Mutations of a saved folder, with digests that match again: digests are no signature."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
from safetensors.numpy import load_file, save_file

META, TENSORS, IDS = "model.json", "tensors.safetensors", "ids.arrow"
VALUES: list[Any] = [
    None, True, False, -1, 0, 1, 2**31, 2**40, 2**63, -(2**70), 0.5, -1e308, float("nan"), float("inf"), "", "x",
    "\ud800", "../..", [], [1], {}, {"a": 1}, [[[]]],
]  # fmt: skip
NUMBERS = [-1, 0, 1, 7, 2**31 - 1, 2**31, -(2**31), 2**40, -(2**62)]
KINDS = [np.float32, np.float64, np.int32, np.int64, np.uint8, np.bool_, np.float16]


def read_meta(folder: Path) -> dict[str, Any]:
    meta: dict[str, Any] = json.loads((folder / META).read_text())
    return meta


def mutate_json(rng: Random, node: Any) -> Any:
    """The same with one node of the tree replaced, removed or added."""
    if isinstance(node, dict) and node and rng.random() < 0.85:
        key = rng.choice(sorted(node))
        return _changed(rng, dict(node), key)
    if isinstance(node, list) and node and rng.random() < 0.85:
        return _changed(rng, list(node), rng.randrange(len(node)))
    return rng.choice(VALUES)


def _changed(rng: Random, node: Any, key: Any) -> Any:
    choice = rng.random()
    if choice < 0.1:
        del node[key]
    elif choice < 0.15 and isinstance(node, dict):
        node["more"] = rng.choice(VALUES)
    else:
        node[key] = mutate_json(rng, node[key])
    return node


def mutate_tensors(rng: Random, folder: Path, prefix: str = "") -> None:
    tensors = load_file(folder / TENSORS)
    name = rng.choice(sorted(one for one in tensors if one.startswith(prefix)) or sorted(tensors))
    array = tensors.pop(name)
    choice = rng.randrange(7)
    if choice == 1:
        array = array.astype(rng.choice(KINDS))
    elif choice == 2:
        array = array[: rng.randrange(len(array) + 1)] if array.ndim else array
    elif choice == 3:
        array = np.concatenate([array, array]) if array.ndim else array
    elif choice == 4 and array.size:
        array = array.copy()
        spot = rng.randrange(array.size)
        number = float("nan") if array.dtype.kind == "f" else rng.choice(NUMBERS)
        array.reshape(-1)[spot] = np.array(number).astype(array.dtype)
    elif choice == 5:
        array = array.reshape(-1, 1)
    elif choice == 6:
        name = rng.choice(["more", "log.test.indptr", "log.more.items", "training.more", name + "x"])
    if choice:
        tensors[name] = np.ascontiguousarray(array)
    save_file(tensors, folder / TENSORS)


def mutate_ids(rng: Random, folder: Path) -> None:
    with pa.OSFile(str(folder / IDS), "rb") as source:
        row = pa.ipc.open_file(source).read_all().to_pylist()[0]
    side = rng.choice(["users", "items"])
    ids = list(row[side])
    choice = rng.randrange(5)
    if choice == 0:
        ids[rng.randrange(len(ids))] = rng.choice([None, ids[0]])
    elif choice == 1:
        ids = ids[:-1]
    elif choice == 2:
        ids = [*ids, "more" if isinstance(ids[0], str) else 10**9]
    elif choice == 3:
        ids = [float(number) for number in range(len(ids))]
    else:
        rng.shuffle(ids)
    row[side] = ids
    table = pa.Table.from_pylist([row])
    with pa.OSFile(str(folder / IDS), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def mutate_bytes(rng: Random, path: Path) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(rng.randint(1, 4)):
        spot = rng.randrange(len(content))
        content[spot] = rng.choice([0, 1, 127, 128, 255, rng.randrange(256)])
    path.write_bytes(content[: rng.randrange(len(content))] if rng.random() < 0.1 else content)


def match_digests(folder: Path, meta: Any) -> None:
    """Write ``model.json`` with digests of the files as they are now."""
    if not isinstance(meta, dict):
        (folder / META).write_text(json.dumps(meta))
        return
    caller = {key: value for key, value in meta.items() if key not in ("format", "library", "digests")}
    digests = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in (TENSORS, IDS)}
    digests[META] = hashlib.sha256(json.dumps(caller, sort_keys=True).encode()).hexdigest()
    text = json.dumps({"format": meta.get("format"), "library": "0", "digests": digests, **caller})
    (folder / META).write_text(text)
