"""Several processes on one study: kills, starts at the same moment, odd places."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest

import vitalrank as vr

optuna = pytest.importorskip("optuna")

from vitalrank.errors import StorageError  # noqa: E402
from vitalrank.tuning import studies, workers  # noqa: E402

GRID = {"dim": [4, 8, 16], "beta": [0.0, 1.0]}
# Tunes a study; kills itself with SIGKILL where KILL says: before or after the trial of that number is claimed, or
# after its first epoch.
CODE = """
import json, os, signal, sys
import vitalrank as vr
from vitalrank.tuning.claims import Claims

storage, space, trials, kill, number = (sys.argv[1], *map(json.loads, sys.argv[2:4]), sys.argv[4], int(sys.argv[5]))
claim = Claims.claim

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def claim_and_die(self, params, history):
    is_last = len(history.alive) == number
    if kill == "before" and is_last:
        die()
    trial = claim(self, params, history)
    if kill == "claimed" and is_last:
        die()
    return trial

def callback(trial, news):
    if kill == "epoch" and trial == number:
        die()

Claims.claim = claim_and_die
log = vr.datasets.synthetic(users=80, items=60, interactions=1500, seed=0)
train, valid, _ = log.split_last(0.2, valid=0.1)
config = vr.TrainConfig(epochs=2, threads=1)
tuned = vr.tune(train, valid, "mf", "vins", space=space, trials=trials, storage=storage, config=config, pruner="none",
                callback=callback)
print(json.dumps([len(tuned.trials), tuned.value]))
"""


def start(storage, space, trials, kill="never", number=-1):
    command = [sys.executable, "-c", CODE, str(storage), json.dumps(space), str(trials), kill, str(number)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(process):
    """What a process printed, once it has ended well."""
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return json.loads(out)


@pytest.fixture(scope="module")
def parts():
    return vr.datasets.synthetic(users=80, items=60, interactions=1500, seed=0).split_last(0.2, valid=0.1)


def tune(parts, storage, space, trials, **changes):
    train, valid, _ = parts
    config = vr.TrainConfig(epochs=2, threads=1)
    same = {"space": space, "trials": trials, "storage": storage, "config": config, "pruner": "none"}
    return vr.tune(train, valid, "mf", "vins", **{**same, **changes})


def trials_of(storage):
    return optuna.load_study(study_name="mf-vins", storage=studies.storage_of(storage)).get_trials()


@pytest.mark.parametrize("file", ["study.db", "study.journal"])
@pytest.mark.parametrize(("kill", "lost"), [("before", 0), ("claimed", 1), ("epoch", 1)])
def test_a_grid_ends_after_a_kill(parts, tmp_path, file, kill, lost):
    storage = tmp_path / file
    killed = start(storage, GRID, 50, kill, 3)
    killed.communicate(timeout=300)
    assert killed.returncode == -signal.SIGKILL
    tuned = tune(parts, storage, GRID, 50)
    assert len(tuned.trials) == 6
    assert len({str(trial.settings) for trial in tuned.trials}) == 6
    states = [trial.state.name for trial in trials_of(storage)]
    assert sorted(states) == sorted(["COMPLETE"] * 6 + ["FAIL"] * lost)
    assert not list(tmp_path.glob(".*workers/*"))  # no lock is left


@pytest.mark.parametrize("space", [GRID, {"dim": [4, 8], "beta": "0..1"}])
@pytest.mark.parametrize("file", ["study.db", "study.journal"])
def test_processes_that_start_together_share_the_trials(tmp_path, file, space):
    storage = tmp_path / "new" / file
    processes = [start(storage, space, 6) for _ in range(2)]
    found = [ended(process) for process in processes]
    assert found[0] == found[1]  # each waited for the last trial of the other
    assert found[0][0] == 6
    whole = [trial.params for trial in trials_of(storage) if trial.state.name == "COMPLETE"]
    assert len({str(params) for params in whole}) == 6
    assert len(trials_of(storage)) < 14  # and did not fill the study with others


def test_a_process_takes_over_the_trial_of_another_that_is_killed_meanwhile(parts, tmp_path):
    storage = tmp_path / "study.db"
    study = optuna.create_study(storage=studies.storage_of(storage), study_name="mf-vins", direction="maximize")
    worker = workers.join(study, storage, shared=True)
    assert isinstance(worker, workers.LockWorker)
    trial = optuna.create_trial(
        state=optuna.trial.TrialState.RUNNING, params={"dim": 8}, user_attrs={"worker": worker.name},
        distributions={"dim": optuna.distributions.CategoricalDistribution((4, 8))},
    )  # fmt: skip
    study.add_trial(trial)
    news = []

    def callback(number, one):
        news.append(number)
        if len(news) == 3:  # the first trial has ended: what is left belongs to the other
            os.close(worker._handle)  # as the system does when a process dies

    tuned = tune(parts, storage, {"dim": [4, 8]}, 2, callback=callback)
    assert sorted(one.settings.model["dim"] for one in tuned.trials) == [4, 8]
    assert [one.state.name for one in trials_of(storage)] == ["FAIL", "COMPLETE", "COMPLETE"]


@pytest.mark.parametrize("name", ["a?b", "a%20b", "a b", "a{b}", "a#b&c=d", "ü:é"])
@pytest.mark.parametrize("file", ["study.db", "study.journal"])
def test_a_study_lies_where_it_is_asked_for(parts, tmp_path, name, file):
    storage = tmp_path / name / file
    tune(parts, storage, {"dim": [4]}, 1)
    assert storage.is_file()
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert len(tune(parts, str(storage), {"dim": [4]}, 1).trials) == 1


@pytest.mark.parametrize("file", ["notes.journal", "notes.db", "app.db"])
def test_a_file_of_others_takes_no_study(parts, tmp_path, file):
    path = tmp_path / file
    if file == "app.db":
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE customers (name TEXT)")
    else:
        path.write_text("mine\n")
    before = path.read_bytes()
    with pytest.raises(StorageError, match=r"exists and holds no studies; choose another place\.$"):
        tune(parts, path, {"dim": [4]}, 1)
    assert path.read_bytes() == before


def test_a_damaged_journal_is_told_in_one_sentence(parts, tmp_path):
    storage = tmp_path / "study.journal"
    tune(parts, storage, {"dim": [4]}, 1)
    first, *others = storage.read_text().splitlines(keepends=True)
    storage.write_text(first + "damaged\n" + "".join(others))
    with pytest.raises(StorageError, match="cannot hold a study"):
        tune(parts, storage, {"dim": [4]}, 1)


# ---------------------------------------------------------------------------------------------------- workers


@pytest.fixture
def study():
    return optuna.create_study(storage=optuna.storages.InMemoryStorage())


def test_a_lock_is_alive_until_its_process_lets_go(study, tmp_path):
    one, other = (workers.join(study, tmp_path / "study.db", shared=True) for _ in range(2))
    assert one.name != other.name
    assert all(worker.is_alive(name) for worker in (one, other) for name in (one.name, other.name))
    other.close()
    assert one.is_alive(one.name)
    assert not one.is_alive(other.name)
    assert not one.is_alive("lock:0000")
    one.close()
    assert list(tmp_path.iterdir()) == []


def test_a_heartbeat_is_alive_for_a_while(study, monkeypatch):
    one, other = (workers.join(study, None, shared=True) for _ in range(2))
    assert isinstance(one, workers.HeartbeatWorker)
    assert one.is_alive(other.name)
    other.close()
    assert not one.is_alive(other.name)
    assert one.is_alive(one.name)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + workers.GRACE_SECONDS + 1)
    assert not one.is_alive(one.name)
    one.close()


def test_the_worker_of_a_study_in_memory_is_alone(study):
    worker = workers.join(study, None, shared=False)
    assert worker.is_alive(worker.name)
    assert not worker.is_alive("lock:0000")
