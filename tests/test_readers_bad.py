"""Lines that cannot be read: named, or left out and counted, and never more than they are."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

import vitalrank as vr
from test_readers import ROWS, WORDS, big_file, seen

BAD_LINES = {
    b"u1\t2": "2 columns instead of 3",
    b"u1\t2\t3\t4": "4 columns instead of 3",
    b"u1\t2\tnever": "time 'never' is neither a number nor an ISO date",
    b"u1\t2\tnan": "time nan is not a finite number >= 0",
    b"u1\t2\t-4": "time -4 is not a finite number >= 0",
    b"u1\t2\t2018-01-01": "time '2018-01-01', where other lines have numbers",
    b"u1\t2\t" + b"9" * 400: r"time 9{37}\.\.\. is not a finite number >= 0",
    b"\t2\t3": "no user",
    b"u1\t\t3": "no item",
    b"caf\xe9\t2\t3": "byte 0xe9 is not UTF-8 text",
}


@pytest.mark.parametrize("line", BAD_LINES)
def test_one_bad_line_among_many_is_named(tmp_path: Path, line: bytes) -> None:
    big_file(tmp_path / "log.tsv", {40_321: line})
    with pytest.raises(vr.DataError, match=f"log.tsv, line 40321: {BAD_LINES[line]}; mend it"):
        vr.read(tmp_path / "log.tsv")


@pytest.mark.parametrize("line", BAD_LINES)
def test_bad_lines_can_be_skipped_and_are_counted(
    tmp_path: Path, line: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    big_file(tmp_path / "log.tsv", {777: line, 40_321: line, 50_001: line})
    with caplog.at_level(logging.WARNING, "vitalrank"):
        log = vr.read(tmp_path / "log.tsv", on_bad="skip")
    assert log.skipped == 3
    assert len(log) == 49_997
    assert "3 skipped" in repr(log)
    assert re.search("line 777: " + BAD_LINES[line], caplog.text)
    assert "3 unreadable lines skipped" in caplog.text


STRAY = {"user": '"{0}\t{1}\t{2}', "item": '{0}\t"{1}\t{2}', "time": '{0}\t{1}\t"{2}'}


@pytest.mark.parametrize("side", STRAY)
@pytest.mark.parametrize("place", [7, 99, 3_000])
def test_a_stray_quote_costs_its_own_line_only(tmp_path: Path, side: str, place: int) -> None:
    rows = [STRAY[side] if row == place else "{0}\t{1}\t{2}" for row in range(5_000)]
    text = "".join(form.format(row % 70, row // 70, row + 1) + "\n" for row, form in enumerate(rows))
    (tmp_path / "log.tsv").write_text("user\titem\ttime\n" + text)
    log = vr.read(tmp_path / "log.tsv", on_bad="skip")
    assert (len(log), log.skipped) == (4_999, 1)
    with pytest.raises(vr.DataError, match=f"line {place + 2}: "):
        vr.read(tmp_path / "log.tsv")


def test_a_stray_quote_in_the_last_column_is_seen(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text('user,item\n1,a\n1,"b\n2,c\n2,d\n')
    log = vr.read(tmp_path / "log.csv", on_bad="skip")
    assert seen(log) == [(1, "a"), (2, "c"), (2, "d")]
    with pytest.raises(vr.DataError, match="line 3: a quote is opened and never closed"):
        vr.read(tmp_path / "log.csv")


@pytest.mark.parametrize("side", STRAY)
@pytest.mark.parametrize("apart", [1, 20, 2_000])
def test_two_stray_quotes_do_not_swallow_the_lines_between(tmp_path: Path, side: str, apart: int) -> None:
    rows = [STRAY[side] if row in (30, 30 + apart) else "{0}\t{1}\t{2}" for row in range(5_000)]
    text = "".join(form.format(f"u{row % 70}", row // 70, row + 1) + "\n" for row, form in enumerate(rows))
    (tmp_path / "log.tsv").write_text("user\titem\ttime\n" + text)
    with pytest.raises(vr.DataError, match="line 32: a quote goes on over the end of the line"):
        vr.read(tmp_path / "log.tsv")
    log = vr.read(tmp_path / "log.tsv", on_bad="skip")
    assert (len(log), log.skipped) == (4_998, 2)
    assert not any("\n" in str(name) for name in (*log.user_ids, *log.item_ids))


@pytest.mark.parametrize("apart", [1, 20, 4_000])
@pytest.mark.parametrize("end", ["\n", ""])
def test_two_stray_quotes_in_a_title_do_not_swallow_the_lines_between(tmp_path: Path, apart: int, end: str) -> None:
    stray = {90: '"', 90 + apart: '"'}
    rows = [f"{row % 70},{stray.get(row, '')}T {row},{row},{row + 1}" for row in range(5_000)]
    (tmp_path / "log.csv").write_text("user,title,item,time\n" + "\n".join(rows) + end)
    with pytest.raises(vr.DataError, match="line 92: a quote goes on over the end of the line"):
        vr.read(tmp_path / "log.csv")
    log = vr.read(tmp_path / "log.csv", on_bad="skip")
    assert (len(log), log.skipped) == (4_998, 2)


def test_an_id_of_two_lines_is_a_bad_line(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text('user,item\n1,2\n"3\n4",5\n6,7\n')
    with pytest.raises(vr.DataError, match="line 3: the user goes on over the end of the line"):
        vr.read(tmp_path / "log.csv")
    assert vr.read(tmp_path / "log.csv", on_bad="skip").skipped == 1


def test_a_quote_that_is_never_closed_is_a_bad_line(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text('user,item\n1,2\n3,"4\n')
    with pytest.raises(vr.DataError, match="line 3: a quote is opened and never closed"):
        vr.read(tmp_path / "log.csv")
    assert seen(vr.read(tmp_path / "log.csv", on_bad="skip")) == [(1, 2)]


def test_sloppy_quotes_within_a_line_are_no_stray_quotes(tmp_path: Path) -> None:
    titles = ['"Weird" Al', 'a 7" single', '"two\nlines"', '"said ""no"",\nand ""yes"""', '"x"']
    rows = [f"{n % 9}\t{titles[n % 5]}\t{n}\n" for n in range(2_000)]
    (tmp_path / "log.tsv").write_text("user\ttitle\titem\n" + "".join(rows))
    assert len(vr.read(tmp_path / "log.tsv")) == 2_000


def test_quoted_lines_between_bad_ones_are_kept_whole(tmp_path: Path) -> None:
    good = ['{0},"two\nlines, ""quoted""",{1},{3}\n'.format(*row) for row in ROWS]
    stray = 'u9,"oops,i9,1\n'
    (tmp_path / "log.csv").write_text("user,text,item,time\n" + good[0] + stray + good[1] + "u8,i8\n" + stray + good[2])
    log = vr.read(tmp_path / "log.csv", on_bad="skip")
    assert (seen(log), log.skipped) == (WORDS, 3)


BAD_RECORDS = {
    '{"user": "1", "item": 5, "time": 1}': "'user' is '1', where other lines have an int",
    '{"user": 1, "item": 5': "not a record",
    '{"user": 1, "time": 4}': "no 'item'",
    '{"user": 1, "item": null, "time": 4}': "no 'item'",
    '{"user": 1, "item": 5, "time": NaN}': "time nan is not a finite number",
    '{"user": 1, "item": 5, "time": -1}': "time -1 is not a finite number",
    '{"user": 1, "item": 5, "time": "x"}': "time 'x' is neither",
    f'{{"user": 1, "item": 5, "time": {"9" * 400}}}': "time a whole number of 1,329 bits is not a finite number",
    '{"user": 1.5, "item": 5, "time": 1}': "'user' is 1.5",
    '{"user": true, "item": 5, "time": 1}': "'user' is True",
    "[1, 2]": "not a record",
}


@pytest.mark.parametrize("line", BAD_RECORDS)
def test_one_bad_record_among_many_is_named(tmp_path: Path, line: str) -> None:
    content = [f'{{"user": {row % 97}, "item": {row}, "time": {row}}}' for row in range(5000)]
    content[4321] = line
    (tmp_path / "log.jsonl").write_text("\n".join(content))
    with pytest.raises(vr.DataError, match=f"line 4322: {BAD_RECORDS[line]}"):
        vr.read(tmp_path / "log.jsonl")
    assert vr.read(tmp_path / "log.jsonl", on_bad="skip").skipped == 1


def test_records_that_are_not_utf8_are_named(tmp_path: Path) -> None:
    good = b'{"user": "a", "item": "b"}\n'
    (tmp_path / "log.json").write_bytes(good + b'{"user": "caf\xe9", "item": "b"}\n' + good)
    with pytest.raises(vr.DataError, match="line 2: byte 0xe9 is not UTF-8"):
        vr.read(tmp_path / "log.json")


@pytest.mark.parametrize("bad", [1, 2, 3])
def test_records_with_half_a_pair_of_surrogates_are_named(tmp_path: Path, bad: int) -> None:
    records = ['{"user": "a", "item": "\\ud83d\\ude00"}\n'] * 3
    records[bad - 1] = '{"user": "a", "item": "x\\ud83d"}\n'
    (tmp_path / "log.json").write_text("".join(records))
    with pytest.raises(vr.DataError, match=rf"line {bad}: 'item' is 'x\\ud83d', which UTF-8 cannot write"):
        vr.read(tmp_path / "log.json")
    log = vr.read(tmp_path / "log.json", on_bad="skip")
    assert (log.item_ids.tolist(), log.skipped) == (["\N{GRINNING FACE}"], 1)
