"""What ``fit`` holds out, and the weights it trains with."""

from __future__ import annotations

from pathlib import Path

import pytest

import vitalrank as vr
from commands import call, complaint, told


@pytest.fixture
def log(tmp_path: Path) -> Path:
    made = vr.datasets.synthetic(users=20, items=20, interactions=180, seed=0)
    rows = zip(made.user_ids[made.users], made.item_ids[made.items], strict=True)
    lines = [f"{user},{item},{n * 7919 % 1000},{1 + n % 5}" for n, (user, item) in enumerate(rows)]
    path = tmp_path / "log.csv"
    path.write_text("\n".join(["user,item,time,stars", *lines]) + "\n")
    return path


def fitted(capsys: pytest.CaptureFixture[str], log: Path, *options: str) -> tuple[vr.models.Recommender, dict]:
    out = log.parent / "run"
    facts = told(capsys, "fit", log, "--out", out, "--model", "mostpopular", *options)
    return vr.load(out), facts


def test_the_run_remembers_a_split_by_time(capsys: pytest.CaptureFixture[str], log: Path) -> None:
    model, _ = fitted(capsys, log, "--split", "time", "--cutoff", "700")
    assert model.train.times.max() < 700 <= model.held_out["test"].times.min()
    assert model.train.times.max() < model.held_out["valid"].times.min()
    assert told(capsys, "evaluate", log.parent / "run")["recall@10"] > 0


@pytest.mark.parametrize("split", ["loo", "random", "last"])
def test_other_splits_go_by_the_library(capsys: pytest.CaptureFixture[str], log: Path, split: str) -> None:
    model, facts = fitted(capsys, log, "--split", split, "--weight", "stars")
    whole = vr.read(log, weight="stars")
    wanted = {"loo": whole.split_last(count=1), "random": whole.split_random(0.2), "last": whole.split_last(0.2)}[split]
    assert facts["held_out"] == len(wanted[1])
    assert model.held_out["test"].fingerprint == wanted[1].fingerprint
    assert model.train.weights is not None


def test_a_test_log_of_ones_own(capsys: pytest.CaptureFixture[str], log: Path) -> None:
    own = log.parent / "test.csv"
    user, item = vr.read(log).user_ids[0], vr.read(log).item_ids[0]
    own.write_text(f"user,item,time,stars\n{user},{item},5000,1\n{user},77777,5000,1\n")
    model, facts = fitted(capsys, log, "--test-log", str(own))
    assert len(model.held_out["test"]) == 1
    assert facts["notes"] == [f"test: 1 of 2 rows of {own} are left out, whose user or item {log} lacks."]


def test_a_warning_is_one_line(capsys: pytest.CaptureFixture[str], log: Path) -> None:
    fitted(capsys, log, "--test-log", str(log))  # what is tested was trained on
    assert call("evaluate", log.parent / "run") == 0
    err = capsys.readouterr().err
    assert err.startswith("warning: ")
    assert err.count("\n") == 1


def test_weights_that_a_model_does_not_read_are_said(capsys: pytest.CaptureFixture[str], log: Path) -> None:
    words = "fit", log, "--out", log.parent / "run", "--model", "mostpopular"
    assert call(*words, "--weight", "stars") == 0
    assert "MostPopular() does not read weights" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--cutoff", "3"), "--split time"),
        (("--split", "time", "--cutoff", "5000"), "after the last row"),
        (("--split", "time", "--cutoff", "500", "--test", "0.3"), "leave out --test"),
        (("--split", "loo", "--test", "0.3"), "leave out --test"),
        (("--split", "first"), "choose one of last, loo, time, random"),
        (("--test-log", "test.csv", "--test", "0.3"), "leave out --test"),
        (("--repeats", "all"), "choose one of first, last, sum, count"),
        (("--weight", "price"), "no column 'price'"),
        (("--split", "time", "--no-time"), "needs times"),
    ],
)
def test_what_does_not_go_together_is_one_line(
    capsys: pytest.CaptureFixture[str], log: Path, options: tuple[str, ...], message: str
) -> None:
    assert message in complaint(capsys, "fit", log, "--out", log.parent / "run", "--model", "mostpopular", *options)
    assert not (log.parent / "run").exists()


def test_a_prepared_log_is_trained_on_as_it_was_split(capsys: pytest.CaptureFixture[str], log: Path) -> None:
    out = log.parent / "prepared"
    facts = told(capsys, "data", "prepare", log, "--out", out, "--test", "0.2", "--valid", "0.1", "--min-user", "3")
    parts = dict(zip(("train", "valid", "test"), vr.read(log).k_core(3, 0).split_last(0.2, valid=0.1), strict=True))
    assert facts["folder"] == str(out)
    assert {name: facts[f"rows of {name}"] for name in parts} == {name: len(part) for name, part in parts.items()}
    model, facts = fitted(capsys, out)
    assert model.train.fingerprint == parts["train"].fingerprint
    assert {name: part.fingerprint for name, part in model.held_out.items()} == {
        name: parts[name].fingerprint for name in ("valid", "test")
    }
    assert told(capsys, "evaluate", log.parent / "run")["recall@10"] > 0


def test_a_prepared_log_that_was_not_split_is_split_by_fit(capsys: pytest.CaptureFixture[str], log: Path) -> None:
    told(capsys, "data", "prepare", log, "--out", log.parent / "prepared")
    model, _ = fitted(capsys, log.parent / "prepared", "--split", "loo", "--min-item", "2")
    expected, _, _ = vr.read(log).k_core(0, 2).split_last(count=1, valid=1)
    assert model.train.fingerprint == expected.fingerprint


@pytest.mark.parametrize("options", [("--test", "0.2"), ("--min-user", "2"), ("--time", "time"), ("--repeats", "last")])
def test_a_prepared_split_takes_no_other(
    capsys: pytest.CaptureFixture[str], log: Path, options: tuple[str, str]
) -> None:
    out = log.parent / "prepared"
    told(capsys, "data", "prepare", log, "--out", out, "--test", "0.2")
    message = complaint(capsys, "fit", out, "--out", log.parent / "run", "--model", "mostpopular", *options)
    assert f"was filtered and split by data prepare; leave out {options[0]}" in message


def test_data_prepare_writes_a_file_or_a_folder(capsys: pytest.CaptureFixture[str], log: Path) -> None:
    assert "give either TARGET" in complaint(capsys, "data", "prepare", log)
    both = "data", "prepare", log, log.parent / "a.parquet"
    assert "give either TARGET" in complaint(capsys, *both, "--out", log.parent / "prepared")
    assert "--memory: only with --out" in complaint(capsys, *both, "--memory", "2GiB")
