"""Files of vectors and positives of any content, with any rules: mined by the rule, or refused in one sentence."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors.numpy import save_file
from tests.fuzz._mutations import mutate_bytes, mutate_json
from tests.fuzz.readers import check_message

import vitalrank as vr
from vitalrank.mining import mine_to
from vitalrank.samplers import SAMPLERS, find_sampler

KINDS = [np.float32, np.float32, np.float32, np.float16, np.float64, np.int64, np.bool_, np.complex64, object]
FLOATS = [float("nan"), float("inf"), -float("inf"), 3e38, -3e38, 1e-45, 0.0]
NUMBERS: list[Any] = [
    None, 0, 1, 2, 5, 30, -1, 10**9, 2**31, 2**63, 10**30, 0.5, 1.0, -0.5, 1e308, float("nan"), float("inf"), "1",
    True, [],
]  # fmt: skip
OPTIONS = ["range_min", "range_max", "max_score", "min_score", "absolute_margin", "relative_margin"]
SECONDS = 30.0  # of the processor


def case(rng: Random) -> None:
    pick = np.random.default_rng(rng.randrange(2**32))
    dim = rng.choice([1, 4, 4, 33])
    queries, items = (pick.normal(size=(rng.choice([1, 7, 40]), dim)) for _ in range(2))
    pairs = pick.integers(0, len(items), len(queries))
    with tempfile.TemporaryDirectory(prefix="vitalrank-fuzz-") as place:
        folder = Path(place)
        (folder / "notes.parquet").write_text("mine")
        sources = [vectors(rng, folder, "queries", queries), vectors(rng, folder, "items", items)]
        sources.append(positives(rng, folder, pairs, len(queries), len(items)))
        before = {path: path.read_bytes() for path in folder.iterdir()}
        out = folder / (rng.choice([*(path.name for path in before), "", "no/such/x"]) if rng.random() < 0.1 else "out")
        begin, summary = time.process_time(), None
        try:
            summary = mine_to(out, *sources, force=rng.random() < 0.05, **rules(rng))
            check(rng, out, summary, sources)
        except vr.VitalrankError as error:
            check_message(str(error))
            raise
        finally:
            assert time.process_time() - begin < SECONDS
            for path, content in before.items():
                assert path.read_bytes() == content or path.name == "notes.parquet" == out.name, path
            assert summary is not None or not (folder / "out").exists()


def vectors(rng: Random, folder: Path, name: str, array: Any) -> Any:
    """An array, or a file of it, most of them damaged in some way."""
    array = damaged(rng, array) if rng.random() < 0.5 else array.astype(np.float32)
    kind = rng.choice(["array", "npy", "npz", "safetensors", "parquet", "txt"])
    path = folder / f"{name}.{kind}"
    if kind == "array" or array.dtype == object:
        return array
    if kind == "npy":
        np.save(path, array)
    elif kind == "npz":
        names = rng.choice([{name: array}, {"more": array, name: array}, {"a": array, "b": array}, {}])
        np.savez(path, **names)
    elif kind == "safetensors" and array.dtype.kind != "c":
        save_file({rng.choice([name, "other"]): np.ascontiguousarray(array)}, path)
        if rng.random() < 0.4:
            change_header(rng, path)
    elif kind == "parquet":
        pq.write_table(table_of(rng, array), path)
    else:
        path.write_text("1 2 3")
    if rng.random() < 0.15 and path.stat().st_size:
        mutate_bytes(rng, path)
    return rng.choice([path, str(path)])


def damaged(rng: Random, array: Any) -> Any:
    choice = rng.randrange(7)
    array = array.copy()
    if choice == 0:
        array.reshape(-1)[rng.randrange(array.size)] = rng.choice(FLOATS)
    elif choice == 1:
        array[rng.randrange(len(array))] = 0.0
    elif choice == 2:
        array = array[: rng.randrange(len(array) + 1)]
    elif choice == 3:
        array = rng.choice(
            [array[None], array.reshape(-1), array[:, :0], array.T, array[::-1], np.asfortranarray(array)]
        )
    elif choice == 4:
        array = array * rng.choice([1e-300, 1e30, 1e300])
    with np.errstate(all="ignore"):
        return array.astype(rng.choice(KINDS) if choice > 4 else np.float32)


def change_header(rng: Random, path: Path) -> None:
    """The JSON header of a safetensors file changed, its length right."""
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = mutate_json(rng, json.loads(content[8 : 8 + size]))
    text = json.dumps(header).encode() if rng.random() < 0.9 else rng.choice([b"[" * 90_000, b"", b"\xff", b"1"])
    path.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + size :])


def table_of(rng: Random, array: Any) -> pa.Table:
    rows: list[Any] = array.tolist()
    if rows and rng.random() < 0.3:
        rows[rng.randrange(len(rows))] = rng.choice([None, [], [1.0], [None], [1.0] * 50])
    try:
        column = pa.array(rows)
    except (pa.ArrowException, TypeError):
        column = pa.array([[1.0]])
    if rng.random() < 0.3:
        return pa.table({"vector": column, rng.choice(["b", "items", "\x1b[2J"]): column})
    return pa.table({"vector": column, "id": range(len(column))})


def positives(rng: Random, folder: Path, pairs: Any, n_queries: int, n_items: int) -> Any:
    choice = rng.randrange(12)
    array = np.column_stack([np.arange(n_queries), pairs])
    if choice == 0:
        array[rng.randrange(len(array)), rng.randrange(2)] = rng.choice([-1, n_items, n_queries, 2**40, -(2**62)])
    given: Any = {
        1: [[one] for one in pairs.tolist()], 2: [[None]] * n_queries, 3: [], 4: "abc", 5: [[0.5]] * n_queries,
        6: array[:0], 7: array.astype(rng.choice(KINDS)), 8: np.concatenate([array, array]), 9: [["x"]] * n_queries,
    }.get(choice, rng.choice([pairs, array]))  # fmt: skip
    if isinstance(given, np.ndarray) and given.dtype != object and rng.random() < 0.5:
        path = folder / f"positives.{rng.choice(['npy', 'parquet'])}"
        if path.suffix == ".npy":
            np.save(path, given)
        elif given.ndim == 2 and given.dtype.kind != "c":
            columns: list[Any] = [given[:, 0].tolist(), given[:, 1].tolist()]
            if columns[0] and rng.random() < 0.2:
                columns[1][0] = None
            columns = columns[: rng.choice([1, 2, 2, 2, 2, 2])]
            pq.write_table(pa.table(dict(zip("ab", columns, strict=False))), path)
        else:
            return given
        if rng.random() < 0.2:
            mutate_bytes(rng, path)
        return path
    return given


def rules(rng: Random) -> dict[str, Any]:
    given: dict[str, Any] = {"k": rng.choice([1, 1, 2, 5, 300, *NUMBERS])}
    for name in rng.sample(OPTIONS, rng.choice([0, 0, 1, 2, 3])):
        given[name] = rng.choice(NUMBERS)
    if rng.random() < 0.3:
        given["similarity"] = rng.choice(["dot", "dot", "cosine", "", None, 1])
    if rng.random() < 0.4:
        kind = find_sampler(rng.choice(sorted(SAMPLERS)))
        given["sampler"] = kind() if rng.random() < 0.95 else rng.choice([kind, "vins", 1])
        given.pop("range_min", None), given.pop("range_max", None)
    for name in ("seed", "threads"):
        if rng.random() < 0.2:
            given[name] = rng.choice(NUMBERS)
    return given


def check(rng: Random, out: Path, summary: Any, sources: list[Any]) -> None:
    """Triplets name rows that there are, no positive is a negative, and the counts are right."""
    table = pq.read_table(out).to_pydict()
    assert len(table["query"]) == summary.negatives
    own = set(zip(table["query"], table["positive"], strict=True))
    assert not own & set(zip(table["query"], table["negative"], strict=True))
    triplets = set(zip(table["query"], table["positive"], table["negative"], strict=True))
    assert len(triplets) == summary.negatives
    assert all(np.isfinite(table["score"])), sources
