"""Ranks that share the users of an evaluation or of all lists: what comes out is what one process gives."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest

from commands import QUICK, call, complaint, told, write_log
from rank_processes import finish, start

pytest.importorskip("torch.distributed")

# The commands that a rank runs one after the other; chunks of users are small, so that there are many rounds.
SCRIPT = """
import sys
from vitalrank import cli
from vitalrank.serving import streaming

streaming._CHUNK = 7
for words in sys.argv[1].split(";"):
    sys.argv = ["vitalrank", *words.split()]
    try:
        cli.main()
    except SystemExit as end:
        assert end.code == 0, end.code
"""
MEASURES = ("--by", "popularity", "--metrics", "all", "--bootstrap", "20", "--at", "5", "--json")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    log = write_log(folder / "log.tsv")
    assert call("fit", log, "--out", folder / "run", *QUICK, "--set", "dim=8") == 0
    return folder / "run"


def test_figures_and_lists_are_those_of_one_process_and_doctor_tells_of_the_group(run, tmp_path, capsys):
    recommend = ("recommend", run, "--all", "--n", "4", "--out")
    words = [("evaluate", run, *MEASURES), (*recommend, tmp_path / "shared.parquet"), ("doctor", "--json")]
    script = ";".join(" ".join(map(str, one)) for one in words)
    (said, error, code), *others = finish(start(3, "-c", SCRIPT, script))
    assert (code, error) == (0, "")
    assert others == [("", "", 0), ("", "", 0)]
    assert json.loads(said.splitlines()[0]) == told(capsys, "evaluate", run, *MEASURES[:-1])
    group = json.loads(said.splitlines()[-1])["ranks"]["detail"]
    assert group.startswith("3 ranks on ")
    assert "interface lo; " in group
    assert call(*recommend, tmp_path / "alone.parquet") == 0
    shared, alone = (pq.read_table(tmp_path / f"{name}.parquet") for name in ("shared", "alone"))
    assert shared.equals(alone)


def test_lists_of_a_few_users_need_no_ranks(run, monkeypatch, capsys):
    monkeypatch.setattr("vitalrank.cli.serving.current_group", lambda: True)  # of several ranks
    assert "ranks share the users of --all" in complaint(capsys, "recommend", run, "--user", "u1")
