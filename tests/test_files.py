"""Small files: whole or not at all, and what is no plain file is not replaced by one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vitalrank._util.files import atomic_write, write_text
from vitalrank.errors import StorageError


def names(folder):
    return [path.name for path in folder.iterdir()]


def test_a_file_takes_the_place_of_the_one_before(tmp_path):
    place = tmp_path / "new" / "a.txt"
    for text in ("one", "two"):
        write_text(place, text)
        assert place.read_text() == text
    assert names(place.parent) == ["a.txt"]


def test_a_failed_write_leaves_the_old_file_and_no_draft(tmp_path, monkeypatch):
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


def test_a_block_that_fails_otherwise_leaves_no_draft_either(tmp_path):
    def fail():
        with atomic_write(tmp_path / "a.txt") as draft:
            draft.write_text("half")
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
