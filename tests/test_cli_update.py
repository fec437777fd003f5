"""``vitalrank update``: new rows for a run folder, which stays whole whatever happens."""

import numpy as np
import pytest

import vitalrank as vr
from commands import QUICK, call, complaint, told
from vitalrank._util.locks import only_writer


def write(path, rows):
    path.write_text("user\titem\ttime\n" + "".join(f"{u}\t{i}\t{t}\n" for u, i, t in rows))
    return path


@pytest.fixture
def day(tmp_path):
    """A log and the rows of the next day, with a new user and a new item."""
    made = vr.datasets.synthetic(users=60, items=50, interactions=900, seed=0)
    rows = [
        (f"u{u}", f"i{i}", t)
        for t, (u, i) in enumerate(zip(made.user_ids[made.users], made.item_ids[made.items], strict=True))
    ]
    today = [("u1", "new", 2000), ("anna", "i3", 2001), ("anna", "new", 2002), rows[0]]
    return write(tmp_path / "log.tsv", rows), write(tmp_path / "today.tsv", today)


@pytest.fixture
def run(day, tmp_path, capsys):
    told(capsys, "fit", day[0], "--out", tmp_path / "a", "--set", "dim=4", *QUICK)
    return tmp_path / "a"


def test_an_update_replaces_the_run(day, run, tmp_path, capsys):
    before = vr.load(run)
    said = told(capsys, "update", run, day[1])
    assert (said["new_users"], said["new_items"]) == (1, 1)
    after = vr.load(run)
    assert after.train.user_ids[-1] == "anna"
    assert after.history.start["updates"] == 1
    assert len(after.train) == len(before.train) + said["new_rows"]
    assert set(after.held_out) == set(before.held_out)
    assert call("evaluate", run) == 0
    assert call("recommend", run, "--user", "anna") == 0
    assert not list(tmp_path.glob(".a.*"))


def test_an_update_elsewhere_keeps_the_run_and_has_the_same_bits(day, run, tmp_path, capsys):
    before = vr.load(run).tensors()
    told(capsys, "update", run, day[1], "--out", tmp_path / "b", "--epochs", "2", "--threads", "2")
    assert all(np.array_equal(before[name], array) for name, array in vr.load(run).tensors().items())
    told(capsys, "update", run, day[1], "--epochs", "2", "--threads", "1")
    elsewhere, here = vr.load(tmp_path / "b").tensors(), vr.load(run).tensors()
    assert all(np.array_equal(here[name], array) for name, array in elsewhere.items())
    assert "holds a run already" in complaint(capsys, "update", run, day[1], "--out", tmp_path / "b")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("x1", "y1", 1)], "shares no user and no item"),
        ([(1, 2, 3), (4, 5, 6)], "shares no user and no item"),
    ],
)
def test_rows_of_another_log_are_refused(rows, message, run, tmp_path, capsys):
    before = vr.load(run).train.fingerprint
    assert message in complaint(capsys, "update", run, write(tmp_path / "other.tsv", rows))
    assert vr.load(run).train.fingerprint == before


def test_a_day_without_times_is_refused(run, tmp_path, capsys):
    (tmp_path / "other.tsv").write_text("user\titem\nx1\ty1\n")
    assert "cannot be added to the log" in complaint(capsys, "update", run, tmp_path / "other.tsv")


def test_no_new_rows_are_said(day, run, tmp_path, capsys):
    log = vr.load(run).train
    known = write(tmp_path / "known.tsv", [(log.user_ids[log.users[0]], log.item_ids[log.items[0]], 7)])
    assert "has no row that" in complaint(capsys, "update", run, known)


def test_a_failed_update_leaves_the_run(day, run, tmp_path, capsys):
    before = vr.load(run)
    assert "lower lr" in complaint(capsys, "update", run, day[1], "--lr", "1e30")
    assert vr.load(run).train.fingerprint == before.train.fingerprint
    assert not list(tmp_path.glob(".a.*"))


def test_a_model_without_steps_is_fitted_again(day, tmp_path, capsys):
    told(capsys, "fit", day[0], "--out", tmp_path / "k", "--model", "itemknn")
    assert told(capsys, "update", tmp_path / "k", day[1])["new_items"] == 1
    assert "new" in vr.load(tmp_path / "k").train.item_ids
    assert "has no steps" in complaint(capsys, "update", tmp_path / "k", day[0], "--epochs", "2")


def test_repeated_pairs_of_a_day_are_treated_as_asked(day, run, tmp_path, capsys):
    log = vr.load(run).train
    bought = (log.user_ids[log.users[0]], log.item_ids[log.items[0]])
    again = write(tmp_path / "again.tsv", [(*bought, 3000), (*bought, 3001)])
    words = ("update", run, again, "--repeats", "count", "--epochs", "1", "--out", tmp_path / "b")
    assert told(capsys, *words)["new_rows"] == 0
    grown = vr.load(tmp_path / "b").train
    assert sorted(grown.weights)[-2:] == [1, 3]
    assert grown.times[grown.weights == 3].tolist() == [3001]


def test_what_a_killed_update_left_is_removed_by_the_next(day, run, tmp_path):
    before = sorted(path.name for path in run.parent.iterdir())
    (run / ".vitalrank.0123abcd.tmp" / "run").mkdir(parents=True)
    assert call("update", run, day[1], "--epochs", "1") == 0
    assert sorted(path.name for path in run.parent.iterdir()) == before
    assert not list(run.glob(".vitalrank.*"))


def test_an_update_waits_for_nobody_and_loses_no_rows_of_another(day, run, capsys):
    """The run is read under the lock: an update that read it before would write over the rows of the other."""
    before = (run / "model.json").read_bytes()
    with only_writer(run):
        assert "writes here" in complaint(capsys, "update", run, day[1])
    assert (run / "model.json").read_bytes() == before
