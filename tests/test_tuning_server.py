"""Searches that meet on a PostgreSQL server, started here where Debian's package is installed."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest

import vitalrank as vr

pytest.importorskip("optuna")

from test_tuning_together import ended, start
from vitalrank.tuning import studies

USER = "nobody" if hasattr(os, "geteuid") and os.geteuid() == 0 else None  # the server refuses to run as root


def programs():
    """Where initdb and pg_ctl are: in the path, or where Debian keeps them."""
    found = shutil.which("initdb")
    places = [Path(found).resolve().parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return places[-1] if places else None


@pytest.fixture(scope="module")
def server():
    """The address of an empty database."""
    pytest.importorskip("psycopg")
    place = programs()
    if place is None:
        pytest.skip("PostgreSQL is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        if USER:
            shutil.chown(folder, USER)
        data = f"{folder}/data"
        options = f"-c listen_addresses=127.0.0.1 -p {port} -k {folder} -c fsync=off"

        def call(*words):
            subprocess.run(words, user=USER, cwd=folder, check=True, capture_output=True, timeout=120)

        call(place / "initdb", "--no-sync", "-A", "trust", "-U", "tuner", "-D", data)
        call(place / "pg_ctl", "start", "-w", "-D", data, "-o", options, "-l", f"{folder}/log")
        try:
            yield f"postgresql://tuner@127.0.0.1:{port}/postgres"
        finally:
            call(place / "pg_ctl", "stop", "-D", data, "-m", "immediate")


def test_processes_that_name_one_server_search_together(server):
    grid = {"dim": [4, 8], "beta": [0.0, 1.0]}
    found = [ended(process) for process in [start(server, grid, 4) for _ in range(2)]]
    assert found[0] == found[1]
    assert found[0][0] == 4
    study = studies.optuna.load_study(storage=studies.storage_of(server), study_name=None)
    points = [tuple(sorted(trial.params.items())) for trial in study.trials if trial.state.name == "COMPLETE"]
    assert len(points) == len(set(points)) == 4


def test_a_server_without_a_driver_is_one_sentence(monkeypatch):
    monkeypatch.setattr(studies, "find_spec", lambda name: None)
    with pytest.raises(vr.SettingError, match=r"needs a driver .*: pip install 'vitalrank\[postgres\]'\.$"):
        studies.storage_of("postgresql://tuner@dbhost/studies")


def test_a_server_that_does_not_answer_is_one_sentence():
    pytest.importorskip("psycopg")
    with pytest.raises(vr.StorageError, match="cannot be opened as a storage") as caught:
        studies.storage_of("postgresql://tuner@127.0.0.1:9/studies")
    assert "\n" not in str(caught.value)
