"""Files to logs: every format from a small file of its kind, and every way a file can be bad."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vitalrank as vr
from vitalrank import Interactions
from vitalrank.interactions.encoding import numbers_of
from vitalrank.readers import sources

# user, item, rating, time; the log of these rows is what every format must give.
ROWS = [("u2", "i1", 5, 1_000_000_300), ("u1", "i2", 3, 1_000_000_200), ("u1", "i1", 4, 1_000_000_100)]
NUMBERED = [(2, 1, 5, 1_000_000_300), (1, 2, 3, 1_000_000_200), (1, 1, 4, 1_000_000_100)]


def seen(log: Interactions) -> list[tuple[Any, Any]]:
    return list(zip(log.user_ids[log.users].tolist(), log.item_ids[log.items].tolist(), strict=True))


def big_file(path: Path, bad: dict[int, bytes], header: bytes = b"user\titem\ttime") -> None:
    """Fifty thousand lines after the header, some replaced; line numbers from 1."""
    content = [header, *(b"u%d\t%d\t%d" % (row % 997, row, row) for row in range(50_000))]
    for line, data in bad.items():
        content[line - 1] = data
    path.write_bytes(b"\n".join(content) + b"\n")


WORDS = [("u1", "i1"), ("u1", "i2"), ("u2", "i1")]
NUMBERS = [(1, 1), (1, 2), (2, 1)]


def lines(rows: list[Any], form: str) -> str:
    return "".join(form.format(*row) + "\n" for row in rows)


def steam_line(user: str, item: str, rating: int, time: int) -> str:
    record = f"u'username': u'{user}', u'hours': 0.{rating}, u'product_id': u'{item}', u'text': u'it\\'s \\xe9', "
    return (
        "{" + record + f"u'early_access': False, u'date': u'2017-12-{time // 100 % 10 + 10}', u'user_id': u'76'" + "}\n"
    )


def review(user: str, item: str, rating: int, time: int) -> str:
    return json.dumps(
        {"reviewerID": user, "asin": item, "overall": rating, "reviewText": "a, b", "reviewTime": "09 13, 2009",
         "reviewerName": "N", "unixReviewTime": time}
    ) + "\n"  # fmt: skip


def yelp(user: str, item: str, rating: int, time: int) -> str:
    date = f"2018-01-0{time // 100 % 10} 12:00:00"
    record = {"review_id": "r", "user_id": user, "business_id": item, "stars": rating, "text": 'a "b"\n', "date": date}
    return json.dumps(record) + "\n"


FORMATS: dict[str, tuple[str, list[tuple[Any, Any]]]] = {
    "log.csv": ("user,item,time\n" + lines(ROWS, "{0},{1},{3}"), WORDS),
    "log.tsv": ("user\titem\ttime\n" + lines(NUMBERED, "{0}\t{1}\t{3}"), NUMBERS),
    "quoted.csv": ('"item_id","user_id","timestamp"\n' + lines(ROWS, '"{1}","{0}","{3}"'), WORDS),
    "windows.csv": ("\ufeff" + "user;item;time\r\n" + lines(NUMBERED, "{0};{1};{3}\r"), NUMBERS),
    "pairs.tsv": (lines(NUMBERED, "{0}\t{1}"), [(1, 2), (1, 1), (2, 1)]),
    "triples.csv": (lines(ROWS, "{0},{1},{3}"), WORDS),
    "ml.inter": (
        "user_id:token\titem_id:token\trating:float\ttimestamp:float\n" + lines(NUMBERED, "{}\t{}\t{}\t{}.0"),
        NUMBERS,
    ),
    "u.data": (lines(NUMBERED, "{}\t{}\t{}\t{}"), NUMBERS),
    "ratings.dat": (lines(NUMBERED, "{}::{}::{}::{}"), NUMBERS),
    "ratings.csv": ("userId,movieId,rating,timestamp\n" + lines(NUMBERED, "{},{},{}.5,{}"), NUMBERS),
    "ratings_Music.csv": (lines(ROWS, "{},{},{}.0,{}"), WORDS),
    "reviews_Music.json": ("".join(review(*row) for row in ROWS), WORDS),
    "yelp_academic_dataset_review.json": ("".join(yelp(*row) for row in ROWS), WORDS),
    "steam_reviews.json": ("".join(steam_line(*row) for row in ROWS), WORDS),
    "log.jsonl": (lines(NUMBERED, '{{"user": {0}, "item": {1}, "time": {3}}}'), NUMBERS),
    "text.csv": ("user,text,item,time\n" + lines(ROWS, '{0},"two\nlines, ""quoted""",{1},{3}'), WORDS),
}
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".zst": lambda data: bytes(pa.compress(data, "zstd", asbytes=True)),
}


@pytest.mark.parametrize("packing", PACKERS)
@pytest.mark.parametrize("name", FORMATS)
def test_every_format_packed_or_not(tmp_path: Path, name: str, packing: str) -> None:
    content, expected = FORMATS[name]
    path = tmp_path / (name + packing)
    path.write_bytes(PACKERS[packing](content.encode()))
    log = vr.read(path)
    assert seen(log) == expected
    assert log.skipped == 0
    assert (log.times is None) == (name == "pairs.tsv")


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("size", [64, 200])
def test_lines_may_lie_across_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, size: int) -> None:
    content, _ = FORMATS[name]
    path = tmp_path / name
    path.write_text(content)
    whole = vr.read(path)
    monkeypatch.setattr(sources.TextSource.__init__, "__defaults__", (size,))
    assert vr.read(path).fingerprint == whole.fingerprint


def test_parquet(tmp_path: Path) -> None:
    users, items, _, times = zip(*ROWS, strict=True)
    columns = {"user": pa.array(users).dictionary_encode(), "item": items, "time": times}
    pq.write_table(pa.table(columns), tmp_path / "log")
    assert seen(vr.read(tmp_path / "log")) == WORDS
    stamps = {"user": [2, 1, 1], "item": [1, 2, 1], "time": pa.array(times).cast(pa.timestamp("s"))}
    pq.write_table(pa.table(stamps), tmp_path / "log.parquet")
    log = vr.read(tmp_path / "log.parquet")
    assert seen(log) == NUMBERS
    assert log.times is not None
    assert log.times.tolist() == [1_000_000_100, 1_000_000_200, 1_000_000_300]


def test_text_of_any_kind_in_parquet(tmp_path: Path) -> None:
    users, items, _, _ = zip(*ROWS, strict=True)
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        days = pa.array(["2001-09-11", "2001-09-10", "2001-09-09"], kind)
        pq.write_table(
            pa.table([pa.array(users, kind), pa.array(items, kind), days], ["user", "item", "time"]), tmp_path / "log"
        )
        log = vr.read(tmp_path / "log")
        assert (seen(log), log.times is None) == (WORDS, False)


def test_columns_may_be_named_or_counted(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("who,what,when\nb,x,2\na,y,1\na,x,1\n")
    assert seen(vr.read(path, user="who", item="what", time="when")) == [("a", "y"), ("a", "x"), ("b", "x")]
    assert seen(vr.read(path, user="what", item="who", time=False)) == [("x", "b"), ("x", "a"), ("y", "a")]
    path.write_text("5 x 1.0 b\n5 y 2.0 a\n")
    assert seen(vr.read(path, user=3, item=1)) == [("a", "y"), ("b", "x")]
    assert seen(vr.read(path, user=3, item=1, time=2, header=False)) == [("a", "y"), ("b", "x")]


def test_a_first_row_is_never_taken_for_a_header_where_columns_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "asin.csv"
    path.write_text("A3R5,B00005N7NN\nA3R5,0001055178\n")
    with pytest.raises(vr.DataError, match=r"is the first line \(A3R5, B00005N7NN\) a header\?.*--no-header"):
        vr.read(path, user=0, item=1)
    assert len(vr.read(path, user=0, item=1, header=False)) == 2
    assert len(vr.read(path, user=0, item=1, header=True)) == 1
    path.write_text("ann,tea,2021-01-02\nann,7,2021-01-01\n")  # a date names no column
    assert seen(vr.read(path, user=0, item=1, time=2)) == seen(vr.read(path)) == [("ann", "7"), ("ann", "tea")]


@pytest.mark.parametrize(
    "text",
    [
        "user,thing\na,1\n",
        "who,movieId\na,1\n",
        "who,what,timestamp\na,1,x\n",
        "who,what,rating\na,b,4\nb,b,2.5\n",
        "who,what,seen\na,b,2021-01-01\n",
    ],
)
def test_a_certain_header_is_no_question_where_columns_are_counted(tmp_path: Path, text: str) -> None:
    path = tmp_path / "log.csv"
    path.write_text(text)
    assert len(vr.read(path, user=0, item=1, time=False)) == text.count("\n") - 1


@pytest.mark.parametrize(
    "name", ["created_at", "createdAt", "Event_Time", "event_timestamp", "DateTime", "ts", "unixReviewTime:float"]
)
def test_common_names_of_the_time_are_known(tmp_path: Path, name: str) -> None:
    path = tmp_path / "log.csv"
    path.write_text(f"user_id,item_id,{name}\n1,new,9\n1,old,3\n")
    assert seen(vr.read(path)) == [(1, "old"), (1, "new")]


# Header and first row; the third column may be the time, so that the order of the file may not be the order of time.
MAYBE_TIMES = {
    "user,item,visit_date": "1,2,03/15/2021",
    "user,item,dateAdded": "1,2,Tue Nov 17 2009",
    "user,item,finished_at": "1,2,yesterday",
    "user,item,moment": "1,2,2021-03-15 10:00:00",
    "user,item,x": "1,2,1600000000",
    "user,item,x1": "1,2,1600000000123",
    "user,item,x2,rating": "1,2,20210315,4",
}


@pytest.mark.parametrize("header", MAYBE_TIMES)
def test_a_column_that_may_be_the_time_is_asked_about(tmp_path: Path, header: str) -> None:
    name = header.split(",")[2]
    path = tmp_path / "log.csv"
    path.write_text(f"{header}\n{MAYBE_TIMES[header]}\n")
    said = rf"'{name}' may be the time; say time='{name}' or time=False \(--time {name} or --no-time\)"
    with pytest.raises(vr.DataError, match=said):
        vr.read(path)
    assert len(vr.read(path, time=False)) == 1
    row = dict(zip(header.split(","), MAYBE_TIMES[header].split(","), strict=True))
    (tmp_path / "log.jsonl").write_text(json.dumps(row))
    pq.write_table(pa.table({key: [value] for key, value in row.items()}), tmp_path / "log.parquet")
    for other in ("log.jsonl", "log.parquet"):
        with pytest.raises(vr.DataError, match=said):
            vr.read(tmp_path / other)


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("user,item,rating", "1,2,4.5"),
        ("user,item,stars,title", '1,2,5,"2001: a film, 1968"'),
        ("user,item,update,lat,candidate", "1,2,7,8.5,9"),
        ("user,item,session_id", "1,2,1600000000"),
        ("user,item,year,playtime", "1,2,1995,300"),
        ("user,item,flag,price", "1,2,True,"),
    ],
)
def test_columns_that_are_no_times_raise_no_question(tmp_path: Path, header: str, row: str) -> None:
    path = tmp_path / "log.csv"
    path.write_text(f"{header}\n{row}\n")
    assert vr.read(path).times is None


def test_a_time_without_header_is_asked_about_too(tmp_path: Path) -> None:
    path = tmp_path / "log.tsv"
    path.write_text("7\t2010-10-19T23:55:27Z\t30.2\t11\n7\t2010-10-18T22:17:43Z\t30.2\t12\n")
    with pytest.raises(
        vr.DataError, match=r"column 1 may be the time; say time=1 or time=False \(--time 1 or --no-time\)"
    ):
        vr.read(path, user=0, item=3)
    assert seen(vr.read(path, user=0, item=3, time=1)) == [(7, 12), (7, 11)]


def test_dates_with_zones_and_wide_lines(tmp_path: Path) -> None:
    """As the Gowalla check-ins."""
    path = tmp_path / "checkins.txt"
    path.write_text("0\t2010-10-19T23:55:27Z\t30.2\t-97.7\t22847\n0\t2010-10-18T22:17:43Z\t30.2\t-97.7\t420315\n")
    log = vr.read(path, user=0, time=1, item=4)
    assert seen(log) == [(0, 420315), (0, 22847)]
    assert log.times is not None
    assert log.times[1] == 1_287_532_527


def test_a_quote_that_is_never_closed_does_not_swallow_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources.TextSource.__init__, "__defaults__", (1000,))
    big_file(tmp_path / "log.tsv", {2: b'12"\t1\t2'})
    log = vr.read(tmp_path / "log.tsv")
    assert len(log) == 50_000
    assert '12"' in log.user_ids


@pytest.mark.parametrize("sep", ["é", "→", "::", "\x1f"])
def test_any_text_may_separate(tmp_path: Path, sep: str) -> None:
    path = tmp_path / "log.txt"
    path.write_text(sep.join(("user", "item", "time")) + "\n" + "".join(f"1{sep}{n}{sep}{9 - n}\n" for n in range(5)))
    assert seen(vr.read(path, sep=sep)) == [(1, n) for n in (4, 3, 2, 1, 0)]


def test_blank_lines_may_fill_a_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources.TextSource.__init__, "__defaults__", (100,))
    path = tmp_path / "log.csv"
    path.write_text("user,item,time\n1,2,3\n" + "\n" * 500 + "1,3,4\n")
    assert seen(vr.read(path)) == [(1, 2), (1, 3)]


def test_text_without_line_ends_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "BLOCK", 1000)
    monkeypatch.setattr(sources, "LONGEST_LINE", 10_000)
    (tmp_path / "log.csv").write_bytes(b"1,2," * 10_000)
    with pytest.raises(vr.DataError, match="line 1: no end within"):
        vr.read(tmp_path / "log.csv")


def test_time_false_keeps_the_order_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("user,item,time\n1,b,9\n1,a,3\n")
    log = vr.read(path, time=False)
    assert log.times is None
    assert seen(log) == [(1, "b"), (1, "a")]


@pytest.mark.parametrize(
    ("ids", "kind"),
    [
        (["1", "2", "-3"], np.int64),
        (["007", "7", "8"], object),
        (["1", "2", "x"], object),
        (["+1", "1", "2"], object),
        (["1", " 1", "2"], object),
        (["1.0", "1", "2"], object),
        (["99999999999999999999", "1", "2"], object),
        (["5000000000", "1", "2"], np.int64),
        (["0x174876E800", "0x174876E801", "0x174876E802"], object),  # as long as the numbers they could be
        (["0XFFFFFFFF", "1", "2"], object),
        (["0xF4240", "3", "-2"], object),
    ],
)
def test_untyped_ids_are_ints_only_if_nothing_is_lost(tmp_path: Path, ids: list[str], kind: Any) -> None:
    path = tmp_path / "log.csv"
    path.write_text("user,item\n" + "".join(f"{value},1\n" for value in ids))
    log = vr.read(path)
    assert log.user_ids.dtype == kind
    assert sorted(map(str, log.user_ids)) == sorted(ids)


def test_ids_that_turn_out_to_be_strings_late_keep_their_digits(tmp_path: Path) -> None:
    path = tmp_path / "log.tsv"
    rows = [f"{row}\t{row % 7}\n" for row in range(200_000)]
    path.write_text("user\titem\n" + "".join(rows) * 3 + "late\t0\n")
    log = vr.read(path)
    assert log.n_users == 200_001
    assert log.repeats == 400_000
    assert log.user_ids[0] == "0"
    assert log.item_ids.dtype == np.int64


def test_python_literals_are_never_run(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    attack = f"{{'user': __import__('pathlib').Path({str(flag)!r}).touch(), 'item': 1}}\n"
    path = tmp_path / "steam.json"
    path.write_text("{u'user': u'a', u'item': 1}\n" + attack)
    with pytest.raises(vr.DataError, match="line 2: not a record"):
        vr.read(path)
    assert not flag.exists()


def test_parquet_rows_that_are_bad_are_named(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    for columns, message in (
        ({"user": [1, None, 2], "item": [1, 2, 3]}, "row 1: no user"),
        ({"user": ["a", "b", ""], "item": [1, 2, 3]}, "row 2: no user"),
        ({"user": [1, 2, 3], "item": [1, 2, 3], "time": [1.0, float("nan"), 2.0]}, "row 1: time nan"),
        ({"user": [1, 2, 3], "item": [1, 2, 3], "time": [1, -2, 2]}, "row 1: time -2"),
    ):
        pq.write_table(pa.table(columns), path)
        with pytest.raises(vr.DataError, match=message):
            vr.read(path)
        log = vr.read(path, on_bad="skip")
        assert (len(log), log.skipped) == (2, 1)
    pq.write_table(pa.table({"user": [1.5], "item": [1]}), path)
    with pytest.raises(vr.DataError, match="user ids of type double"):
        vr.read(path)


WRONG_FILES: dict[str, tuple[bytes, str]] = {
    "empty.csv": (b"", "is empty"),
    "blank.csv": (b"\n\n  \n", "only blank lines"),
    "header.csv": (b"user,item,time\n", "no rows"),
    "missing.csv": (b"user,thing,time\n1,2,3\n", r"among user, thing, time; say item=\.\.\. \(--item\)"),
    "doubled.csv": (b"user,item,item\n1,2,3\n", "'item' occurs 2 times"),
    "two.csv": (b"user_id,uid,item\n1,2,3\n", "user_id and uid could each be the user column"),
    "rated.csv": (b"1,2,5\n1,3,4\n", r"may be no time; say time=2 \(--time 2\) or time=False \(--no-time\)"),
    "wide.csv": (b"1,2,5,6,7\n1,3,4,6,7\n", "5 columns without header"),
    "words.csv": (b"ann,tea\nbob,rum\n", "a header\\? Say header="),
    "unknown.csv": (b"who,what,when\na,b,3\n", "no known user column"),
    "one.txt": (b"hello\nworld\n", "no separator"),
    "array.json": (b'[{"user": 1}]', "JSON array"),
    "broken.json": (b'{"user": 1,', "line 1: not a record"),
    "noise.csv": (bytes(range(256)) * 4, "binary file"),
    "wide.txt": ("user,item\n1,2\n".encode("utf-16"), "binary file"),
    "log.zip": (b"PK\x03\x04rest", "zip archive"),
    "log.bz2": (b"BZh91AY", "bzip2"),
    "log.parquet": (b"PAR1 and no more", "damaged Parquet"),
    "float.json": (b'{"user": 1.5, "item": 2}\n', "line 1: 'user' is 1.5"),
    "huge.json": (b'{"user": 99999999999999999999, "item": 2}\n', "line 1: 'user' is 9+, more than 64 bits hold"),
    "keys.json": (b"{1: 2, 3: 4}\n", "line 1: not a record"),
    "log.csv.gz": (gzip.compress(b"user,item\n" + b"1,2\n" * 90_000)[:-20], "gzip data are cut short"),
    "log.csv.zst": (PACKERS[".zst"](b"user,item\n" + b"1,2\n" * 90_000)[:-9], "zstd data are cut short"),
    "noise.gz": (b"\x1f\x8b" + bytes(range(64)), "gzip data are cut short or damaged"),
}


@pytest.mark.parametrize("name", WRONG_FILES)
def test_a_file_that_is_no_log_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    content, message = WRONG_FILES[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(vr.DataError, match=message) as error:
        vr.read(tmp_path / name)
    assert "\n" not in str(error.value)
    assert name in str(error.value)


def test_a_time_beyond_64_bits_is_a_time(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("user,item,time\n1,2,99999999999999999999\n1,,3\n1,3,5\n")
    log = vr.read(path, on_bad="skip")
    assert log.item_ids[log.items].tolist() == [3, 2]  # by time


def test_parquet_columns_that_do_not_fit_are_told_apart_from_damage(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    stamps = pa.array([2_000_000_001, 1_000_000_001], pa.timestamp("ns"))
    pq.write_table(pa.table({"user": [1, 1], "item": [2, 3], "time": stamps}), path)
    assert vr.read(path).item_ids[vr.read(path).items].tolist() == [3, 2]
    pq.write_table(pa.table({"user": pa.array([1 << 63], pa.uint64()), "item": [2]}), path)
    with pytest.raises(vr.DataError, match="column 'user' cannot be read as int64") as error:
        vr.read(path)
    assert "damaged" not in str(error.value)


def test_a_folder_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(vr.DataError, match="is a folder"):
        vr.read(tmp_path)
    with pytest.raises(vr.DataError, match="no such file"):
        vr.read(tmp_path / "none.csv")


@pytest.fixture
def piped(tmp_path: Path) -> Iterator[Callable[[bytes], Path]]:
    """A pipe that gives these bytes, once."""
    writers = []

    def pipe(data: bytes) -> Path:
        path = tmp_path / f"pipe-{len(writers)}"
        os.mkfifo(path)
        writers.append(threading.Thread(target=path.write_bytes, args=(data,)))
        writers[-1].start()
        return path

    yield pipe
    for writer in writers:
        writer.join()


@pytest.mark.parametrize("packing", PACKERS)
def test_a_log_may_come_through_a_pipe(piped: Callable[[bytes], Path], packing: str) -> None:
    content, expected = FORMATS["log.csv"]
    assert seen(vr.read(piped(PACKERS[packing](content.encode())))) == expected


def test_errors_name_the_pipe_and_not_its_copy(tmp_path: Path, piped: Callable[[bytes], Path]) -> None:
    pq.write_table(pa.table({"user": [1.5], "item": [2]}), tmp_path / "log.parquet")
    for data, message in (
        (b"", "pipe-0 is empty"),
        (b"user,item,time\n1,2,x\n", "pipe-1, line 2: time 'x'"),
        (b"PK\x03\x04rest", "pipe-2 is a zip"),
        ((tmp_path / "log.parquet").read_bytes(), "pipe-3: user ids of type double"),
        (b"PAR1 and no more", "pipe-4: damaged Parquet"),
    ):
        with pytest.raises(vr.DataError, match=message) as error:
            vr.read(piped(data))
        assert "vitalrank-" not in str(error.value)


def test_what_is_no_file_is_refused() -> None:
    with pytest.raises(vr.DataError, match="/dev/null is no regular file"):
        vr.read("/dev/null")


def test_arguments_that_mean_nothing_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("1,2\n")
    with pytest.raises(vr.SettingError, match="on_bad='ignore'"):
        vr.read(path, on_bad="ignore")
    with pytest.raises(vr.DataError, match="no column 7; there are 2"):
        vr.read(path, user=0, item=7)
    with pytest.raises(vr.DataError, match="two roles"):
        vr.read(path, user=1, item=1)
    with pytest.raises(vr.DataError, match="no column 'who'"):
        vr.read(path, user="who")
    with pytest.raises(vr.DataError, match="give positions"):
        vr.read(path, user="who", item="x", header=False)


@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.text(min_size=1, max_size=6), st.integers(-5, 10**10), st.integers(0, 10**9)),
        min_size=1, max_size=30,
    )
)  # fmt: skip
def test_json_lines_give_back_any_ids(tmp_path_factory: pytest.TempPathFactory, rows: list[Any]) -> None:
    rows = [row for row in rows if row[0].encode("utf-8", "ignore").decode() == row[0]] or [("a", 1, 1)]
    path = tmp_path_factory.mktemp("json") / "log.jsonl"
    path.write_text("".join(json.dumps({"user": u, "item": i, "time": t}) + "\n" for u, i, t in rows))
    users, items, times = zip(*rows, strict=True)
    assert vr.read(path).fingerprint == Interactions.from_arrays(users, items, times).fingerprint


def test_the_careful_way_gives_what_the_fast_way_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    big_file(tmp_path / "log.tsv", {})
    fast = vr.read(tmp_path / "log.tsv")
    monkeypatch.setattr("vitalrank.readers.delimited.Delimited.fast", lambda self, data: None)
    assert vr.read(tmp_path / "log.tsv").fingerprint == fast.fingerprint


SHARED = Path(__file__).parents[2] / "shared" / "data"


@pytest.mark.skipif(not (SHARED / "ml-100k.tsv.gz").exists(), reason="real logs are not here")
def test_a_real_log() -> None:
    shape = vr.read(SHARED / "ml-100k.tsv.gz").statistics
    assert (shape.users, shape.items, shape.observations) == (943, 1682, 100_000)
    assert round(shape.item_gini, 3) == 0.629


def test_a_log_of_numbers_is_made_without_pandas(tmp_path):
    (tmp_path / "log.csv").write_text("user,item,time\n3,5,10\n4,6,11\n")
    (tmp_path / "dates.csv").write_text("user,item,time\n3,5,2020-01-01\n4,6,2020-01-02\n")
    code = f"""
import sys
import numpy as np
import vitalrank as vr
for name in ("log.csv", "dates.csv"):
    assert len(vr.read({str(tmp_path)!r} + "/" + name)) == 2
near, far = np.array([3, 4]), np.array([3, 10**12])
assert len(vr.Interactions.from_arrays(near, far, near / 2)) == 2
print("pandas" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize("kind", ["int8", "uint16", "int32", "uint64", "float16", "float32", "float64"])
def test_numbers_of_a_column_are_those_of_its_slice(kind):
    values = np.arange(10, dtype=kind)
    column = pa.array(values)
    for part in (slice(0, 10), slice(3, 7), slice(5, 5)):
        found = numbers_of(column[part])
        assert found.dtype == values.dtype
        np.testing.assert_array_equal(found, values[part])
