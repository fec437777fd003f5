"""Rows that a study lacks, from an earlier one: marked, and compared with nothing."""

from __future__ import annotations

import json

import pytest

from test_paper import LOG, TINY, source_in
from vitalrank.errors import StorageError
from vitalrank.paper.earlier import MARK, fill_in
from vitalrank.paper.registry import find_experiments
from vitalrank.paper.running import run_paper
from vitalrank.paper.store import Store
from vitalrank.paper.study import Study


def test_rows_that_a_study_lacks_come_from_an_earlier_one(tmp_path):
    pytest.importorskip("matplotlib")
    source, store = source_in(tmp_path), Store(tmp_path / "units")
    first, second = (Study([source], TINY, store, names) for names in (("itemknn", "uni"), ("uni", "pop")))
    run_paper(find_experiments("table2"), first, tmp_path / "first", "the first")
    run_paper(find_experiments("table2"), second, tmp_path / "second", "the second", earlier=tmp_path / "first")
    found = json.loads((tmp_path / "second" / "table2.json").read_text())["logs"][LOG]
    assert {name: row.get("earlier") for name, row in found["rows"].items()} == {
        "itemknn": "the first", "uni": None, "pop": None,
    }  # fmt: skip
    assert sorted(found["order"]) == ["itemknn", "pop", "uni"]
    page = (tmp_path / "second" / "table2.md").read_text()
    lines = [line for line in page.splitlines() if line.startswith("| ") and MARK in line]
    assert lines
    assert all("Item-KNN" in line for line in lines)
    assert f"{MARK}: of an earlier study, not compared with the VINS of this one; made by `the first`" in page


def test_what_was_run_now_stays_and_what_was_marked_keeps_its_command():
    then = {"label": "DNS", "seconds": 2.0, "earlier": "the very first"}
    past = {"logs": {"a": {"dns": then, "uni": {"label": "Uni", "seconds": 9.0}}}, "facts": {"command": "the first"}}
    now = {"logs": {"a": {"uni": {"label": "Uni", "seconds": 1.0}}, "b": {}}}
    assert fill_in(now, past)["logs"] == {"a": {"uni": {"label": "Uni", "seconds": 1.0}, "dns": then}, "b": {}}
    assert "dns" not in now["logs"]["a"]


def test_an_unfinished_row_is_filled_in_and_cells_without_a_label_are_not():
    done = {"label": "DNS", "metrics": {"ndcg@10": {"mean": 0.2}}, "valid": {"mean": 0.2}}
    undone = {"label": "DNS", "metrics": None, "valid": None}
    rows = {"logs": {"a": {"rows": {"dns": done}}}, "facts": {"command": "old"}}
    assert fill_in({"logs": {"a": {"rows": {"dns": undone}}}}, rows)["logs"]["a"]["order"] == ["dns"]
    cells = {"logs": {"a": {"vins": {"5": {"mean": 1.0}}}}, "facts": {"command": "old"}}
    assert fill_in({"logs": {"a": {}}}, cells)["logs"]["a"] == {}


def test_a_folder_without_a_study_is_refused(tmp_path):
    study = Study([source_in(tmp_path)], TINY, Store(tmp_path / "units"), ("uni",))
    with pytest.raises(StorageError, match="no data of an earlier study"):
        run_paper(find_experiments("table1"), study, tmp_path / "out", earlier=tmp_path)
