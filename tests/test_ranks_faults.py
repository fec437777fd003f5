"""What goes wrong in a group: all ranks stop, one line says why, nothing is half written; a killed rank is no harm."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import vitalrank as vr
from commands import QUICK, call, complaint, write_log
from rank_processes import HERE, environment, finish, free_port, start

pytest.importorskip("torch.distributed")
LIMITS = pytest.mark.skipif(sys.platform == "win32", reason="limits of a process are POSIX")


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return write_log(tmp_path_factory.mktemp("logs") / "log.tsv")


def outcome(fault, log, out, *words):
    """Exit codes, and what rank 0 and rank 1 said, of a fit by two ranks."""
    fit = ("fit", log, "--out", out, *QUICK, "--set", "dim=8", "--checkpoint-epochs", "1", *words)
    (said, error, code), (other_said, other_error, other_code) = finish(start(2, HERE / "rank_faults.py", fault, *fit))
    assert other_said == ""
    assert other_error == ""
    assert error.count("\n") <= 1, error
    return (code, other_code), said, error


def test_rank_0_alone_prints_and_writes(log, tmp_path):
    codes, said, error = outcome("none", log, tmp_path / "run", "--json", "--save-config", tmp_path / "run.toml")
    assert (codes, error) == ((0, 0), "")
    assert json.loads(said)["run"] == str(tmp_path / "run")
    assert (tmp_path / "run.toml").is_file()


@pytest.mark.parametrize(
    ("fault", "words", "expected"),
    [
        ("none", ("--lr", "1e30", "--optimizer", "sgd"), "training diverged in epoch 1"),
        pytest.param("full disk", (), "cannot be written", marks=LIMITS),
        ("missing log", (), "log.tsv.missing"),
    ],
)
def test_all_ranks_stop_with_one_line(fault, words, expected, log, tmp_path):
    codes, said, error = outcome(fault, log, tmp_path / "run", *words)
    assert codes == (2, 2)
    assert said == ""
    assert error.startswith("error: ")
    assert expected in error


def test_a_fault_leaves_the_last_checkpoint_to_go_on_from(log, tmp_path):
    codes, _, error = outcome("raises", log, tmp_path / "run")
    assert codes == (2, 1)
    assert "stopped: a mistake of rank 1" in error
    assert len(vr.load(tmp_path / "run").history) == 1
    assert call("fit", log, "--out", tmp_path / "run", *QUICK, "--set", "dim=8", "--resume") == 0
    assert call("fit", log, "--out", tmp_path / "alone", *QUICK, "--set", "dim=8") == 0
    assert _tensors(tmp_path / "run") == _tensors(tmp_path / "alone")


def _tensors(run):
    return (run / "tensors.safetensors").read_bytes()


def test_other_commands_refuse_to_run_as_ranks(log):
    words = [sys.executable, "-m", "vitalrank", "tune", str(log)]
    done = subprocess.run(words, env=environment(0, 2, free_port()), capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "tune runs in one process" in done.stderr


def test_a_model_without_steps_refuses_ranks(log, tmp_path):
    fit = ("fit", log, "--out", tmp_path / "run", "--model", "ease")
    (_, error, code), (_, other_error, other_code) = finish(start(2, HERE / "rank_faults.py", "none", *fit))
    assert (code, other_code, other_error) == (2, 2, "")
    assert "ease has no steps that ranks could share" in error


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds processes in /proc")
def test_a_killed_rank_is_started_again_and_the_bits_are_the_same(log, tmp_path):
    fit = ["fit", str(log), "--epochs", "8", "--threads", "1", "--set", "dim=8", "--checkpoint-epochs", "1"]
    words = [sys.executable, "-m", "vitalrank", *fit, "--out", str(tmp_path / "run"), "--ranks", "2"]
    variables = {**environment(0, 2, 0), "RANKS_TEST": str(tmp_path)}
    own = {name: value for name, value in variables.items() if not name.startswith(("TORCHELASTIC", "GLOO"))}
    running = subprocess.Popen(words, env=own, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        _kill_rank_1_after_the_first_checkpoint(tmp_path, running)
        said, error = running.communicate(timeout=120)
    finally:
        running.kill()
    assert running.returncode == 0, error
    assert "rank 1 was killed (SIGKILL); starting all again (1 of 10)" in error
    assert said.count("saved in") == 1
    assert call(*fit, "--out", tmp_path / "alone") == 0
    assert _tensors(tmp_path / "run") == _tensors(tmp_path / "alone")


def _kill_rank_1_after_the_first_checkpoint(folder, running):
    end = time.monotonic() + 90
    while not (folder / "run" / "model.json").exists():
        assert running.poll() is None
        assert time.monotonic() < end
        time.sleep(0.01)
    for entry in Path("/proc").glob("[0-9]*"):
        if _variables(entry).items() >= {"RANKS_TEST": str(folder), "RANK": "1"}.items():
            os.kill(int(entry.name), signal.SIGKILL)


def _variables(process):
    try:
        return dict(item.split("=", 1) for item in (process / "environ").read_text().split("\0") if "=" in item)
    except OSError:
        return {}


def test_ranks_are_asked_for_by_a_number(capsys, log, tmp_path):
    assert "--ranks" in complaint(capsys, "fit", log, "--out", tmp_path / "run", "--ranks", "0")
