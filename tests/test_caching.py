"""A kernel is cached in a folder that is private, until a source it is made of changes, and runs without one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import vitalrank
from vitalrank.kernels.caching import package_digest, remove_stale
from vitalrank.kernels.compiling import UNTESTED, cache_class
from vitalrank.kernels.cpu.training.initial import fill_normal
from vitalrank.kernels.private_folders import is_private

PRIVATE_BY_MODE = pytest.mark.skipif(os.name == "nt", reason="access lists, not modes, protect folders on Windows")


def copied(to):
    """A copy of the library, no kernel compiled."""
    shutil.copytree(Path(vitalrank.__file__).parent, to, ignore=shutil.ignore_patterns("__pycache__"))
    return to


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The library in a folder whose kernels nobody can keep beside it."""
    place = copied(tmp_path_factory.mktemp("lib") / "vitalrank")
    for folder in {path.parent for path in (place / "kernels").rglob("*.py")}:
        (folder / "__pycache__").write_text("in the way")  # root may write where others may not
    return place.parent


def drawn(package, temporary):
    """What a kernel draws in a process that has no place to keep it but one."""
    code = f"""
import tempfile
tempfile.tempdir = {str(temporary)!r}
import numpy as np
from vitalrank.kernels.cpu.training.initial import fill_normal
table = np.zeros((1, 1, 2), np.float32)
fill_normal(table, 1, 0, 0, 1.0)
print(*table.ravel())
"""
    return [float(number) for number in output_of(code, package).split()]


def output_of(code, package, home="/dev/null", **more):
    kept = {name: value for name, value in os.environ.items() if name not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
    places = {"HOME": str(home), "PYTHONPATH": str(package)}
    command = [sys.executable, "-B", "-c", code]
    done = subprocess.run(command, env={**kept, **places, **more}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def usual():
    table = np.zeros((1, 1, 2), np.float32)
    fill_normal(table, 1, 0, 0, 1.0)
    return [pytest.approx(float(number), rel=1e-6) for number in table.ravel()]


@PRIVATE_BY_MODE
def test_kernels_are_kept_among_the_temporary_files_where_there_is_no_other_place(package, usual, tmp_path):
    assert drawn(package, tmp_path) == usual
    (folder,) = tmp_path.iterdir()
    assert folder.name == f"vitalrank-numba-{os.getuid()}"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert any(folder.iterdir())


@PRIVATE_BY_MODE
def test_a_folder_that_others_can_write_is_not_trusted(package, usual, tmp_path):
    folder = tmp_path / f"vitalrank-numba-{os.getuid()}"
    folder.mkdir()
    folder.chmod(0o777)
    assert drawn(package, tmp_path) == usual
    assert list(folder.iterdir()) == []


def test_kernels_run_where_nothing_can_be_kept(package, usual):
    assert drawn(package, "/dev/null") == usual


KEPT = """
import numpy as np
from vitalrank.kernels.cpu.training import initial
table = np.zeros((1, 1, 2), np.float32)
initial.fill_normal(table, 1, 0, 0, 1.0)
(found,) = initial._fill_rows.stats.cache_hits.values() or [0]
print(found, *table.ravel())
"""


def test_a_kept_kernel_is_compiled_again_when_one_that_it_calls_has_changed(tmp_path):
    library = copied(tmp_path / "vitalrank")
    first = output_of(KEPT, tmp_path).split()
    again = output_of(KEPT, tmp_path).split()
    called = library / "kernels" / "rng.py"
    called.write_text(called.read_text().replace("0xD2511F53", "0xD2511F55"))
    changed = output_of(KEPT, tmp_path).split()
    assert [found for found, *_ in (first, again, changed)] == ["0", "1", "0"]
    assert again[1:] == first[1:] != changed[1:]


PERMUTED = """
import numpy as np
from vitalrank.kernels.cpu.training import permutation
rows = np.zeros(5, np.int64)
permutation.fill_rows(permutation.epoch_permutation(5, 1, 1), 0, rows)
(found,) = permutation.fill_rows.stats.cache_hits.values() or [0]
print(found, *rows)
"""


def test_kernels_kept_by_a_version_with_another_class_are_not_read(tmp_path):
    library = copied(tmp_path / "vitalrank")
    first = output_of(PERMUTED, tmp_path).split()
    for path in library.rglob("*.py"):
        path.write_text(path.read_text().replace("Permutation", "Shuffle"))
    assert output_of(PERMUTED, tmp_path).split() == first
    assert output_of(PERMUTED, tmp_path).split() == ["1", *first[1:]]


@pytest.mark.parametrize("damage", [b"no pickle", b"cvitalrank.kernels.cpu\nOrder\n.", b""])
@pytest.mark.parametrize("kind", ["nbi", "nbc"])
def test_a_kernel_that_cannot_be_read_is_compiled_anew_and_kept(tmp_path, damage, kind):
    copied(tmp_path / "vitalrank")
    first = output_of(PERMUTED, tmp_path).split()
    for path in tmp_path.rglob(f"*.{kind}"):
        path.write_bytes(damage)
    assert output_of(PERMUTED, tmp_path).split() == first
    assert output_of(PERMUTED, tmp_path).split() == ["1", *first[1:]]


def test_kernels_of_other_versions_are_removed_but_for_the_newest(tmp_path):
    folders = [tmp_path / f"vitalrank-{number}" for number in range(5)]
    for age, folder in enumerate(folders):
        folder.mkdir()
        (folder / "kernel.nbi").touch()
        os.utime(folder, (1000 - age, 1000 - age))
    for name in ("kernel.nbi", "kernel.1.nbc", "module.cpython-312.pyc", "other"):
        (tmp_path / name).touch()
    remove_stale(tmp_path, folders[4])
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "module.cpython-312.pyc", "other", "vitalrank-0", "vitalrank-1", "vitalrank-4",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["losses.py", "kernels/cpu/callee.py"])
def test_all_that_kernels_are_made_of_counts(tmp_path, name):
    library = tmp_path / "vitalrank"
    (library / "kernels" / "cpu").mkdir(parents=True)
    for file in ("losses.py", "kernels/cpu/callee.py", "cli.py"):
        (library / file).write_text("a = 1\n")
    digest = package_digest.__wrapped__
    before = digest(library)
    (library / "cli.py").write_text("a = 2\n")
    assert digest(library) == before
    (library / name).write_text("a = 2\n")
    assert digest(library) != before


def test_kernels_run_from_a_zip_file(usual, tmp_path):
    copied(tmp_path / "lib" / "vitalrank")
    packed = shutil.make_archive(str(tmp_path / "lib"), "zip", tmp_path / "lib")
    _, *numbers = output_of(KEPT, packed, home=tmp_path).split()
    assert [float(number) for number in numbers] == usual


@PRIVATE_BY_MODE
def test_a_folder_is_private_if_only_its_owner_can_write_it_or_replace_it(tmp_path, monkeypatch):
    mine, shared = tmp_path / "mine", tmp_path / "shared"
    inside = shared / "inside"
    for folder, mode in ((mine, 0o755), (shared, 0o777), (inside, 0o700)):
        folder.mkdir()
        folder.chmod(mode)
    assert [is_private.__wrapped__(folder) for folder in (mine, shared, inside)] == [True, False, False]
    shared.chmod(0o1777)  # sticky: others can add files to it, and rename none
    assert [is_private.__wrapped__(folder) for folder in (shared, inside)] == [False, True]
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert not is_private.__wrapped__(mine)


@PRIVATE_BY_MODE
def test_a_given_folder_that_others_can_write_is_passed_over(package, usual, tmp_path):
    given, home = tmp_path / "given", tmp_path / "home"
    given.mkdir()
    given.chmod(0o777)
    home.mkdir()
    _, *numbers = output_of(KEPT, package, home=home, NUMBA_CACHE_DIR=str(given)).split()
    assert [float(number) for number in numbers] == usual
    assert not list(given.rglob("*.nbc"))
    assert list((home / ".cache" / "vitalrank" / "kernels").rglob("*.nbc"))


def test_without_the_private_names_of_numba_kernels_are_not_cached():
    assert cache_class(UNTESTED) is None
    assert cache_class((0, 62)) is not None


OTHERS = """
import gc
from numba import njit
from numba.core.caching import CacheImpl, FunctionCache
from numba.core.dispatcher import Dispatcher
from numba.core.event import _registered


def shared():
    listeners = [listener for listeners in _registered.values() for listener in listeners]
    return list(CacheImpl._locator_classes), Dispatcher.enable_caching, listeners


before = shared()
import vitalrank.kernels.cpu
assert shared() == before
import other
assert other.add(1) == 2
assert type(other.add._cache) is FunctionCache
assert type(other.add._cache._impl.locator).__module__ == "numba.core.caching"
assert gc.isenabled()
"""


def test_the_functions_of_other_packages_are_compiled_and_cached_as_numba_does_it(package, tmp_path):
    (tmp_path / "other.py").write_text("import numba\n\n\n@numba.njit(cache=True)\ndef add(x):\n    return x + 1\n")
    output_of(f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{OTHERS}", package, home=tmp_path)
    assert list((tmp_path / "__pycache__").glob("other.add*.nbc"))
