"""What earlier versions saved: models serve the same lists, stopped runs and searches go on, config files are taken."""

from __future__ import annotations

import json
import shutil
import tomllib
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

import vitalrank as vr
from commands import call, complaint, told

SAVED = Path(__file__).parent / "saved"
VERSIONS = sorted(path.parent.name for path in SAVED.glob("*/expected.json"))
EXPECTED = {name: json.loads((SAVED / name / "expected.json").read_text(encoding="utf-8")) for name in VERSIONS}
NEEDS_TORCH = {"FPMC"}
CLOSE = {"rel": 1e-3, "abs": 1e-5}  # another processor may round sums in another way


def each(part):
    """Version and name of everything of a kind."""
    return [(number, name) for number in VERSIONS for name in EXPECTED[number][part]]


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """A copy of what a version saved, to stand in: paths in it are relative."""

    def of(number):
        shutil.copytree(SAVED / number, tmp_path / number)
        monkeypatch.chdir(tmp_path / number)
        return Path()

    return of


def assert_history(found, expected):
    """The numbers of each epoch that the version recorded; later ones may record more."""
    assert len(found) == len(expected)
    for record, before in zip(found, expected, strict=True):
        for name in before.keys() - {"seconds"}:
            assert record[name] == (before[name] if before[name] is None else pytest.approx(before[name], **CLOSE))


def assert_lists(model, expected, close=CLOSE):
    ids, scores = model.recommend(expected["users"], n=len(expected["ids"][0]))
    np.testing.assert_array_equal(ids, expected["ids"])
    np.testing.assert_allclose(scores, expected["scores"], rtol=close["rel"], atol=close["abs"])
    alike, _ = model.similar_items(model.train.item_ids.tolist()[2], n=len(expected["similar"]))
    np.testing.assert_array_equal(alike, expected["similar"])


def split(folder):
    return vr.read(folder / "log.parquet").split_last(0.2, valid=0.1)


def test_there_are_versions():
    assert "0.1" in VERSIONS


# ---------------------------------------------------------------------------------------------- logs and models


@pytest.mark.parametrize("number", VERSIONS)
def test_a_log_is_the_same(number):
    log = vr.read(SAVED / number / "log.parquet")
    expected = EXPECTED[number]["log"]
    assert (len(log), log.n_users, log.n_items) == (expected["rows"], expected["users"], expected["items"])
    assert log.fingerprint == expected["fingerprint"]  # by which runs and searches know their log


@pytest.mark.parametrize(("number", "name"), each("models"))
def test_a_model_serves_the_same(number, name):
    expected = EXPECTED[number]["models"][name]
    if expected["repr"].partition("(")[0] in NEEDS_TORCH:
        pytest.importorskip("torch")
    model = vr.load(SAVED / number / name)
    assert repr(model).startswith(expected["repr"].removesuffix(")"))  # a later version may have more settings
    assert_lists(model, expected)
    assert model.history.records == expected["history"]
    assert (model.history.best_epoch, model.history.stopped) == (expected["best_epoch"], expected["stopped"])
    held_out = model.held_out
    found = vr.evaluate(model, held_out["test"], at=10, exclude=held_out["valid"])["ndcg@10"]
    assert found == pytest.approx(expected["ndcg@10"])


@pytest.mark.parametrize(("number", "name"), each("models"))
def test_a_model_is_saved_again_and_stays_the_same(number, name, tmp_path):
    expected = EXPECTED[number]["models"][name]
    if expected["repr"].partition("(")[0] in NEEDS_TORCH:
        pytest.importorskip("torch")
    vr.load(SAVED / number / name).save(tmp_path / "again")
    assert_lists(vr.load(tmp_path / "again"), expected)


@pytest.mark.parametrize(("number", "name"), each("models"))
def test_a_model_serves_the_command_line(number, name, copy, capsys):
    expected = EXPECTED[number]["models"][name]
    if expected["repr"].partition("(")[0] in NEEDS_TORCH:
        pytest.importorskip("torch")
    folder, user = copy(number) / name, expected["users"][1]
    picks = told(capsys, "recommend", folder, "--user", user, "--n", 6)[user]
    assert [pick["item"] for pick in picks] == expected["unseen"]
    found = told(capsys, "evaluate", folder, "--at", 10)
    assert found["ndcg@10"] == pytest.approx(expected["ndcg@10"])


# ----------------------------------------------------------------------------------------------- runs that go on


def resume(folder, name, expected, **more):
    train, valid, _ = split(folder)
    kind, settings = expected["sampler"]
    sampler = vr.samplers.find_sampler(kind)(**settings)
    options = {**expected["options"], "valid": valid, "checkpoint": folder / name, "resume": True, **more}
    return vr.MF(**expected["model"]).fit(train, sampler, progress=False, **options)


@pytest.mark.parametrize(("number", "name"), each("runs"))
def test_a_stopped_run_serves_its_best_epoch(number, name):
    expected = EXPECTED[number]["runs"][name]["halfway"]
    assert_lists(vr.load(SAVED / number / name), expected)


@pytest.mark.parametrize(("number", "name"), each("runs"))
def test_a_stopped_run_goes_on_to_the_same_end(number, name, copy):
    expected = EXPECTED[number]["runs"][name]
    halfway, end = expected["halfway"], expected["end"]
    model = resume(copy(number), name, expected)
    assert model.history.records[: len(halfway["history"])] == halfway["history"]  # as they were written
    assert len(model.history) == expected["options"]["epochs"]
    if expected["sampler"][0] == "uni":  # draws that follow scores may part where those are rounded otherwise
        assert_history(model.history, end["history"])
        assert model.history.best_epoch == end["best_epoch"]
        assert_lists(model, end)


@pytest.mark.parametrize(("number", "name"), each("runs"))
def test_a_stopped_run_of_other_settings_is_still_refused(number, name, copy):
    with pytest.raises(vr.SettingError, match="was trained with seed="):
        resume(copy(number), name, EXPECTED[number]["runs"][name], seed=99)


# ------------------------------------------------------------------------------------------------- the commands


@pytest.mark.parametrize("number", VERSIONS)
def test_fit_goes_on_with_a_run_and_its_config(number, copy):
    folder = copy(number)
    expected = EXPECTED[number]["commands"]["fit"]
    assert_lists(vr.load(folder / "fit"), expected)
    words = ("--config", "fit.toml", "--epochs", len(expected["history"]) + 2, "--resume")
    assert call("fit", "log.parquet", "--out", "fit", *words) == 0
    history = vr.load(folder / "fit").history.records
    assert history[: len(expected["history"]) - 1] == expected["history"][:-1]
    assert len(history) == len(expected["history"]) + 2


@pytest.mark.parametrize("command", ["fit", "compare", "tune"])
@pytest.mark.parametrize("number", VERSIONS)
def test_a_config_file_is_taken_and_says_the_same(number, command, copy):
    if command == "tune":
        pytest.importorskip("optuna")
    folder = copy(number)
    words = (command, "log.parquet", "--out", "new", "--config", f"{command}.toml", "--save-config", "again.toml")
    assert call(*words) == 0
    before, again = (tomllib.loads((folder / f"{name}.toml").read_text()) for name in (command, "again"))
    for table in ("set", "range"):
        assert before.get(table, {}).items() <= again.pop(table, {}).items()
        before.pop(table, None)
    assert before.items() <= again.items()  # a later version may have more settings


@pytest.mark.parametrize("number", VERSIONS)
def test_fit_takes_the_winner_of_a_search(number, copy):
    folder = copy(number)
    assert call("fit", "log.parquet", "--out", "won", "--config", "tune/best.toml") == 0
    assert vr.load(folder / "won").dim == tomllib.loads((folder / "tune" / "best.toml").read_text())["set"]["dim"]


@pytest.mark.parametrize("number", VERSIONS)
def test_compare_reads_finished_runs(number, copy, capsys):
    folder = copy(number)
    expected = EXPECTED[number]["commands"]
    files = sorted((folder / "compare" / "runs").iterdir())
    before = {path: path.stat().st_mtime_ns for path in files}
    found = told(capsys, *expected["words"]["compare"], "--baselines", "none")["ranking"]
    assert {path: path.stat().st_mtime_ns for path in (folder / "compare" / "runs").iterdir()} == before
    for row, was in zip(found, expected["compare"], strict=True):
        assert (row["label"], row["runs"]) == (was["label"], was["runs"])
        assert row["ndcg@10"] == pytest.approx(was["ndcg@10"])


@pytest.mark.parametrize("number", VERSIONS)
def test_compare_adds_to_finished_runs(number, copy, capsys):
    folder = copy(number)
    words = [
        word if word != "uni,vins" else "uni,vins,dns" for word in EXPECTED[number]["commands"]["words"]["compare"]
    ]
    before = {path: path.stat().st_mtime_ns for path in (folder / "compare" / "runs").iterdir()}
    labels = {row["label"] for row in told(capsys, *words)["ranking"]}
    assert labels == {"mf uni", "mf vins", "mf dns", "mostpopular", "itemknn", "ease"}
    assert {path: path.stat().st_mtime_ns for path in before} == before


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize("number", VERSIONS)
def test_a_search_goes_on(number, more, copy, capsys):
    pytest.importorskip("optuna")
    expected = EXPECTED[number]
    if _major(version("optuna")) < _major(expected["optuna"]):
        pytest.skip("the study was written by a newer Optuna")
    folder = copy(number)
    rows = expected["commands"]["tune"]
    words = [*expected["commands"]["words"]["tune"], "--trials", len(rows) - 1 + more]
    assert told(capsys, *words)["trials"] == len(rows) - 1 + more
    found = (folder / "tune" / "trials.csv").read_text().splitlines()
    assert {row.partition(",")[0] for row in rows} <= {row.partition(",")[0] for row in found}
    if not more:
        assert found == rows


@pytest.mark.parametrize("number", VERSIONS)
def test_tables_of_an_earlier_version_are_replaced_and_files_of_others_are_not(number, copy, capsys):
    folder = copy(number)
    words = [*EXPECTED[number]["commands"]["words"]["compare"], "--baselines", "none"]
    (folder / "compare" / "results.md").write_text("my notes")
    assert "results.md" in complaint(capsys, *words)
    (folder / "compare" / "results.md").unlink()
    told(capsys, *words)
    assert "p: paired t-test" in (folder / "compare" / "results.md").read_text()


def test_a_search_goes_on_in_its_space_where_the_named_one_was_widened(copy, capsys):
    studies = pytest.importorskip("vitalrank.tuning.studies")
    copy(VERSIONS[0])
    space = {"dim": "16,64,128", "reg": "0.0005,0.001,0.005,0.01", "candidates": "10,20"}  # as 0.1 had it
    words = ["tune", "log.parquet", "--out", "named", "--epochs", "2", "--threads", "1", "--sampler", "dns"]
    ranges = [word for name, text in space.items() for word in ("--range", f"{name}={text}")]
    told(capsys, *words, *ranges, "--trials", "1")
    assert told(capsys, *words, "--trials", "2")["trials"] == 2
    assert studies.recorded_space("named/study.db", "mf-dns") == space


def _major(number):
    return int(number.partition(".")[0])
