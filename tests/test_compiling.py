"""While a kernel is compiled nothing is collected; before and after, what the caller had chosen holds.

And tests never run a kernel that was compiled from another source.
"""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
from numba import njit
from numba.extending import overload

import vitalrank.kernels.rng  # noqa: F401  (loads what looks after the collector)
from kernel_cache import folder_for


@pytest.mark.parametrize("chosen", [True, False])
def test_the_collector_rests_while_a_kernel_is_compiled(chosen):
    seen = []

    def one():
        return 1

    @overload(one)
    def _compiled():
        seen.append(gc.isenabled())
        return lambda: 1

    before = gc.isenabled()
    (gc.enable if chosen else gc.disable)()
    try:
        assert njit(lambda: one())() == 1
        assert gc.isenabled() is chosen
    finally:
        (gc.enable if before else gc.disable)()
    assert seen
    assert not any(seen)


def test_a_kernel_that_cannot_be_compiled_leaves_the_collector_on():
    with pytest.raises(Exception, match="nowhere"):
        njit(lambda: nowhere)()  # noqa: F821
    assert gc.isenabled()


@pytest.fixture
def package(tmp_path):
    folder = tmp_path / "vitalrank"
    (folder / "kernels" / "cpu").mkdir(parents=True)
    for name in ("losses.py", "kernels/cpu/callee.py"):
        (folder / name).write_text("a = 1\n")
    return folder


def test_any_change_of_what_kernels_are_made_of_asks_for_another_folder(package, tmp_path):
    folders = [folder_for(package, tmp_path)]
    assert Path(folders[0]).is_dir()
    assert folder_for(package, tmp_path) == folders[0]
    for name in ("losses.py", "kernels/cpu/callee.py"):
        (package / name).write_text("a = 2\n")
        folders.append(folder_for(package, tmp_path))
    (package / "kernels/cpu/callee.py").rename(package / "kernels/callee.py")
    folders.append(folder_for(package, tmp_path))
    assert len(set(folders)) == 4


def test_where_nothing_can_be_written_the_folder_is_a_temporary_one(package, tmp_path):
    (tmp_path / ".cache").touch()  # so that no folder of that name can be made
    folder = Path(folder_for(package, tmp_path))
    assert folder.is_dir()
    assert not folder.is_relative_to(tmp_path)
    folder.rmdir()
