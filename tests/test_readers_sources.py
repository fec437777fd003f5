"""What `vr.read` takes besides one file: folders, patterns, lists, web addresses, frames, cursors, matrices."""

from __future__ import annotations

import gzip
import sqlite3
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

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
    with pytest.raises(vr.SettingError, match="sep=, header= and like= are for files"):
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


@pytest.mark.parametrize("text", ["user\titem\n1\t5\n2\t7\n", '1,5\n2,"7"\n'])
def test_ids_of_digits_are_strings_where_those_of_the_log_are(tmp_path, text):
    """The rows of a quiet day may happen to be of items whose codes have no letter."""
    (tmp_path / "day.txt").write_text(text)
    log = vr.Interactions.from_arrays([1, 2], ["5", "A6"])
    day = vr.read(tmp_path / "day.txt", like=log)
    assert (day.user_ids.tolist(), day.item_ids.tolist()) == ([1, 2], ["5", "7"])
    assert log.extend(day).item_ids.tolist() == ["5", "A6", "7"]
    vr.prepare_log(tmp_path / "day.txt", tmp_path / "prepared")
    assert vr.read(tmp_path / "prepared", like=log).item_ids.tolist() == [5, 7]  # settled when it was prepared


def test_a_log_takes_no_columns():
    log = vr.Interactions.from_arrays([1], [2])
    with pytest.raises(vr.SettingError, match="for what is no log yet"):
        vr.read(log, weight="stars")


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


@pytest.fixture
def site(tmp_path):
    """A web server over a folder: its address, and the folder."""
    (tmp_path / "web").mkdir()
    handler = partial(QuietHandler, directory=tmp_path / "web")
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", tmp_path / "web"
        server.shutdown()


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format, *arguments):
        pass


def test_web_addresses_are_read_like_files(site, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    address, web = site
    (web / "a.tsv.gz").write_bytes(gzip.compress(b"user\titem\tstars\nb\t1\t5\na\t2\t3\n"))
    (web / "b.tsv.gz").write_bytes(gzip.compress(b"user\titem\tstars\na\t1\t4\n"))
    log = vr.read([f"{address}/a.tsv.gz?v=1", web / "b.tsv.gz"], weight="stars")
    assert sorted(seen(log)) == ROWS
    assert sorted(log.weights.tolist()) == [3, 4, 5]
    pq.write_table(pa.table(COLUMNS), web / "a.parquet")
    assert seen(vr.read(f"{address}/a.parquet")) == ROWS
    assert vr.read(Path(f"{address}/a.tsv.gz")).fingerprint == vr.read(web / "a.tsv.gz").fingerprint
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("vitalrank-")]


def test_an_address_that_gives_no_log_is_one_sentence(site):
    address, web = site
    (web / "login.csv").write_text("<!doctype html><p>log in")
    for name, message in [("none.csv", "answered 404"), ("login.csv", "sent a web page")]:
        with pytest.raises(vr.DataError, match=message):
            vr.read(f"{address}/{name}")
    with pytest.raises(vr.DataError, match="no web address"):
        vr.read("http://[::1/log.csv")


def test_a_cursor_is_read_by_the_names_of_its_columns():
    made = sqlite3.connect(":memory:")
    made.execute("create table rows (item int, user text, time int, stars real)")
    made.executemany("insert into rows values (?, ?, ?, ?)", [(1, "b", 3, 1.0), (2, "a", 2, 2.0), (1, "a", 1, 3.0)])
    log = vr.read(made.execute("select * from rows"), weight="stars")
    assert seen(log) == ROWS
    assert log.weights.tolist() == [3, 2, 1]
    assert vr.read(made.execute("select * from rows"), time=False).times is None
    assert vr.read(made.execute("select item i, user u from rows"), user="u", item="i").n_users == 2
