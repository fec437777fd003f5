"""Hostile or unexpected files: one sentence, bounded time and memory, no control characters in messages."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import vitalrank as vr
from test_readers import seen
from vitalrank.readers.delimited import split_lines
from vitalrank.readers.lines import Block


def test_a_header_need_not_be_utf8(tmp_path):
    (tmp_path / "log.csv").write_bytes(b"user,pr\xe9nom,item\n1,x,2\n")
    assert seen(vr.read(tmp_path / "log.csv")) == [(1, 2)]
    with pytest.raises(vr.DataError, match=r"no column 'who'; it has user, pr\\udce9nom, item") as error:
        vr.read(tmp_path / "log.csv", user="who")
    str(error.value).encode()


@pytest.mark.skipif(sys.platform != "linux", reason="names of files must be Unicode here")
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_path_need_not_be_utf8(tmp_path, ending):
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9." + ending.encode()))
    with pytest.raises(vr.DataError, match="no such file") as error:
        vr.read(path)
    str(error.value).encode()
    if ending == "csv":
        path.write_text("user,item\n1,2\n")
    else:
        with path.open("wb") as file:
            pq.write_table(pa.table({"user": [1], "item": [2]}), file)
    assert seen(vr.read(path)) == [(1, 2)]


@pytest.mark.parametrize("sep", ["", "\udce9", "\n", '"', 7])
def test_a_separator_that_cannot_be_one_is_refused(tmp_path, sep):
    (tmp_path / "log.csv").write_text("user,item\n1,2\n")
    with pytest.raises(vr.SettingError, match=r"sep=.*give one or more characters"):
        vr.read(tmp_path / "log.csv", sep=sep)


def test_a_name_that_is_no_utf8_is_an_unknown_column(tmp_path):
    (tmp_path / "log.csv").write_text("user,item\n1,2\n")
    with pytest.raises(vr.DataError, match=r"no column '\\udce9'"):
        vr.read(tmp_path / "log.csv", user="\udce9")


@pytest.mark.parametrize("line", ['a"b,"\n', 'b","\n', '1,"2\n'])
def test_lines_of_stray_quotes_take_linear_time(line):
    """The work is counted, not timed: lines that the parser reads for every line of the input."""
    read = []
    data = (line * 4_000).encode()

    class Counted(bytes):
        pass

    from vitalrank.readers import delimited

    plain = delimited._Lines.__next__
    try:
        delimited._Lines.__next__ = lambda self: read.append(1) or plain(self)  # type: ignore[method-assign]
        rows = list(split_lines(Block(data, 1), ",", lambda fields: None if len(fields) == 2 else "wrong"))
    finally:
        delimited._Lines.__next__ = plain  # type: ignore[method-assign]
    assert rows
    assert len(read) < 60 * 4_000


def test_many_columns_take_linear_time(tmp_path):
    """Eighty thousand: with a comparison of each with each this takes minutes."""
    names = ",".join(["user", "item", *(f"c{n}" for n in range(80_000))])
    (tmp_path / "log.csv").write_text(f"{names}\n" + "1,2" + ",x" * 80_000 + "\n")
    assert seen(vr.read(tmp_path / "log.csv")) == [(1, 2)]
    with pytest.raises(vr.DataError, match=r"and 79,9\d\d others") as error:
        vr.read(tmp_path / "log.csv", user="who")
    assert len(str(error.value)) < 1000


def test_control_characters_are_escaped(tmp_path):
    (tmp_path / "log.csv").write_bytes(b"u\x1b[2Jx,it\x07em\n1,2\n3,4\n")
    with pytest.raises(vr.DataError) as error:
        vr.read(tmp_path / "log.csv", header=True)
    assert str(error.value).isprintable()
    assert r"u\x1b[2Jx" in str(error.value)


def test_a_message_quotes_no_long_value(tmp_path):
    (tmp_path / "log.jsonl").write_text('{"user": 1, "item": 2}\n{"user": "' + "x" * 15_000 + '", "item": 2}\n')
    with pytest.raises(vr.DataError, match="where other lines have an int") as error:
        vr.read(tmp_path / "log.jsonl")
    assert len(str(error.value)) < 500


def test_a_hex_number_of_any_length_is_a_bad_line(tmp_path):
    (tmp_path / "log.json").write_text("{'user': 1, 'item': 2}\n{'user': 0x" + "f" * 9_000 + ", 'item': 2}\n")
    with pytest.raises(vr.DataError, match="line 2: 'user' is a whole number of 36,000 bits, more than 64 bits hold"):
        vr.read(tmp_path / "log.json")
    assert vr.read(tmp_path / "log.json", on_bad="skip").skipped == 1


def test_an_id_has_a_bounded_length(tmp_path):
    (tmp_path / "log.csv").write_text("user,item\nu,i\n" + "x" * 70_000 + ",i\n")
    pq.write_table(pa.table({"user": ["u", "x" * 70_000], "item": ["i", "i"]}), tmp_path / "log.parquet")
    for name in ("log.csv", "log.parquet"):
        with pytest.raises(vr.DataError, match="the user has 70,000 characters; an id may take 65,536 bytes"):
            vr.read(tmp_path / name)
        assert vr.read(tmp_path / name, on_bad="skip").skipped == 1


def text_of(data: bytes) -> pa.Array:
    """A string column of bytes as they are."""
    return pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, len(data)], np.int32)), pa.py_buffer(data)]
    )


def test_parquet_text_that_is_no_utf8_is_a_bad_row(tmp_path):
    for name, columns in {"user": [text_of(b"caf\xe9"), ["i"]], "item": [["u"], text_of(b"\xff")]}.items():
        path = tmp_path / f"{name}.parquet"
        pq.write_table(pa.table(dict(zip(("user", "item"), columns, strict=True))), path)
        with pytest.raises(vr.DataError, match="row 0: a value cannot be read"):
            vr.read(path)


def test_parquet_times_out_of_range_are_refused(tmp_path):
    columns = {"user": [1, 1], "item": [1, 2]}
    seconds = pa.array([10**15, 5]).cast(pa.timestamp("s"))
    pq.write_table(pa.table(columns | {"time": seconds.cast(pa.int64()).cast(pa.timestamp("ms"))}), tmp_path / "a")
    assert len(vr.read(tmp_path / "a")) == 2
    micros = pa.array([253_402_300_800_000_000, -5]).cast(pa.timestamp("us"))  # the year 10,000, and 1969
    pq.write_table(pa.table(columns | {"time": micros}), tmp_path / "b")
    with pytest.raises(vr.DataError, match="row 0: "):
        vr.read(tmp_path / "b")


def test_a_parquet_column_name_that_is_no_utf8_is_one_sentence(tmp_path):
    pq.write_table(pa.table({"user": [1], "item": [2], "XXXX": [3]}), tmp_path / "log.parquet", store_schema=False)
    data = (tmp_path / "log.parquet").read_bytes().replace(b"XXXX", b"\xff\xfe\xe9\xe9")
    (tmp_path / "log.parquet").write_bytes(data)
    with pytest.raises(vr.DataError):
        vr.read(tmp_path / "log.parquet")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_small_parquet_file_stays_small_in_memory(tmp_path):
    """One id of 30 KB, repeated 200,000 times, would be 6 GB if each row held its text."""
    rows = 200_000
    ids = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array(["x" * 30_000]))
    items = pa.array(np.arange(rows))
    pq.write_table(pa.table({"user": ids, "item": items}), tmp_path / "log.parquet", store_schema=False)
    code = (
        "import pathlib, vitalrank as vr\n"
        f"assert len(vr.read({str(tmp_path / 'log.parquet')!r})) == {rows}\n"
        "print(pathlib.Path('/proc/self/status').read_text())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    # Not ru_maxrss, which counts the process of the tests that this one was forked from.
    assert int(done.stdout.partition("VmHWM:")[2].split()[0]) < 1_000_000  # KiB


def test_a_long_text_in_a_column_that_is_not_read_is_not_repeated(tmp_path):
    """Columns without a role are looked at, since they might be the time; a value may take megabytes."""
    path, rows = tmp_path / "log.parquet", 60
    blob = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array(["x" * 2_000_000]))
    pq.write_table(pa.table({"user": range(rows), "item": range(rows), "blob": blob}), path, store_schema=False)
    pool, usual = pa.proxy_memory_pool(pa.default_memory_pool()), pa.default_memory_pool()
    pa.set_memory_pool(pool)
    try:
        assert len(vr.read(path)) == rows
    finally:
        pa.set_memory_pool(usual)
    assert pool.max_memory() < 40_000_000
