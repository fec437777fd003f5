"""A kernel is kept wherever there is a place, and runs without one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import vitalrank
from vitalrank.kernels.cpu.initial import fill_normal


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The library in a folder whose kernels nobody can keep beside it."""
    place = tmp_path_factory.mktemp("lib") / "vitalrank"
    shutil.copytree(Path(vitalrank.__file__).parent, place, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in (place / "kernels", place / "kernels" / "cpu"):
        (folder / "__pycache__").write_text("in the way")  # root may write where others may not
    return place.parent


def drawn(package, temporary):
    """What a kernel draws in a process that has no place to keep it but one."""
    code = f"""
import tempfile
tempfile.tempdir = {str(temporary)!r}
import numpy as np
from vitalrank.kernels.cpu.initial import fill_normal
table = np.zeros((1, 1, 2), np.float32)
fill_normal(table, 1, 0, 0, 1.0)
print(*table.ravel())
"""
    kept = {name: value for name, value in os.environ.items() if name not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
    places = {"HOME": "/dev/null", "PYTHONPATH": str(package)}
    command = [sys.executable, "-B", "-c", code]
    done = subprocess.run(command, env={**kept, **places}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [float(number) for number in done.stdout.split()]


@pytest.fixture(scope="module")
def usual():
    table = np.zeros((1, 1, 2), np.float32)
    fill_normal(table, 1, 0, 0, 1.0)
    return [pytest.approx(float(number), rel=1e-6) for number in table.ravel()]


def test_kernels_are_kept_among_the_temporary_files_where_there_is_no_other_place(package, usual, tmp_path):
    assert drawn(package, tmp_path) == usual
    (folder,) = tmp_path.iterdir()
    assert folder.name == f"vitalrank-numba-{os.getuid()}"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert any(folder.iterdir())


def test_a_folder_that_others_can_write_is_not_trusted(package, usual, tmp_path):
    folder = tmp_path / f"vitalrank-numba-{os.getuid()}"
    folder.mkdir()
    folder.chmod(0o777)
    assert drawn(package, tmp_path) == usual
    assert list(folder.iterdir()) == []


def test_kernels_run_where_nothing_can_be_kept(package, usual):
    assert drawn(package, "/dev/null") == usual
