"""Shards of users: what all of them give together is what one process gives. The examples of the page are run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import vitalrank as vr
from commands import complaint, told
from vitalrank.evaluation.shards import ShardReader, ShardWriter

PAGE = (Path(__file__).parents[1] / "docs" / "ranks.md").read_text(encoding="utf-8")
ALL = ("--metrics", "all", "--at", 5, "--at", 10)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run in a folder of its own, as the examples name it."""
    folder = tmp_path_factory.mktemp("shared") / "runs" / "a"
    log = vr.datasets.synthetic(users=60, items=50, interactions=900, seed=0)
    train, valid, test = log.split_last(0.2, valid=0.1)
    model = vr.MostPopular().fit(train)
    model.held_out = {"valid": valid, "test": test}
    model.save(folder)
    return folder


def test_shards_of_an_evaluation_make_the_figures_of_one_process(capsys, tmp_path, run):
    for shard in (1, 2, 3):
        told(capsys, "evaluate", run, "--shard", f"{shard}/3", "--out", tmp_path / f"{shard}.npz", *ALL)
    asked = ("--by", "degree", "--bootstrap", 20, *ALL)
    assert told(capsys, "evaluate", run, "--parts", tmp_path, *asked) == told(capsys, "evaluate", run, *asked)


def test_shards_that_do_not_go_together_are_refused(capsys, tmp_path, run):
    parts = tmp_path / "parts"
    parts.mkdir()
    assert "no shards" in complaint(capsys, "evaluate", run, "--parts", parts)
    told(capsys, "evaluate", run, "--shard", "2/3", "--out", parts / "2.npz")
    assert "shards 1/3, 3/3 are missing" in complaint(capsys, "evaluate", run, "--parts", parts)
    assert "of another question" in complaint(capsys, "evaluate", run, "--parts", parts, "--at", 7)
    told(capsys, "evaluate", run, "--shard", "1/4", "--out", parts / "1.npz")
    assert "does not go with the others" in complaint(capsys, "evaluate", run, "--parts", parts)
    (parts / "1.npz").write_text("mine")
    assert "1.npz: no shard of an evaluation" in complaint(capsys, "evaluate", run, "--parts", parts)
    assert "not written by vitalrank" in complaint(capsys, "evaluate", run, "--shard", "1/3", "--out", parts / "1.npz")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--shard", "1/2"], "--shard I/N and --out FILE go together"),
        (["--out", "x.npz"], "--shard I/N and --out FILE go together"),
        (["--shard", "3/2", "--out", "x.npz"], "is not I/N"),
        (["--shard", "1/2", "--out", "x.npz", "--bootstrap", 10], "give them with --parts"),
        (["--shard", "1/2", "--out", "x.npz", "--parts", "x"], "--parts FOLDER stands alone"),
    ],
)
def test_options_that_contradict_are_one_sentence(capsys, run, words, message):
    assert message in complaint(capsys, "evaluate", run, *words)


def test_there_may_be_more_shards_than_users(tmp_path, run):
    model = vr.load(run)
    for shard in range(1, 71):
        group = ShardWriter(f"{shard}/70")
        vr.evaluate(model, model.held_out["test"], at=5, group=group)
        group.write(tmp_path / f"{shard}.npz", {})
    found = vr.evaluate(model, model.held_out["test"], at=5, group=ShardReader(tmp_path, {}))
    assert dict(found) == dict(vr.evaluate(model, model.held_out["test"], at=5))


def example(title):
    """A code block of the page, by its title."""
    return re.search(rf'^```\w+ title="{re.escape(title)}"\n(.*?)^```$', PAGE, re.DOTALL | re.MULTILINE)[1]


def shell(script, folder, bin_folder, **variables):
    """Run a script with the command ``vitalrank`` of this interpreter."""
    path = f"{bin_folder}:{os.environ['PATH']}"
    source = os.pathsep.join([str(Path(__file__).parents[1] / "src"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": source, **variables}
    subprocess.run(["sh", "-ec", script], cwd=folder, env=environment, check=True, capture_output=True, timeout=120)


@pytest.fixture
def commands(tmp_path):
    """A folder with the command ``vitalrank``."""
    script = tmp_path / "vitalrank"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m vitalrank "$@"\n')
    script.chmod(0o755)
    return tmp_path


def of_kubernetes(text):
    """The script in the job's arguments."""
    script = text.partition("- |\n")[2].partition("          volumeMounts")[0]
    return script.replace("/16", "/2")


@pytest.mark.parametrize(
    ("script", "variables"),
    [
        (
            example("shards.sh"),
            [{"SLURM_ARRAY_TASK_ID": f"{i}", "SLURM_ARRAY_TASK_COUNT": "2"} for i in (1, 2)],
        ),
        (of_kubernetes(example("shards.yaml")), [{"JOB_COMPLETION_INDEX": f"{i}"} for i in (0, 1)]),
    ],
    ids=["slurm", "kubernetes"],
)
def test_the_jobs_of_the_page_make_the_whole(capsys, run, commands, script, variables):
    shared = run.parents[1]
    for name in ("lists", "parts"):
        (shared / name).mkdir(exist_ok=True)
    for own in variables:
        shell(script, shared, commands, **own)
    whole = told(capsys, "evaluate", run)
    assert told(capsys, "evaluate", run, "--parts", shared / "parts") == whole
    told(capsys, "recommend", run, "--all", "--out", shared / "all.parquet")
    rows = [row for i in (1, 2) for row in pq.read_table(shared / "lists" / f"{i}.parquet").to_pylist()]
    assert rows == pq.read_table(shared / "all.parquet").to_pylist()


def test_the_program_for_ray_makes_the_whole(run, monkeypatch, capsys):
    pytest.importorskip("ray")
    shared = run.parents[1]
    (shared / "lists").mkdir(exist_ok=True)
    monkeypatch.chdir(shared)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1] / "src"))
    exec(compile(example("shards.py").replace("N = 16", "N = 2"), "shards.py", "exec"), {})
    assert f"{pq.read_metadata('lists/1.parquet').num_rows + pq.read_metadata('lists/2.parquet').num_rows} rows" in (
        capsys.readouterr().out
    )
