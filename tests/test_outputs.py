"""No command writes over a file that vitalrank did not write, and none over its own input."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import vitalrank as vr
from commands import QUICK, call, complaint, write_log
from vitalrank._util import outputs
from vitalrank._util.outputs import _record as outputs_record
from vitalrank._util.outputs import check_outputs, is_unchanged, write_recorded
from vitalrank.checkpoint import foreign_files, remove_folder

COMPARE = ("--samplers", "uni", "--seeds", "1", "--set", "mf.dim=4", *QUICK)


@pytest.fixture
def log(tmp_path):
    return write_log(tmp_path / "log.tsv")


def test_an_output_is_replaced_until_someone_changes_it(tmp_path):
    table = tmp_path / "results.md"
    write_recorded(table, "one")
    write_recorded(table, "two")
    table.write_text("edited")
    with pytest.raises(vr.errors.StorageError, match="was not written by vitalrank"):
        write_recorded(table, "three")
    assert table.read_text() == "edited"
    write_recorded(table, "three", force=True)
    assert is_unchanged(table)


def test_a_process_that_was_killed_while_it_replaced_a_file_may_go_on(tmp_path, monkeypatch):
    """Whether the file is still the old one or is the new one, it is known."""
    table = tmp_path / "results.md"
    write_recorded(table, "one")
    for stop in (1, 2):  # before the file is replaced, and behind
        calls = []

        def record(*given, stop=stop, calls=calls, **options):
            calls.append(given)
            if len(calls) == 2:
                raise KeyboardInterrupt
            outputs_record(*given, **options)
            if stop == 1:
                raise KeyboardInterrupt

        monkeypatch.setattr(outputs, "_record", record)
        with pytest.raises(KeyboardInterrupt):
            write_recorded(table, "two")
        assert table.read_text() == ("one" if stop == 1 else "two")
        assert is_unchanged(table)
        monkeypatch.undo()
        write_recorded(table, "one")


def test_a_record_that_leads_elsewhere_is_not_followed(tmp_path):
    (tmp_path / "mine").write_text("mine")
    (tmp_path / ".vitalrank.files.json").symlink_to("mine")
    with pytest.raises(vr.errors.StorageError, match="is a link"):
        write_recorded(tmp_path / "results.md", "one")
    assert (tmp_path / "mine").read_text() == "mine"
    assert not (tmp_path / "results.md").exists()


def test_writers_of_the_same_outputs_wait_for_each_other(tmp_path):
    names = ("best.toml", "trials.csv")
    with ThreadPoolExecutor(4) as pool:
        for _ in pool.map(lambda n: write_recorded(tmp_path / names[n % 2], f"{n % 3}"), range(60)):
            pass
    assert all(is_unchanged(tmp_path / name) for name in names)


@pytest.mark.parametrize("source", [".", "*.tsv"])
def test_a_file_of_an_input_with_several_files_is_never_replaced(tmp_path, monkeypatch, source):
    monkeypatch.chdir(tmp_path)
    Path("a.tsv").write_text("1\t2\n")
    with pytest.raises(vr.errors.StorageError, match="also read as input"):
        check_outputs([Path("a.tsv")], inputs=[Path(source)], force=True)
    check_outputs([Path("new.toml")], inputs=[Path(source)])


def test_an_export_replaces_its_own_files_alone(tmp_path):
    log = vr.Interactions.from_arrays([1, 1, 2], ["x", "y", "x"])
    model = vr.MF(dim=2).fit(log, vr.Uniform(), epochs=1)
    for _ in range(2):
        model.export(tmp_path)
    (tmp_path / "README.md").write_text("mine")
    with pytest.raises(vr.StorageError, match=r"README\.md: exists and was not written by vitalrank"):
        model.export(tmp_path, "safetensors")
    assert not (tmp_path / "ids.json").exists()
    assert (tmp_path / "README.md").read_text() == "mine"
    model.export(tmp_path, "safetensors", force=True)
    assert (tmp_path / "README.md").read_text() != "mine"
    np.save(tmp_path / "items.npy", np.zeros(3))
    with pytest.raises(vr.StorageError, match="was not written by vitalrank"):
        model.export(tmp_path)


@pytest.mark.parametrize("link", [os.link, os.symlink])
def test_an_input_is_never_replaced_under_another_name(tmp_path, link):
    (tmp_path / "log.tsv").write_text("1\t2\n")
    link(tmp_path / "log.tsv", tmp_path / "b.toml")
    with pytest.raises(vr.errors.StorageError, match="also read as input"):
        check_outputs([tmp_path / "b.toml"], inputs=[tmp_path / "log.tsv"], force=True)


def test_a_broken_record_of_outputs_protects_everything(tmp_path):
    write_recorded(tmp_path / "a", "one")
    (tmp_path / ".vitalrank.files.json").write_text("[" * 100_000)
    assert not is_unchanged(tmp_path / "a")


def commands(log, out):
    return {
        "fit": ("fit", log, "--out", out / "a", "--set", "dim=4", *QUICK),
        "compare": ("compare", log, "--out", out / "b", *COMPARE),
        "tune": ("tune", log, "--out", out / "c", "--range", "dim=4,8", "--trials", "1", *QUICK),
    }


@pytest.mark.parametrize("command", ["fit", "compare", "tune"])
@pytest.mark.parametrize("force", [[], ["--force"]])
def test_save_config_never_replaces_the_log(log, tmp_path, capsys, command, force):
    before = log.read_text()
    words = commands(log, tmp_path)[command]
    assert "is also read as input" in complaint(capsys, *words, "--save-config", log, *force)
    assert log.read_text() == before


def test_save_config_replaces_other_files_only_with_force(log, tmp_path, capsys):
    words = commands(log, tmp_path)["fit"]
    mine = tmp_path / "mine.toml"
    mine.write_text("epochs = 3  # tried by hand\n")
    assert "--force" in complaint(capsys, *words, "--save-config", mine)
    assert mine.read_text() == "epochs = 3  # tried by hand\n"
    assert call(*words, "--save-config", mine, "--force") == 0
    assert "model" in mine.read_text()
    assert call(*words, "--resume", "--save-config", mine) == 0  # the same settings stand there


@pytest.mark.parametrize("name", ["results.csv", "results.json", "results.md", "results.tex", "report.html"])
def test_compare_leaves_tables_of_others(log, tmp_path, capsys, name):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / name).write_text("mine")
    assert "was not written by vitalrank" in complaint(capsys, "compare", log, "--out", tmp_path / "b", *COMPARE)
    assert (tmp_path / "b" / name).read_text() == "mine"
    assert not (tmp_path / "b" / "runs").exists()  # told before the first training


@pytest.mark.parametrize("name", ["best.toml", "trials.csv"])
def test_tune_leaves_files_of_others(log, tmp_path, capsys, name):
    pytest.importorskip("optuna")
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / name).write_text("mine")
    assert "was not written by vitalrank" in complaint(capsys, *commands(log, tmp_path)["tune"])
    assert [path.name for path in (tmp_path / "c").iterdir()] == [name]


def test_inspect_leaves_a_page_of_others(log, tmp_path, capsys):
    assert call(*commands(log, tmp_path)["fit"]) == 0
    capsys.readouterr()
    (tmp_path / "page.html").write_text("mine")
    words = ("inspect", tmp_path / "a", "--page", tmp_path / "page.html")
    assert "was not written by vitalrank" in complaint(capsys, *words)
    assert (tmp_path / "page.html").read_text() == "mine"
    assert call(*words, "--force") == 0
    assert call(*words) == 0  # a page of vitalrank
    beside = ("inspect", tmp_path / "a", "--page", tmp_path / "a" / "page.html")
    assert [call(*beside), call(*beside)] == [0, 0]  # beside the model, again and again


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a/model.json", ("inspect", "a", "--page", "a/model.json")),
        ("a/ids.arrow", ("card", "a", "--out", "a/ids.arrow")),
        ("a/tensors.safetensors", ("evaluate", "a", "--shard", "1/2", "--out", "a/tensors.safetensors")),
        ("a/ids.arrow", ("recommend", "a", "--all", "--out", "a/ids.arrow")),
        ("few.txt", ("recommend", "a", "--all", "--items", "few.txt", "--out", "few.txt")),
        ("mine.toml", ("fit", "log.tsv", "--out", "d", "--config", "mine.toml", "--save-config", "mine.toml")),
    ],
)
def test_a_command_never_replaces_what_it_reads_even_with_force(log, tmp_path, monkeypatch, capsys, name, words):
    monkeypatch.chdir(tmp_path)
    assert call(*commands(log, tmp_path)["fit"]) == 0
    (tmp_path / "mine.toml").write_text("epochs = 1\n")
    (tmp_path / "few.txt").write_text("1\n")
    before = (tmp_path / name).read_bytes()
    capsys.readouterr()
    words = [str(log) if word == "log.tsv" else word for word in words]
    assert "is also read as input" in complaint(capsys, *words, "--force")
    assert (tmp_path / name).read_bytes() == before


# ---------------------------------------------------------------------------------------------------- run folders


def run(out):
    log = vr.datasets.synthetic(users=40, items=30, interactions=400, seed=0)
    config = vr.TrainConfig(epochs=1)
    return vr.compare(
        log, {"uni": vr.Uniform()}, {"mf": lambda: vr.MF(dim=4)}, baselines=(), seeds=1, config=config, out=out
    )


def test_a_new_comparison_takes_no_folder_of_others(tmp_path):
    folder = tmp_path / "runs" / "uni-seed0"
    folder.mkdir(parents=True)
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(vr.errors.StorageError, match="exists, but belongs to no comparison"):
        run(tmp_path)
    assert (folder / "notes.txt").read_text() == "mine"


def test_a_comparison_that_goes_on_refuses_a_folder_with_notes(tmp_path):
    run(tmp_path)
    (tmp_path / "runs/uni-seed0.json").unlink()
    folder = tmp_path / "runs/uni-seed0"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(vr.errors.StorageError, match=r"notes\.txt: is not part of a run"):
        run(tmp_path)
    assert (folder / "notes.txt").read_text() == "mine"


def test_removing_a_run_leaves_files_of_others(tmp_path):
    vr.MostPopular().fit(vr.datasets.synthetic(users=20, items=20, interactions=100, seed=0)).save(tmp_path / "a")
    (tmp_path / "a/notes.txt").write_text("mine")
    assert foreign_files(tmp_path / "a") == ["notes.txt"]
    remove_folder(tmp_path / "a")
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["notes.txt"]
