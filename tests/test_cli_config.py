"""Config files: what is written is read back, flags win, unknown keys are errors, a saved one repeats the run."""

from __future__ import annotations

import tomllib
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

import vitalrank as vr
from commands import QUICK, call, complaint, told, write_log
from vitalrank.cli.config import to_toml
from vitalrank.cli.methods import choices

words = st.text(st.characters(exclude_categories=["Cs"]))
plain = words | st.booleans() | st.integers() | st.floats(allow_nan=False)
values = plain | st.lists(plain)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return write_log(tmp_path_factory.mktemp("log") / "log.tsv")


def history(folder):
    """What training did, but for the time it took."""
    return [{**record, "seconds": None} for record in vr.load(folder).history]


@given(st.dictionaries(words, values | st.dictionaries(words, values)))
def test_what_is_written_is_read_back(table):
    read = tomllib.loads(to_toml(table))
    assert read == table
    assert repr(sorted(read.items())) == repr(sorted(table.items()))  # also the types: 1 is not 1.0


@given(st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"]))))
def test_comments_are_no_settings(lines):
    assert tomllib.loads(to_toml({"a": 1}, lines)) == {"a": 1}


# ---------------------------------------------------------------------------------------------------- fit


def test_a_config_with_patience_may_also_train_on_everything(log, tmp_path):
    (tmp_path / "a.toml").write_text("patience = 3\n")
    assert call("fit", log, "--out", tmp_path / "a", *QUICK, "--config", tmp_path / "a.toml", "--test", 0) == 0


@pytest.mark.parametrize(
    "words",
    [
        ("--set", "dim=8", "--set", "shots=none", "--sampler", "vins", "--lr", "0.01", "--seed", "3", "--valid", "0.2"),
        ("--sampler", "dns", "--negatives", "2", "--loss", "hinge", "--hinge-margin", "0.5", "--min-user", "3"),
        ("--model", "cml", "--set", "dim=4"),
        ("--sampler", "lfm-w", "--set", "weight=none"),
    ],
)
def test_a_saved_config_repeats_the_run(log, tmp_path, words):
    if "cml" in words:
        pytest.importorskip("torch")
    saved, again = tmp_path / "saved.toml", tmp_path / "again.toml"
    assert call("fit", log, "--out", tmp_path / "a", *QUICK, *words, "--save-config", saved) == 0
    assert call("fit", log, "--out", tmp_path / "b", "--config", saved, "--save-config", again) == 0
    assert history(tmp_path / "a") == history(tmp_path / "b")
    assert again.read_text() == saved.read_text()


def test_a_saved_config_says_everything(log, tmp_path):
    """Also what was not typed, so that later defaults do not change the run."""
    saved = tmp_path / "saved.toml"
    assert call("fit", log, "--out", tmp_path / "a", *QUICK, "--save-config", saved) == 0
    found = tomllib.loads(saved.read_text())
    settings = {**vr.MF().settings(), **asdict(vr.VINS())}
    assert found["set"] == {name: "none" if value is None else value for name, value in settings.items()}
    assert (found["model"], found["sampler"], found["lr"], found["test"]) == ("mf", "vins", vr.TrainConfig.lr, 0.2)
    assert "out" not in found
    assert "log" not in found


def test_flags_win_over_the_file(log, tmp_path):
    file = tmp_path / "file.toml"
    file.write_text("epochs = 3\nlr = 0.5\nthreads = 1\nvalid_every = 2\n[set]\ndim = 4\nbeta = 0.25\n")
    words = ("--config", file, "--lr", 0.01, "--set", "dim=8", "--save-config", tmp_path / "saved.toml")
    assert call("fit", log, "--out", tmp_path / "a", *words) == 0
    found = tomllib.loads((tmp_path / "saved.toml").read_text())
    assert (found["epochs"], found["lr"], found["valid-every"]) == (3, 0.01, 2)
    assert (found["set"]["dim"], found["set"]["beta"]) == (8, 0.25)
    assert vr.load(tmp_path / "a").dim == 8


def held_out(folder):
    return set(vr.load(folder).held_out)


def test_everything_is_trained_on_unless_a_valid_part_is_asked_for_too(log, tmp_path):
    words = ("fit", log, *QUICK, "--set", "dim=4", "--test", 0)
    assert call(*words, "--out", tmp_path / "all", "--save-config", tmp_path / "all.toml") == 0
    assert call("fit", log, "--out", tmp_path / "all again", "--config", tmp_path / "all.toml") == 0
    assert held_out(tmp_path / "all") == held_out(tmp_path / "all again") == set()
    assert call(*words, "--out", tmp_path / "valid", "--valid", 0.3, "--save-config", tmp_path / "valid.toml") == 0
    assert call("fit", log, "--out", tmp_path / "valid again", "--config", tmp_path / "valid.toml") == 0
    assert held_out(tmp_path / "valid") == held_out(tmp_path / "valid again") == {"valid"}
    assert vr.load(tmp_path / "valid").history.best_epoch is not None
    (tmp_path / "shares.toml").write_text("test = 0.2\nvalid = 0.1\n")
    assert call(*words, "--out", tmp_path / "typed", "--config", tmp_path / "shares.toml") == 0
    assert held_out(tmp_path / "typed") == set()


def test_a_model_without_steps(log, tmp_path):
    saved = tmp_path / "saved.toml"
    words = ("--model", "itemknn", "--set", "neighbours=7", "--save-config", saved)
    assert call("fit", log, "--out", tmp_path / "a", *words) == 0
    assert "epochs" not in tomllib.loads(saved.read_text())
    assert call("fit", log, "--out", tmp_path / "b", "--config", saved) == 0
    assert vr.load(tmp_path / "b").neighbours == 7


# ---------------------------------------------------------------------------------------------------- compare


def test_compare_from_a_file(log, tmp_path, capsys):
    file, saved = tmp_path / "file.toml", tmp_path / "saved.toml"
    file.write_text(
        'samplers = "uni,lfm-w"\nseeds = 1\nepochs = 2\nthreads = 1\n[set]\nmf.dim = 4\n"lfm-w.margin" = 2.0\n'
    )
    first = told(capsys, "compare", log, "--out", tmp_path / "a", "--config", file, "--save-config", saved)
    assert {row["sampler"] for row in first["ranking"]} == {repr(vr.Uniform()), repr(vr.LFMW(margin=2.0)), None}
    again = told(capsys, "compare", log, "--out", tmp_path / "a", "--config", saved)  # another one would be refused
    assert again == first
    assert tomllib.loads(saved.read_text())["set"]["mf.dim"] == 4


def test_a_name_that_is_a_model_and_a_sampler():
    pytest.importorskip("torch")
    samplers, makers, *_ = choices("cml", "cml", ["cml.dim=4", "cml.candidates=3"])
    assert samplers == {"cml": vr.samplers.CML(candidates=3)}
    assert makers["cml"]().dim == 4


# ---------------------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("command", "text", "part"),
    [
        ("fit", "speed = 9", "fit has no setting 'speed'; it has batch,"),
        ("fit", 'out = "runs/a"', "fit has no setting 'out'"),
        ("fit", "seeds = 3", "fit has no setting 'seeds'"),
        ("compare", 'model = "mf"', "compare has no setting 'model'"),
        ("fit", "[set]\nspeed = 9", "vins has no setting 'speed'"),
        ("fit", "epochs = 2.5", "epochs = 2.5 is not allowed"),
        ("fit", "epochs = true", "epochs = true is not allowed"),
        ("fit", 'lr = "fast"', 'lr = "fast" is not allowed'),
        ("fit", "epochs = [1, 2]", "epochs is [1, 2]"),
        ("fit", "set = 3", "[set]"),
        ("fit", "[epochs]\nmost = 3", "epochs is"),
        ("fit", "epochs 3", "is not TOML"),
        ("tune", "[range]\nbeta = 3\ngamma = 1", "'gamma'"),
    ],
)
def test_a_mistake_in_the_file(log, tmp_path, capsys, command, text, part):
    file = tmp_path / "file.toml"
    file.write_text(text)
    assert part in complaint(capsys, command, log, "--out", tmp_path / "a", "--config", file)


def test_a_file_that_is_not_there(log, tmp_path, capsys):
    words = ("--out", tmp_path / "a", "--config", tmp_path / "none.toml")
    assert "none.toml" in complaint(capsys, "fit", log, *words)
