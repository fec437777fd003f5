"""The commands that read a run folder and give lists."""

import json

import pyarrow.parquet as pq
import pytest

import vitalrank as vr
from commands import QUICK, call, complaint, told, write_log


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    log = write_log(folder / "log.tsv")
    assert call("fit", log, "--out", folder / "a", *QUICK) == 0
    (folder / "items.tsv").write_text(
        "item\ttitle\tgenre\n" + "".join(f"i{k}\tTitle {k}\t{'ab'[k % 2]}\n" for k in range(50))
    )
    (folder / "stock").write_text("i1\ni2\ni3\n\nunheard\n")
    return folder / "a"


def test_filters_and_names(run, capsys):
    folder = run.parent
    capsys.readouterr()
    found = told(capsys, "recommend", run, "--user", "u1", "--seen", "--items", folder / "stock", "--names",
                 folder / "items.tsv", "--within", "genre=b")["u1"]  # fmt: skip
    assert {pick["item"]: pick["name"] for pick in found} == {"i1": "Title 1", "i3": "Title 3"}
    found = told(capsys, "similar", run, "--item", "i4", "--item", "i5", "--within", "genre", "--names",
                 folder / "items.tsv", "--n", 3)  # fmt: skip
    assert [int(pick["item"][1:]) % 2 for picks in found.values() for pick in picks] == [0] * 3 + [1] * 3


def test_histories_from_a_file(run, capsys, tmp_path):
    (tmp_path / "carts").write_text('i1 i2\n["i3", "new"]\n')
    found = told(capsys, "fold-in", run, "--history", tmp_path / "carts", "--n", 4)
    model = vr.load(run)
    assert [pick["item"] for pick in found["1"]] == model.fold_in(["i1", "i2"], n=4)[0].tolist()
    assert [pick["item"] for pick in found["2"]] == model.fold_in(["i3"], n=4)[0].tolist()
    assert told(capsys, "recommend", run, "--history", tmp_path / "carts", "--n", 4) == found
    (tmp_path / "carts").write_text('i1 i2\n\n["i3", "new"]\n')
    assert told(capsys, "fold-in", run, "--history", tmp_path / "carts", "--n", 4) == {
        "1": found["1"],
        "3": found["2"],
    }  # by the line
    (tmp_path / "carts").write_text('i1\n\n["i3", true]\n')
    assert "line 3: not a JSON list of item ids" in complaint(capsys, "fold-in", run, "--history", tmp_path / "carts")


def test_reasons_exports_and_everybody(run, capsys, tmp_path):
    why = told(capsys, "explain", run, "--user", "u1", "--item", "i1")
    assert sum(pick["score"] for pick in why["because"]) + why["rest"] == pytest.approx(why["score"])
    assert call("explain", run, "--user", "u1", "--item", "i1") == 0
    assert call("export", run, "--out", tmp_path / "out", "--format", "safetensors") == 0
    assert len(json.loads((tmp_path / "out" / "ids.json").read_text())["items"]) == 50
    capsys.readouterr()
    rows = told(capsys, "recommend", run, "--all", "--out", tmp_path / "all.parquet", "--n", 3)["rows"]
    assert pq.read_metadata(tmp_path / "all.parquet").num_rows == rows


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["recommend", "{run}"], "give one of --user, --history or --all"),
        (["recommend", "{run}", "--all"], "--all needs --out"),
        (["recommend", "{run}", "--user", "u1", "--within", "genre"], "give --names"),
        (["recommend", "{run}", "--user", "u1", "--items", "{run}/none"], "no such file"),
        (["export", "{run}", "--out", "{run}/x", "--format", "pickle"], "unknown export format 'pickle'"),
        (["serve", "{run}", "--host", "0.0.0.0"], "give --token-file"),
        (["serve", "{run}/none"], "no such folder"),
    ],
)
def test_mistakes_are_one_line(run, capsys, words, message):
    assert message in complaint(capsys, *[word.format(run=run) for word in words])
