"""Weights of rows: read, merged, decayed, kept; and training with them beside an independent computation."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

import vitalrank as vr

Row = tuple[int, int, int, int]
rows = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 9), st.integers(1, 5)), min_size=1, max_size=40
)


@settings(deadline=None)
@given(rows, st.sampled_from(["first", "last", "sum", "count"]), st.booleans())
def test_repeats_are_the_plain_definition(rows: list[Row], repeats: str, weighted: bool) -> None:
    users, items, times, weights = map(list, zip(*rows, strict=True))
    log = vr.Interactions.from_arrays(users, items, times, weights if weighted else None, repeats=repeats)
    groups: dict[tuple[int, int], list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row[2]):
        groups[row[:2]].append(row)
    place = 0 if repeats == "first" else -1
    wanted = {}
    for pair, group in groups.items():
        each = [row[3] if weighted else 1 for row in group]
        weight = {"sum": sum(each), "count": len(group)}.get(repeats, each[place])
        wanted[pair] = group[place][2], weight
    has_weights = weighted or repeats in ("sum", "count")
    assert (log.weights is not None) == has_weights
    given = log.weights if log.weights is not None else np.ones(len(log))
    found = zip(log.user_ids[log.users], log.item_ids[log.items], log.times, given, strict=True)
    assert {(u, i): (t, w) for u, i, t, w in found} == wanted
    assert log.repeats == len(rows) - len(groups)


FILES = {
    "a.csv": "user,item,time,stars\nann,7,20,4.5\nbob,7,5,0\nann,9,10,1\n",
    "a.tsv": "user\titem\tstars\ttime\nann\t7\t4.5\t20\nbob\t7\t0\t5\nann\t9\t1\t10\n",
    "a.jsonl": '{"user": "ann", "item": 7, "stars": 4.5, "time": 20}\n'
    '{"user": "bob", "item": 7, "stars": 0, "time": 5}\n'
    '{"user": "ann", "item": 9, "stars": 1, "time": 10}\n',
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("timed", [True, False])
def test_files_have_a_weight_column(tmp_path: Path, name: str, timed: bool) -> None:
    (tmp_path / name).write_text(FILES[name])
    log = vr.read(tmp_path / name, weight="stars", time=None if timed else False)
    assert (log.times is not None) == timed
    assert log.weights.tolist() == ([1, 4.5, 0] if timed else [4.5, 1, 0])
    assert vr.read(tmp_path / name).weights is None
    vr.datasets.write_log(log, tmp_path / "log.parquet")
    again = vr.read(tmp_path / "log.parquet", weight="weight")
    assert again.weights.tolist() == log.weights.tolist()
    assert again.fingerprint == log.fingerprint


def test_columns_may_be_positions(tmp_path: Path) -> None:
    path = tmp_path / "u.data"
    path.write_text("1 5 3 881250949\n1 6 4 881250950\n")
    log = vr.read(path, weight=2)
    assert log.weights.tolist() == [3, 4]
    assert log.times is not None
    path.write_text("1 5 3\n1 6 4\n")
    assert vr.read(path, weight=2).weights.tolist() == [3, 4]


@pytest.mark.parametrize("bad", ["-1", "nan", "inf", "many", "", "1e40"])
def test_a_bad_weight_is_named_by_its_line_or_skipped(tmp_path: Path, bad: str) -> None:
    path = tmp_path / "log.csv"
    path.write_text(f"user,item,w\n1,5,2\n2,6,{bad}\n3,7,1\n")
    with pytest.raises(vr.DataError, match=r"log.csv, line 3: weight .*"):
        vr.read(path, weight="w")
    log = vr.read(path, weight="w", on_bad="skip")
    assert (log.weights.tolist(), log.skipped) == ([2, 1], 1)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, -1], "row 1 is -1.0"),
        ([np.nan, 1], "row 0 is nan"),
        ([0, 0], "All weights are 0"),
        ([1], "2 items, 1 weights"),
        ([1, None], "weights: row 1 is missing"),
        (["a", "b"], "weights: a value is no number"),
    ],
)
def test_weights_that_are_none_are_refused(weights: list[Any], message: str) -> None:
    with pytest.raises(vr.DataError, match=message):
        vr.Interactions.from_arrays([1, 2], [5, 6], weights=weights)


def test_frames_matrices_and_cursors_have_weights() -> None:
    frame = {"user_id": [1, 1], "item_id": [5, 6], "rating": [4, 2]}
    assert vr.read(frame, weight="rating").weights.tolist() == [4, 2]
    assert vr.read(frame).weights is None
    matrix = csr_matrix([[0, 2.5], [3, 0]])
    assert vr.read(matrix).weights is None
    assert vr.read(matrix, weight=True).weights.tolist() == [2.5, 3]
    rows = [(1, 5, 4.0), (1, 6, 2.0)]
    log = vr.Interactions.from_rows(iter(rows), ("user", "item", "stars"), weight="stars")
    assert log.weights.tolist() == [4, 2]
    with pytest.raises(vr.DataError, match="one column has two roles"):
        vr.read({"user": [1], "item": [2]}, weight="item")
    with pytest.raises(vr.DataError, match="no column 'stars'"):
        vr.read(frame, weight="stars")
    with pytest.raises(vr.DataError, match="Row 1 has 2 values"):
        vr.Interactions.from_rows([(1, 5, 4), (1, 6)])
    with pytest.raises(vr.DataError, match="no rows"):
        vr.Interactions.from_rows([])


def test_weights_fall_with_age() -> None:
    day = 86_400_000
    log = vr.Interactions.from_arrays([1, 1, 2], [5, 6, 5], np.array([0, 30, 60]) * day + 1_600_000_000_000, [1, 2, 4])
    assert log.decayed("30d").weights.tolist() == [0.25, 1, 4]
    assert log.decayed("30d", now="2020-11-13").weights[0] < 0.25
    assert log.decayed(30 * day).weights.tolist() == [0.25, 1, 4]


def test_the_fingerprint_knows_weights_and_known_negatives() -> None:
    plain = vr.Interactions.from_arrays([1, 2], [5, 6])
    other = vr.Interactions.from_arrays([1, 2], [6, 5])
    logs = [
        plain,
        vr.Interactions.from_arrays([1, 2], [5, 6], weights=[1, 1]),
        vr.Interactions.from_arrays([1, 2], [5, 6], weights=[1, 2]),
        plain.with_negatives(other),
    ]
    assert len({log.fingerprint for log in logs}) == 4


def test_weights_and_known_negatives_survive_filters_and_files(tmp_path: Path) -> None:
    log = vr.datasets.synthetic(users=30, items=20, interactions=300, seed=0)
    users, items = log.user_ids[log.users], log.item_ids[log.items]
    log = vr.Interactions.from_arrays(users, items, log.times, np.arange(len(log)) + 1)
    log = log.with_negatives(vr.Interactions.from_arrays(log.user_ids, np.resize(log.item_ids, log.n_users)))
    core = log.k_core(user=4, item=4)
    known = dict(zip(zip(users.tolist(), items.tolist(), strict=True), log.weights.tolist(), strict=True))
    pairs = zip(core.user_ids[core.users].tolist(), core.item_ids[core.items].tolist(), strict=True)
    assert [known[pair] for pair in pairs] == core.weights.tolist()
    train, test = core.split_last(0.2)
    assert len(train.weights) == len(train)
    model = vr.MostPopular().fit(train)
    model.held_out = {"test": test}
    model.save(tmp_path / "a")
    again = vr.load(tmp_path / "a")
    assert again.train.fingerprint == train.fingerprint
    assert again.held_out["test"].weights.tolist() == test.weights.tolist()
    assert (again.train.negatives != train.negatives).nnz == 0
    assert train.negatives.nnz > 0
    assert train.negatives.multiply(train.csr).nnz == 0
