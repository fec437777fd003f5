"""What `vr.read` takes besides one file: folders, patterns, lists of paths, frames, sparse matrices."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse

import vitalrank as vr
from test_readers import seen

COLUMNS = {"user": ["b", "a", "a"], "item": [1, 2, 1], "time": [3, 2, 1]}
ROWS = [("a", 1), ("a", 2), ("b", 1)]


@pytest.mark.parametrize("make", [dict, pd.DataFrame, pl.DataFrame, pa.table])
def test_a_frame_is_read_as_from_frame_reads_it(make):
    frame = make(COLUMNS)
    assert seen(vr.read(frame)) == ROWS
    assert vr.read(frame, time=False).times is None
    with pytest.raises(vr.SettingError, match="sep= and header= are for files"):
        vr.read(frame, sep=",")


def test_a_log_is_read_as_it_is():
    log = vr.Interactions.from_frame(COLUMNS)
    assert vr.read(log) is log


@pytest.mark.parametrize("form", [sparse.csr_matrix, sparse.coo_matrix, sparse.csr_array, sparse.csc_array])
def test_a_sparse_matrix_is_read_by_its_nonzero_entries(form):
    matrix = form(np.array([[0, 2, 1], [0, 0, 0], [1, 0, 0]]))
    log = vr.read(matrix)
    assert seen(log) == [(0, 1), (0, 2), (2, 0)]
    assert log.times is None
    named = vr.Interactions.from_csr(matrix, user_ids=["u", "v", "w"], item_ids=[7, 8, 9])
    assert seen(named) == [("u", 8), ("u", 9), ("w", 7)]
    with pytest.raises(vr.DataError, match="2 user_ids for a matrix with 3 users"):
        vr.Interactions.from_csr(matrix, user_ids=[1, 2])


def test_stored_zeros_and_repeated_entries_are_no_further_rows():
    matrix = sparse.coo_matrix(([1, 1, 0], ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    assert seen(vr.read(matrix)) == [(0, 1)]
    with pytest.raises(vr.DataError, match="no rows"):
        vr.read(sparse.csr_matrix((2, 2)))


@pytest.fixture
def folder(tmp_path):
    """Two files; ids are all integers in the first to be read only."""
    (tmp_path / "b.csv").write_text("user,item,time\nx,7,4\n2,8,5\n")
    (tmp_path / "a.csv").write_text("user,item,time\n1,7,2\n2,9,3\n")
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / ".hidden").write_text("no")
    return tmp_path


def test_the_files_of_a_folder_are_one_log(folder):
    (folder.parent / "whole.csv").write_text("user,item,time\n1,7,2\n2,9,3\nx,7,4\n2,8,5\n")
    whole = vr.read(folder.parent / "whole.csv")
    for source in (folder, str(folder / "*.csv"), [folder / "a.csv", str(folder / "b.csv")], (folder,)):
        assert vr.read(source).fingerprint == whole.fingerprint
    assert whole.user_ids.tolist() == ["1", "2", "x"]


def test_files_without_times_keep_the_order_of_their_names(tmp_path):
    (tmp_path / "2.csv").write_text("user,item\n1,20\n")
    (tmp_path / "1.csv").write_text("user,item\n1,30\n")
    assert seen(vr.read(tmp_path)) == [(1, 30), (1, 20)]
    assert seen(vr.read([tmp_path / "2.csv", tmp_path / "1.csv"])) == [(1, 20), (1, 30)]


def test_parquet_files_are_read_together_if_their_types_agree(tmp_path):
    for name, users in (("a", [1, 2]), ("b", [2, 3])):
        pq.write_table(pa.table({"user": users, "item": ["x", "y"]}), tmp_path / f"{name}.parquet")
    assert vr.read(tmp_path).user_ids.tolist() == [1, 2, 3]
    pq.write_table(pa.table({"user": ["1"], "item": ["x"]}), tmp_path / "c.parquet")
    with pytest.raises(
        vr.DataError, match=r"c\.parquet has users of type string and .*a\.parquet has users of type int"
    ):
        vr.read(tmp_path)


def test_files_that_do_not_go_together_are_refused(folder):
    (folder / "c.jsonl").write_text('{"user": 1, "item": 2, "time": 3}\n')
    with pytest.raises(vr.DataError, match=r"c\.jsonl has JSON lines and .*a\.csv has delimited text"):
        vr.read(folder)
    (folder / "c.jsonl").unlink()
    (folder / "c.csv").write_text("user,item\n1,2\n")
    with pytest.raises(vr.DataError, match=r"c\.csv has no time column and .*a\.csv has a time column"):
        vr.read(folder)


def test_nothing_to_read_is_said(tmp_path):
    with pytest.raises(vr.DataError, match="is a folder without files"):
        vr.read(tmp_path)
    with pytest.raises(vr.DataError, match="no file matches"):
        vr.read(str(tmp_path / "*.csv"))
    with pytest.raises(vr.SettingError, match="give a path, several paths"):
        vr.read([])
    with pytest.raises(vr.SettingError, match="give a path, several paths"):
        vr.read([1, 2])
    (tmp_path / "inner").mkdir()
    with pytest.raises(vr.DataError, match=r"holds a folder \(inner\)"):
        vr.read(tmp_path)


def test_a_model_says_how_to_make_a_log_of_what_it_was_given():
    model = vr.MF(dim=4)
    for given, words in (
        (pd.DataFrame(COLUMNS), r"vr\.Interactions\.from_frame\(train\)"),
        (sparse.csr_matrix((2, 2)), r"vr\.Interactions\.from_csr\(train\)"),
        ("log.csv", r"vr\.read\(train\)"),
    ):
        with pytest.raises(vr.SettingError, match=words):
            model.fit(given)
