"""Preparation in bounded memory gives, bit for bit, what reading, filtering and splitting in memory give."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.test_prepared import assert_same

import vitalrank as vr
from vitalrank.preparing import running
from vitalrank.preparing.budget import Budget, to_bytes
from vitalrank.preparing.cutting import cutoff_on_disk
from vitalrank.preparing.merging import merge_ids
from vitalrank.preparing.scanning import Run
from vitalrank.readers.collecting import Chunk


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Runs, blocks and ranges of ids of a few rows, so that small logs take every turn that large ones take."""
    monkeypatch.setattr(Budget, "collected", 4000)
    monkeypatch.setattr(Budget, "rows", 90)
    monkeypatch.setattr(Budget, "ids", lambda budget, width: 20)


def columns(rows=3000, text=True, seed=0, dates=False):
    rng = np.random.default_rng(seed)
    users, items = rng.integers(0, 150, rows), rng.zipf(1.5, rows) % 80
    times = rng.integers(1_600_000_000, 1_600_000_300, rows)
    table = {
        "user": [f"ü{user}" for user in users] if text else users - 20,
        "item": [f"i{item:02}" for item in items] if text else items * 10**9,
        "time": times.astype("datetime64[s]") if dates else times,
        "rating": rng.integers(0, 6, rows),
    }
    return pa.table(table)


def write_parquet(table, folder, files=3):
    folder.mkdir()
    size = -(-len(table) // files)
    for number in range(files):
        pq.write_table(table.slice(number * size, size), folder / f"part-{number}.parquet", row_group_size=100)
    return folder


def write_text(table, path):
    frame = table.to_pandas()
    frame.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write_parquet(columns(), tmp_path_factory.mktemp("source") / "log")


@pytest.mark.parametrize("text", [True, False])
@pytest.mark.parametrize("repeats", ["first", "last", "sum", "count"])
def test_what_comes_out_is_what_read_gives(tmp_path, monkeypatch, text, repeats):
    monkeypatch.setattr("vitalrank.readers.parquet.BATCH_ROWS", 128)
    log = write_parquet(columns(text=text), tmp_path / "log")
    prepared = vr.prepare_log(log, tmp_path / "out", weight="rating", repeats=repeats)
    expected = vr.read(log, weight="rating", repeats=repeats)
    assert_same(prepared.log(), expected)
    assert prepared.log().repeats == expected.repeats > 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir())[1:] == ["prepared.json"]
    assert not list((tmp_path / "out").rglob("scratch*"))


@pytest.mark.parametrize("no_time", [True, False])
def test_text_files_too(tmp_path, monkeypatch, no_time):
    monkeypatch.setattr("vitalrank.readers.sources.BLOCK", 2048)
    path = write_text(columns(), tmp_path / "log.csv")
    asked = {"time": False} if no_time else {}
    assert_same(vr.prepare_log(path, tmp_path / "out", **asked).log(), vr.read(path, **asked))


def test_numbers_that_turn_out_to_be_text_and_times_that_turn_out_to_be_fractions(tmp_path, monkeypatch):
    monkeypatch.setattr("vitalrank.readers.sources.BLOCK", 2048)
    rng = np.random.default_rng(1)
    lines = [f"{user},{item},{when}" for user, item, when in rng.integers(0, 300, (2000, 3))]
    lines[900] = "late,9,7.5"
    path = tmp_path / "log.csv"
    path.write_text("user,item,time\n" + "\n".join(lines) + "\n")
    log = vr.prepare_log(path, tmp_path / "out").log()
    assert log.times.dtype == np.float64
    assert log.user_ids.dtype == object
    assert log.item_ids.dtype == np.int64
    assert_same(log, vr.read(path))


@pytest.mark.parametrize(("user", "item"), [(3, 0), (0, 9), (6, 5), (1, 1)])
def test_the_core_is_that_of_a_log_in_memory(tmp_path, source, user, item):
    expected = vr.read(source).k_core(user, item)
    prepared = vr.prepare_log(source, tmp_path / "out", min_user=user, min_item=item)
    assert_same(prepared.log(), expected)
    assert prepared.log().repeats == expected.repeats


@pytest.mark.parametrize("core", [0, 5])
@pytest.mark.parametrize(
    ("asked", "split"),
    [
        ({"test": 0.2, "valid": 0.1}, lambda log: log.split_last(0.2, valid=0.1)),
        ({"test": 0.2}, lambda log: log.split_last(0.2)),
        ({"split": "loo", "valid": 0.1}, lambda log: log.split_last(count=1, valid=1)),
        ({"split": "time", "test": 0.2, "valid": 0.1}, lambda log: log.split_time(share=0.2, valid=0.1)),
        ({"split": "time", "cutoff": 1_600_000_200}, lambda log: log.split_time(1_600_000_200)),
    ],
)
def test_the_parts_are_those_of_a_log_in_memory(tmp_path, source, core, asked, split):
    prepared = vr.prepare_log(source, tmp_path / "out", min_user=core, min_item=core, **asked)
    parts = prepared.split()
    expected = split(vr.read(source).k_core(core, core))
    assert len(parts) == len(expected)
    for part, other in zip(parts.values(), expected, strict=True):
        assert_same(part, other)
    assert_same(prepared.log(), vr.read(source).k_core(core, core))


def test_a_catalogue_larger_than_a_block(tmp_path):
    rng = np.random.default_rng(0)
    table = pa.table({"user": rng.integers(0, 9, 900), "item": rng.integers(0, 5000, 900)})
    log = write_parquet(table, tmp_path / "log")
    assert_same(vr.prepare_log(log, tmp_path / "out").log(), vr.read(log))


@pytest.mark.parametrize("kind", ["int", "float", "few"])
@pytest.mark.parametrize("share", [0.001, 0.2, 0.9])
def test_a_cutoff_is_found_by_counting(monkeypatch, kind, share):
    monkeypatch.setattr("vitalrank.preparing.cutting._FEW", 7)
    monkeypatch.setattr("vitalrank.preparing.cutting._BINS", 5)
    rng = np.random.default_rng(2)
    times = {"int": rng.integers(0, 2**40, 5000), "float": rng.random(5000), "few": rng.integers(3, 9, 5000)}[kind]
    pieces = np.array_split(times, 7)
    if kind == "few" and share == 0.9:
        with pytest.raises(vr.DataError, match="falls on the first time"):
            cutoff_on_disk(lambda: pieces, share, "share")
        return
    expected = np.sort(times)[len(times) - int(np.ceil(len(times) * share - 1e-9))]
    assert cutoff_on_disk(lambda: pieces, share, "share") == expected


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_ids_are_merged_in_order(tmp_path, monkeypatch, size):
    monkeypatch.setattr(Budget, "ids", lambda budget, width: size)
    sides = [np.array([3, 5, 900]), np.array([1, 3]), np.array([5, 7, 8, 10**14])]
    one, zero = np.zeros(1, np.int32), np.array([0])
    runs = [Run.save(tmp_path, n, Chunk(ids, one, zero, one, None, None)) for n, ids in enumerate(sides)]
    merged = merge_ids(runs, "users", tmp_path, Budget(1))
    assert np.concatenate([piece.to_numpy() for piece in merged]).tolist() == [1, 3, 5, 7, 8, 900, 10**14]
    maps = [np.fromfile(run.map_path("users"), np.int32).tolist() for run in runs]
    assert maps == [[1, 2, 5], [0, 1], [2, 3, 4, 6]]


def test_a_preparation_that_is_killed_leaves_what_was_there_and_can_run_again(tmp_path, source):
    out = tmp_path / "out"
    vr.prepare_log(source, out, min_user=9)
    before = vr.read(out)
    program = (
        "import sys, vitalrank as vr\n"
        "def stop(name):\n"
        "    if name == sys.argv[3]:\n"
        "        print('ready', flush=True)\n"
        "        __import__('time').sleep(60)\n"
        "vr.prepare_log(sys.argv[1], sys.argv[2], progress=stop, temp=sys.argv[4])\n"
    )
    temp = tmp_path / "temp"
    for stage in ("sorting", "writing"):
        command = [sys.executable, "-c", program, source, out, stage, temp]
        child = subprocess.Popen(command, stdout=subprocess.PIPE)
        try:
            assert child.stdout.readline() == b"ready\n"
            assert len(list(temp.iterdir())) == 1
        finally:
            child.send_signal(signal.SIGKILL)
            child.wait()
        assert_same(vr.read(out), before)
        assert len(list(out.iterdir())) > 2
    assert_same(vr.prepare_log(source, out, temp=temp).log(), vr.read(source))
    assert sorted(path.name for path in out.iterdir())[1:] == ["prepared.json"]
    assert not list(temp.iterdir())


def test_two_preparations_of_one_folder_exclude_each_other(tmp_path, source):
    def again(stage):
        with pytest.raises(vr.StorageError, match="writes here"):
            vr.prepare_log(source, tmp_path / "out")

    vr.prepare_log(source, tmp_path / "out", progress=again)


def test_a_full_disk_is_one_sentence(tmp_path, source, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(running, "merge_ids", full)
    with pytest.raises(vr.StorageError, match=r"temp: no space is left for temporary files; free some or give another"):
        vr.prepare_log(source, tmp_path / "out", temp=tmp_path / "temp")
    assert not (tmp_path / "out").exists()
    monkeypatch.undo()
    monkeypatch.setattr("vitalrank.prepared.arrays.ArrayWriter.append", full)
    with pytest.raises(vr.StorageError, match=r"cannot be written .*Nothing was replaced"):
        vr.prepare_log(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_stages_are_reported(tmp_path, source):
    stages = []
    vr.prepare_log(source, tmp_path / "out", min_user=2, progress=stages.append)
    assert stages == ["reading", "numbering ids", "sorting", "filtering", "writing"]


@pytest.mark.parametrize("rows", ["1,2,0\n1,3,0\n", "1,2,0\n1,2,5\n"])
def test_weights_that_are_all_zero_are_refused(tmp_path, rows):
    (tmp_path / "log.csv").write_text(f"user,item,stars\n{rows}")
    with pytest.raises(vr.DataError, match="All weights are 0"):
        vr.prepare_log(tmp_path / "log.csv", tmp_path / "out", weight="stars")
    assert not (tmp_path / "out" / "prepared.json").exists()


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"memory": "5 potatoes"}, "give bytes or a size such as '2GiB'"),
        ({"memory": "1M"}, "give at least 400 MiB"),
        ({"min_user": -1}, "min_user is -1"),
        ({"test": 1.5}, "from 0 to below 1"),
        ({"split": "random"}, "unknown split"),
        ({"cutoff": 5}, "cutoff= says what split='time'"),
        ({"split": "loo", "test": 0.1}, "leave out test"),
        ({"on_bad": "maybe"}, "unknown on_bad"),
        ({"split": "time", "test": 0.2, "time": False}, "needs times"),
        ({"min_user": 10**6}, "leaves nothing of"),
        ({"user": "who"}, "no column 'who'"),
    ],
)
def test_a_bad_setting_is_one_sentence(tmp_path, source, asked, message):
    with pytest.raises(vr.VitalrankError, match=message):
        vr.prepare_log(source, tmp_path / "out", **asked)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("size", "number"), [("2GiB", 2 << 30), ("1.5 g", 3 << 29), (1 << 30, 1 << 30), ("900MB", 900 << 20)]
)
def test_sizes_of_memory(size, number):
    assert to_bytes(size) == number
