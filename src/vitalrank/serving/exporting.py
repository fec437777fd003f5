"""Vectors as files that other programs and nearest-neighbour indexes read."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors.numpy import save_file

from vitalrank._util.checks import check_choice
from vitalrank._util.display import printable
from vitalrank._util.outputs import move_recorded
from vitalrank._util.typing import Array
from vitalrank.errors import SettingError, StorageError
from vitalrank.ranking.scorers import DotScorer, Scorer

_README = """# Vectors of a recommender

- `vectors.safetensors`: `items` ({items}, {dim}) and `users` ({users}, {dim}), little-endian float32, row after row.
  The file begins with the length of a JSON header (8 bytes, little-endian), then that header, which says where each
  tensor begins and ends behind it. There are readers for Rust, Go, JavaScript, Swift, C++ and Java.
- `ids.json`: `items` and `users`, the original ids in the order of the rows.

The score of item i for user u is the inner product of their rows; a bias is part of it. Score every item, drop those
the user has, sort by score, equal scores in the order of the rows: the model's own list. For someone without a row, ask
the server (`vitalrank serve`, `POST /fold-in`).
"""


def export(model: Scorer, path: str | os.PathLike[str], format: str = "numpy", force: bool = False) -> None:
    """Write item and user vectors so that any inner-product search gives the model's own ranking.

    A bias is part of the vectors (one more column, 1 in every user's), so nothing has to be added afterwards.

    Parameters
    ----------
    path
        A folder; made if missing.
    format
        ``"numpy"``: ``items.npy``, ``item_ids.npy``, ``users.npy``, ``user_ids.npy``.
        ``"parquet"``: ``items.parquet``, ``users.parquet``, each with the columns ``id`` and ``vector``.
        ``"faiss"``: the numpy files and ``items.faiss``, an exact inner-product index.
        ``"hnswlib"``: the numpy files and ``items.hnsw``, an approximate one (space ``ip``).
        ``"safetensors"``: ``vectors.safetensors`` with ``items`` and ``users``, ``ids.json`` with their ids, and a
        ``README.md`` that tells other languages how to read and use them.
        Positions in an index are rows of ``item_ids.npy``.
    force
        Replace files of these names that vitalrank did not write.

    Examples
    --------
    >>> import tempfile, vitalrank as vr
    >>> folder = tempfile.mkdtemp()
    >>> export(vr.ItemKNN(), folder, format="annoy")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    vitalrank.errors.SettingError: unknown export format 'annoy'; choose one of numpy, ...
    """
    check_choice("export format", format, EXPORTERS)
    if not isinstance(model, DotScorer):
        raise SettingError(
            f"{type(model).__name__} is no dot product and has no vectors to export; train vr.MF() or another model of "
            "vectors for that."
        )
    folder = Path(path)
    users = model.queries(np.arange(model.train.n_users))  # (U, d)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".draft-", dir=folder) as draft:
            EXPORTERS[format](Path(draft), model.train.item_ids, model.item_table, model.train.user_ids, users)
            move_recorded(sorted(Path(draft).iterdir()), folder, force)  # only whole files get their names
    except StorageError:
        raise
    except (OSError, RuntimeError) as error:
        raise StorageError(
            f"{printable(folder)}: cannot be written ({error}); free space or choose another folder."
        ) from error


def _to_numpy(folder: Path, item_ids: Array, items: Array, user_ids: Array, users: Array) -> None:
    np.save(folder / "items.npy", items)
    np.save(folder / "users.npy", users)
    np.save(folder / "item_ids.npy", _plain(item_ids))
    np.save(folder / "user_ids.npy", _plain(user_ids))


def _to_parquet(folder: Path, item_ids: Array, items: Array, user_ids: Array, users: Array) -> None:
    for name, ids, vectors in (("items", item_ids, items), ("users", user_ids, users)):
        column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
        with (folder / f"{name}.parquet").open("wb") as file:  # Arrow itself opens only names in UTF-8
            pq.write_table(pa.table({"id": pa.array(ids), "vector": column}), file)


def _to_safetensors(folder: Path, item_ids: Array, items: Array, user_ids: Array, users: Array) -> None:
    save_file(
        {"items": np.ascontiguousarray(items), "users": np.ascontiguousarray(users)}, folder / "vectors.safetensors"
    )
    ids = {"items": item_ids.tolist(), "users": user_ids.tolist()}
    (folder / "ids.json").write_text(json.dumps(ids), encoding="ascii")
    readme = _README.format(items=len(items), users=len(users), dim=items.shape[1])
    (folder / "README.md").write_text(readme, encoding="utf-8")


def _to_faiss(folder: Path, item_ids: Array, items: Array, user_ids: Array, users: Array) -> None:
    faiss = _optional("faiss", "faiss-cpu")
    _to_numpy(folder, item_ids, items, user_ids, users)
    index = faiss.IndexFlatIP(items.shape[1])
    index.add(items)
    (folder / "items.faiss").write_bytes(faiss.serialize_index(index))  # its own writer tells nobody of a full disk


def _to_hnswlib(folder: Path, item_ids: Array, items: Array, user_ids: Array, users: Array) -> None:
    hnswlib = _optional("hnswlib", "hnswlib")
    _to_numpy(folder, item_ids, items, user_ids, users)
    index = hnswlib.Index(space="ip", dim=items.shape[1])
    index.init_index(max_elements=len(items), ef_construction=200, M=16, random_seed=0)
    index.add_items(items, np.arange(len(items)))
    index.save_index(str(folder / "items.hnsw"))
    hnswlib.Index(space="ip", dim=items.shape[1]).load_index(
        str(folder / "items.hnsw")
    )  # fails where a part is missing


EXPORTERS: dict[str, Callable[[Path, Array, Array, Array, Array], None]] = {
    "numpy": _to_numpy,
    "parquet": _to_parquet,
    "safetensors": _to_safetensors,
    "faiss": _to_faiss,
    "hnswlib": _to_hnswlib,
}


def _plain(ids: Array) -> Array:
    """Ids of a type that ``np.save`` writes without pickling: strings of fixed width."""
    return ids.astype(np.str_) if ids.dtype.kind == "O" else ids


def _optional(module: str, package: str) -> ModuleType:
    try:
        return import_module(module)
    except ImportError as error:
        raise SettingError(f"this export needs {module}: pip install {package}, or export as numpy.") from error
