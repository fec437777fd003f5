"""Folder locks: one writer at a time, be it a process or a thread."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from vitalrank._util import locks
from vitalrank._util.locks import LOCK, LockedError, only_writer, waiting_writer, writing
from vitalrank.errors import StorageError


def test_threads_exclude_each_other(tmp_path):
    """All try at the same time, again and again: there is never more than one inside."""
    inside, most, entered, threads = [0], [0], [0], 8
    barrier = threading.Barrier(threads)

    def attempt(_):
        barrier.wait()
        for _ in range(50):
            try:
                with only_writer(tmp_path):
                    inside[0] += 1
                    most[0] = max(most[0], inside[0])
                    entered[0] += 1
                    inside[0] -= 1
            except StorageError:
                pass

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(attempt, range(threads)))
    assert (most[0], inside[0]) == (1, 0)
    assert entered[0] >= 1
    assert not list(tmp_path.iterdir())


def test_a_thread_may_write_inside_its_own_lock_and_another_may_not(tmp_path):
    def write():
        with writing(tmp_path):
            return True

    with only_writer(tmp_path), ThreadPoolExecutor(1) as pool:
        assert write()
        with pytest.raises(StorageError, match="writes here already"):
            pool.submit(write).result()
        with pytest.raises(StorageError, match="writes here already"), only_writer(tmp_path):
            pass
        assert (tmp_path / LOCK).exists()
    assert write()


def test_another_process_is_named(tmp_path):
    start = f"from pathlib import Path; from vitalrank._util.locks import only_writer; folder = Path({str(tmp_path)!r})"
    code = f"{start}; only_writer(folder).__enter__()"
    with only_writer(tmp_path):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "writes here now; wait for it" in done.stderr


def test_a_link_in_place_of_the_lock_is_not_followed(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / LOCK).symlink_to(tmp_path / "mine.txt")
    with pytest.raises(StorageError, match="cannot be written"), only_writer(tmp_path / "run"):
        pass
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_who_waits_for_a_lock_does_not_wait_for_a_folder_that_nobody_can_write(tmp_path, monkeypatch):
    def full(*given):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(locks.os, "open", full)
    with pytest.raises(StorageError, match="No space left") as found, waiting_writer(tmp_path / "new"):
        pass
    assert not isinstance(found.value, LockedError)
    assert not list(tmp_path.iterdir())


def test_locks_of_other_names_are_independent(tmp_path):
    with only_writer(tmp_path), waiting_writer(tmp_path, "other"), pytest.raises(LockedError), only_writer(tmp_path):
        pass
