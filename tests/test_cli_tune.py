"""``tune``: the winner as a config file for ``fit``, a study that goes on, silence in a pipe."""

from __future__ import annotations

import tomllib

import pytest

import vitalrank as vr
from commands import QUICK, call, complaint, told, write_log

pytest.importorskip("optuna")


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return write_log(tmp_path_factory.mktemp("log") / "log.tsv")


def test_fit_takes_the_winner(log, tmp_path, capsys):
    words = ("--out", tmp_path / "t", "--trials", 4, "--range", "dim=4,8", "--range", "beta=0..1", *QUICK)
    assert call("tune", log, *words) == 0
    out, err = capsys.readouterr()
    assert err == ""  # a pipe
    assert (tmp_path / "t" / "best.toml").read_text() == out
    assert len((tmp_path / "t" / "trials.csv").read_text().splitlines()) == 5
    before = (tmp_path / "t" / "trials.csv").read_text()
    best = told(capsys, "tune", log, *words)  # goes on: there is nothing left to do
    assert best["trials"] == 4
    assert (tmp_path / "t" / "trials.csv").read_text() == before
    assert call("fit", log, "--out", tmp_path / "a", "--config", tmp_path / "t" / "best.toml") == 0
    model = vr.load(tmp_path / "a")
    assert model.dim == best["model"]["dim"]
    assert max(record["ndcg@10"] for record in model.history) == best["value"]


def test_a_run_off_after_a_search_in_rounds(log, tmp_path, capsys):
    words = ("--trials", 5, "--method", "rounds", "--finalists", 2, "--runoff-seeds", 2, "--range", "beta=0..1")
    best = told(capsys, "tune", log, "--out", tmp_path, "--sampler", "vins", *words, *QUICK)
    assert best["trials"] == 5
    text = (tmp_path / "best.toml").read_text()
    assert "the mean over 2 other seeds of the best of 2 finalists; 5 trials" in text
    assert tomllib.loads(text)["set"]["beta"] == best["sampler"]["beta"]


def test_what_is_typed_is_not_searched(log, tmp_path, capsys):
    """The paper's grid for VINS, with all but its margin fixed."""
    words = (
        "--space",
        "paper",
        "--reg",
        0.001,
        "--set",
        "dim=4",
        "--set",
        "beta=1",
        "--set",
        "kappa=8",
        "--trials",
        9,
        *QUICK,
    )
    best = told(capsys, "tune", log, "--out", tmp_path, "--sampler", "vins", *words)
    assert best["trials"] == 4
    assert set(best["sampler"]) == {"margin"}
    assert best["model"] == best["training"] == {}
    found = tomllib.loads((tmp_path / "best.toml").read_text())
    assert (found["reg"], found["set"]["dim"], found["set"]["kappa"]) == (0.001, 4, 8)


def test_a_named_space_with_a_range(log, tmp_path, capsys):
    words = ("--space", "wide", "--range", "dim=2,3", "--sampler", "dns", "--trials", 2, *QUICK)
    best = told(capsys, "tune", log, "--out", tmp_path, *words)
    assert best["model"]["dim"] in (2, 3)
    assert set(best["training"]) == {"lr", "reg"}


def test_a_search_over_weights_has_none_among_them(log, tmp_path, capsys):
    words = ("--range", "weight=none,log2", "--set", "dim=4", "--trials", 2, *QUICK)
    told(capsys, "tune", log, "--out", tmp_path / "t", "--sampler", "vins", *words)
    rows = (tmp_path / "t" / "trials.csv").read_text().splitlines()[1:]
    assert [row.split(",")[1] for row in rows] == ["finished", "finished"]
    assert sum(row.endswith("log2") for row in rows) == 1
    assert call("fit", log, "--out", tmp_path / "a", "--config", tmp_path / "t" / "best.toml") == 0


def test_a_saved_config_repeats_the_search(log, tmp_path, capsys):
    saved, again = tmp_path / "saved.toml", tmp_path / "again.toml"
    words = ("--space", "wide", "--sampler", "pop", "--set", "dim=4", "--trials", 2, "--seed", 5, *QUICK)
    told(capsys, "tune", log, "--out", tmp_path / "a", *words, "--save-config", saved)
    told(capsys, "tune", log, "--out", tmp_path / "b", "--config", saved, "--save-config", again)
    assert again.read_text() == saved.read_text()
    best = [tomllib.loads((tmp_path / name / "best.toml").read_text()) for name in "ab"]
    assert best[0] == best[1]


def test_a_search_needs_no_test_part(log, tmp_path, capsys):
    found = told(capsys, "tune", log, "--out", tmp_path, *QUICK, "--range", "dim=4,8", "--trials", 1,
                 "--test", 0, "--valid", 0.2)  # fmt: skip
    assert found["value"] > 0


def test_a_shared_storage(log, tmp_path, capsys):
    words = ("--range", "dim=4,8", "--storage", f"sqlite:///{tmp_path / 'shared.db'}", *QUICK)
    told(capsys, "tune", log, "--out", tmp_path / "a", *words, "--workers", 2)
    assert told(capsys, "tune", log, "--out", tmp_path / "b", *words)["trials"] == 2
    assert not (tmp_path / "a" / "study.db").exists()


def test_ctrl_c_says_how_far_it_came(log, tmp_path, capsys, monkeypatch):
    from vitalrank.tuning import searching

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(searching.Trainer, "fit", stop)
    assert call("tune", log, "--out", tmp_path, *QUICK) == 1
    assert "0 of 40 trials are done" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("--range", "beta"), "beta=0..1"),
        (("--range", "beta=0..2"), "beta is 2.0"),
        (("--range", "beta=0..1", "--set", "beta=1"), "both fixed and searched"),
        (("--range", "lr=0.1,0.2", "--lr", "0.1"), "both fixed and searched"),
        (("--range", "bias=yes,no"), "bias is 'yes'"),
        (("--range", "beta=true,false"), "beta is True"),
        (("--model", "itemknn", "--range", "neighbours=a,b"), "neighbours is 'a'"),
        (("--space", "narrow"), "unknown space 'narrow'"),
        (("--sampler", "warp"), "unknown sampler 'warp'"),
        (("--pruner", "axe"), "unknown pruner 'axe'"),
        (("--valid", "0"), "--valid"),
        (("--test", "0"), "--valid"),
        (("--trials", "0"), "trials is 0"),
        (("--storage", "foo://bar"), "foo://bar"),
    ],
)
def test_mistakes(log, tmp_path, capsys, words, part):
    assert part in complaint(capsys, "tune", log, "--out", tmp_path, *QUICK, *words)
