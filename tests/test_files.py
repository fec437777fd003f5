"""Small files: whole or not at all, and what is no plain file is not replaced by one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from vitalrank._util.files import MARK, atomic_write, check_output, write_text
from vitalrank.errors import StorageError


def names(folder):
    return [path.name for path in folder.iterdir()]


def test_a_file_takes_the_place_of_the_one_before(tmp_path):
    place = tmp_path / "new" / "a.txt"
    for text in ("one", "two"):
        write_text(place, text)
        assert place.read_text() == text
    assert names(place.parent) == ["a.txt"]


def test_a_failed_write_leaves_the_old_file_and_no_temporary_file(tmp_path, monkeypatch):
    place = tmp_path / "a.txt"
    write_text(place, "old")
    plain = Path.write_text

    def half(self, text, **options):
        plain(self, text[: len(text) // 2], **options)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", half)
    with pytest.raises(StorageError, match=r"a\.txt: cannot be written .*No space left"):
        write_text(place, "new text")
    assert place.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_a_block_that_fails_otherwise_leaves_no_temporary_file_either(tmp_path):
    def fail():
        with atomic_write(tmp_path / "a.txt") as temporary:
            temporary.write_text("half")
            raise KeyError("b")

    with pytest.raises(KeyError):
        fail()
    assert names(tmp_path) == []


def test_a_folder_in_its_place_is_an_error_and_leaves_nothing(tmp_path):
    (tmp_path / "a").mkdir()
    with pytest.raises(StorageError, match="cannot be written"):
        write_text(tmp_path / "a", "text")
    assert names(tmp_path) == ["a"]


def test_a_link_stays_one(tmp_path):
    (tmp_path / "far.txt").write_text("old")
    (tmp_path / "near.txt").symlink_to(tmp_path / "far.txt")
    write_text(tmp_path / "near.txt", "new")
    assert (tmp_path / "near.txt").is_symlink()
    assert (tmp_path / "far.txt").read_text() == "new"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_pipe_is_written_into(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    end = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_text(tmp_path / "pipe", "text")
    assert os.read(end, 9) == b"text"
    os.close(end)


def test_standard_output_is_written_directly(tmp_path):
    code = "from pathlib import Path; from vitalrank._util.files import write_text as w; w(Path('/dev/stdout'), 'page')"
    (tmp_path / "out.txt").touch()
    before = (tmp_path / "out.txt").stat().st_ino
    with (tmp_path / "out.txt").open("w") as out:
        subprocess.run([sys.executable, "-c", code], stdout=out, check=True)
    assert (tmp_path / "out.txt").read_text() == "page"
    assert (tmp_path / "out.txt").stat().st_ino == before
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"page"


def test_no_predictable_name_is_touched(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    (tmp_path / "page.html.part").symlink_to(tmp_path / "mine.txt")
    (tmp_path / "conf.part").write_text("also mine")
    write_text(tmp_path / "page.html", "page")
    write_text(tmp_path / "conf", "conf")
    assert (tmp_path / "mine.txt").read_text() == "mine"
    assert (tmp_path / "conf.part").read_text() == "also mine"
    assert sorted(names(tmp_path)) == ["conf", "conf.part", "mine.txt", "page.html", "page.html.part"]


def test_the_target_of_a_link_is_replaced_whole_or_not_at_all(tmp_path):
    far = tmp_path / "far"
    far.mkdir()
    (far / "a.txt").write_text("old")
    (tmp_path / "a.txt").symlink_to(far / "a.txt")

    def fail():
        with atomic_write(tmp_path / "a.txt") as temporary:
            temporary.write_text("ha")
            raise OSError(28, "No space left on device")

    with pytest.raises(StorageError, match="No space left"):
        fail()
    assert (far / "a.txt").read_text() == "old"
    assert names(far) == ["a.txt"]


def test_permissions_stay(tmp_path):
    place = tmp_path / "a.txt"
    place.write_text("old")
    place.chmod(0o640)
    write_text(place, "new")
    assert place.stat().st_mode & 0o777 == 0o640


def test_an_output_replaces_only_what_vitalrank_wrote(tmp_path):
    place = tmp_path / "a.toml"
    check_output(place)
    place.write_text(f"# {MARK} 0.1.0\ndim = 8\n")
    check_output(place)
    place.write_text("dim = 7  # mine\n")
    with pytest.raises(StorageError, match=r"a\.toml: exists and was not written by vitalrank; .*--force"):
        check_output(place)
    check_output(place, force=True)


def test_a_format_without_comments_is_recognised_by_its_head(tmp_path):
    place = tmp_path / "trials.csv"
    place.write_text("trial,value\n0,1\n")
    check_output(place, is_ours=lambda head: head.startswith("trial,value"))
    place.write_bytes(b"\xff\xfe mine")
    with pytest.raises(StorageError, match="not written by vitalrank"):
        check_output(place, lambda head: head.startswith("trial,value"))


def test_new_and_empty_files_are_outputs_and_folders_are_none(tmp_path):
    (tmp_path / "empty").touch()
    check_output(tmp_path / "empty")
    check_output(tmp_path / "new")
    with pytest.raises(StorageError, match="is a folder"):
        check_output(tmp_path, force=True)


def test_what_a_killed_process_left_is_removed_and_the_file_of_a_living_one_is_not(tmp_path):
    script = "import sys, time\nfrom pathlib import Path\nfrom vitalrank._util.files import atomic_write\n"
    script += "with atomic_write(Path(sys.argv[1])): print(flush=True); time.sleep(60)"
    processes = [
        subprocess.Popen([sys.executable, "-c", script, tmp_path / "a"], stdout=subprocess.PIPE) for _ in range(2)
    ]
    for process in processes:
        process.stdout.readline()
    left = sorted(tmp_path.iterdir())
    processes[0].kill()
    processes[0].wait()
    (tmp_path / ".vitalrank-mine.part").write_text("mine")
    write_text(tmp_path / "b", "young files stay")
    assert set(left) < set(tmp_path.iterdir())
    for path in (*left, tmp_path / ".vitalrank-mine.part"):
        os.utime(path, (0, 0))
    write_text(tmp_path / "b", "again")
    names = {path.name for path in tmp_path.iterdir()}
    assert len(names & {path.name for path in left}) == 1
    assert ".vitalrank-mine.part" in names
    processes[1].kill()
    processes[1].wait()
