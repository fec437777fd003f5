"""Folders are whole or not there, and anything odd in them is named."""

import hashlib
import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import vitalrank as vr
from vitalrank.checkpoint import FORMAT, IDS, META, NEW, TENSORS, is_saved, read_folder, write_folder, writing
from vitalrank.errors import StorageError
from vitalrank.serving.streaming import recommend_all

TABLE = np.arange(6, dtype=np.float32).reshape(2, 3)
INT_IDS = np.array([3, 10, 2**60], np.int64)
STR_IDS = np.array(["a", "ü", "日本 x"], object)


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "runs" / "a"
    write_folder(place, {"class": "Toy", "settings": {"dim": 3}}, {"table": TABLE}, (INT_IDS, STR_IDS))
    return place


def leftovers(place):
    """What is there beside the files of a folder, in it and around it."""
    inside = [entry.name for entry in place.iterdir() if entry.name not in (META, TENSORS, IDS)]
    return sorted(inside + [entry.name for entry in place.parent.iterdir() if entry.name != place.name])


def test_what_was_written_is_read(folder):
    saved = read_folder(folder)
    assert saved.meta == {"class": "Toy", "settings": {"dim": 3}}
    np.testing.assert_array_equal(saved.tensors["table"], TABLE)
    users, items = saved.ids
    assert users.dtype == np.int64
    assert items.dtype == object
    assert users.tolist() == INT_IDS.tolist()
    assert items.tolist() == STR_IDS.tolist()
    assert leftovers(folder) == []


def test_types_shapes_and_strides_survive(tmp_path):
    tensors = {
        "transposed": TABLE.T,
        "empty": np.empty((0, 4), np.int32),
        "scalar": np.array(7, np.int64),
        "flags": np.array([True, False]),
    }
    write_folder(tmp_path / "a", {}, tensors)
    read = read_folder(tmp_path / "a").tensors
    for name, array in tensors.items():
        assert read[name].dtype == array.dtype
        np.testing.assert_array_equal(read[name], array)


def test_ids_are_optional(tmp_path):
    write_folder(tmp_path / "a", {}, {"table": TABLE})
    assert read_folder(tmp_path / "a").ids is None


def test_same_content_gives_the_same_bytes(tmp_path, folder):
    write_folder(tmp_path / "b", {"class": "Toy", "settings": {"dim": 3}}, {"table": TABLE}, (INT_IDS, STR_IDS))
    for name in (META, TENSORS, IDS):
        assert (tmp_path / "b" / name).read_bytes() == (folder / name).read_bytes()


def test_a_folder_is_replaced_and_foreign_files_are_kept(folder):
    (folder / "report.html").write_text("mine")
    (folder / "checkpoint").mkdir()
    write_folder(folder, {"class": "Toy"}, {"table": TABLE + 1})
    saved = read_folder(folder)
    assert saved.ids is None
    np.testing.assert_array_equal(saved.tensors["table"], TABLE + 1)
    assert (folder / "report.html").read_text() == "mine"
    assert (folder / "checkpoint").is_dir()
    assert not (folder / IDS).exists()
    assert leftovers(folder) == ["checkpoint", "report.html"]


def test_a_folder_that_holds_other_things_is_written_into(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    write_folder(tmp_path, {}, {"table": TABLE})
    assert is_saved(tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("moment", ["rmtree", "rename", "fsync", "save_file"])
def test_a_write_that_fails_at_any_step_loses_nothing(folder, monkeypatch, moment):
    calls = []

    def fail(*args, **kwargs):
        calls.append(args)
        raise OSError(28, "No space left on device")

    targets = {
        "rmtree": (writing, "_finish_replacing"),
        "rename": (writing, "_publish"),
        "fsync": (writing.os, "fsync"),
        "save_file": (writing, "save_file"),
    }
    monkeypatch.setattr(*targets[moment], fail)
    with pytest.raises(StorageError, match=r"cannot be written.*No space left.*nothing was replaced"):
        write_folder(folder, {"class": "New"}, {"table": TABLE + 1})
    monkeypatch.undo()
    assert calls
    assert read_folder(folder).meta["class"] == "Toy"
    assert leftovers(folder) == []


def test_a_folder_that_one_stands_in_can_be_replaced(folder, monkeypatch):
    (folder / "below").mkdir()
    for place, there in ((".", folder), ("..", folder / "below")):
        monkeypatch.chdir(there)
        for number in range(3):
            write_folder(place, {"number": number}, {"table": TABLE + number})
        assert there.samefile(".")
        assert read_folder(place).meta == {"number": 2}


@pytest.mark.parametrize("ids", [(INT_IDS, STR_IDS), None])
@pytest.mark.parametrize("moved", range(5))
def test_a_crash_while_files_move_in_is_survived(folder, tmp_path, moved, ids):
    new = folder / NEW
    write_folder(tmp_path / "other", {"class": "New"}, {"table": TABLE + 1}, ids)
    (tmp_path / "other").rename(new)  # the draft was whole and renamed, then the power went
    names = [name for name in (TENSORS, IDS, META) if (new / name).exists()]
    for name in names[:moved]:
        (new / name).replace(folder / name)
    if moved > len(names):
        new.rmdir()
    for _ in range(2):
        assert is_saved(folder)
        assert read_folder(folder).meta["class"] == "New"
        np.testing.assert_array_equal(read_folder(folder).tensors["table"], TABLE + 1)
        assert (read_folder(folder).ids is None) == (ids is None)
        writing._finish_replacing(folder)
    write_folder(folder, {"class": "Newer"}, {"table": TABLE})
    assert read_folder(folder).meta["class"] == "Newer"
    assert leftovers(folder) == []


def test_drafts_of_killed_writers_are_cleared(folder):
    draft, other = folder / ".vitalrank.0123abcd.tmp", folder / ".vitalrank.mine.tmp"
    for path in (draft, other):
        path.mkdir()
        (path / TENSORS).write_text("half")
    write_folder(folder, {"class": "New"}, {"table": TABLE})
    assert leftovers(folder) == [other.name]


def test_a_writer_killed_at_any_moment_leaves_a_whole_folder(folder):
    code = f"""
import numpy as np
from vitalrank.checkpoint import write_folder
print("started", flush=True)
for number in range(100_000):
    write_folder({str(folder)!r}, {{"number": number}}, {{"table": np.full(5000, number)}})
"""
    for wait in (0.01, 0.05, 0.13):
        writer = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        writer.stdout.readline()
        time.sleep(wait)
        writer.kill()
        writer.communicate()
        saved = read_folder(folder)
        assert (saved.tensors["table"] == saved.meta.get("number", saved.tensors["table"])).all()
    write_folder(folder, {"class": "New"}, {"table": TABLE})
    assert leftovers(folder) == []


def test_without_posix_files_are_forced_to_disk_and_folders_are_not_opened(folder, monkeypatch):
    opened, real = {}, os.open

    def watched(path, flags, *more, **named):
        if not named:  # shutil removes folders by their descriptors
            opened[Path(path)] = flags
        return real(path, flags, *more, **named)

    monkeypatch.setattr(writing, "_IS_POSIX", False)
    monkeypatch.setattr(os, "open", watched)
    write_folder(folder, {"class": "Toy"}, {"table": TABLE})
    assert not any(path.is_dir() for path in opened)
    assert {path.name: flags for path, flags in opened.items()}[TENSORS] == os.O_RDWR


def test_a_full_disk_is_a_storage_error_and_keeps_the_old_folder(folder):
    # A limit on file size stands in for a full disk: the write itself fails, part of the way.
    code = f"""
import resource, numpy as np
from vitalrank.checkpoint import write_folder
from vitalrank.errors import StorageError
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    write_folder({str(folder)!r}, {{}}, {{"table": np.zeros(100_000)}})
except StorageError as error:
    print("told:", error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "told:" in done.stdout, done.stderr
    assert read_folder(folder).meta["class"] == "Toy"
    assert leftovers(folder) == []


def test_a_place_that_cannot_be_a_folder_is_a_storage_error(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match="cannot be written"):
        write_folder(tmp_path / "file" / "a", {}, {"table": TABLE})
    with pytest.raises(StorageError, match="cannot be written"):
        write_folder(tmp_path / "file", {}, {"table": TABLE})
    assert (tmp_path / "file").read_text() == "x"


def test_own_keys_cannot_be_taken(tmp_path):
    with pytest.raises(StorageError, match="'format'"):
        write_folder(tmp_path / "a", {"format": 3}, {"table": TABLE})


@pytest.mark.parametrize("name", [META, TENSORS])
def test_a_file_of_others_that_has_a_name_of_ours_stays(tmp_path, name):
    (tmp_path / name).write_text('{"model_type": "bert"}')
    with pytest.raises(StorageError):
        write_folder(tmp_path, {}, {"table": TABLE})
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == '{"model_type": "bert"}'


def test_a_link_in_place_of_new_files_is_not_followed(tmp_path):
    write_folder(tmp_path / "other", {"number": 1}, {"table": TABLE})
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / NEW).symlink_to(tmp_path / "other")
    with pytest.raises(StorageError, match="is a link"):
        write_folder(tmp_path / "a", {}, {"table": TABLE})
    assert read_folder(tmp_path / "other").meta == {"number": 1}


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(StorageError, match="nowhere: no such folder"):
        read_folder(tmp_path / "nowhere")
    assert not is_saved(tmp_path / "nowhere")


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o002, 0o664), (0o077, 0o600)])
def test_files_are_for_those_whom_the_umask_lets_read(tmp_path, umask, mode):
    before = os.umask(umask)
    try:
        write_folder(tmp_path / "a", {}, {"table": TABLE}, (INT_IDS, STR_IDS))
    finally:
        os.umask(before)
    assert {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "a").iterdir()} == dict.fromkeys(
        (META, TENSORS, IDS), mode
    )


@pytest.mark.parametrize("name", [META, TENSORS, IDS, "."])
def test_what_one_may_not_read_is_told_as_that(name):
    with tempfile.TemporaryDirectory() as place:  # pytest's own folders are root's alone
        folder = Path(place) / "a"
        write_folder(folder, {}, {"table": TABLE}, (INT_IDS, STR_IDS))
        Path(place).chmod(0o755)
        (folder / name).chmod(0)
        if os.getuid() == 0:
            os.seteuid(65534)  # no mode keeps root out
        try:
            with pytest.raises(StorageError, match=f"{META if name == '.' else name}: you may not read this file"):
                read_folder(folder)
        finally:
            if os.getuid() == 0:
                os.seteuid(0)
            (folder / name).chmod(0o755)


def edit_meta(folder, **changes):
    meta = json.loads((folder / META).read_text())
    meta.update(changes)
    (folder / META).write_text(json.dumps(meta))


def test_a_newer_format_is_refused(folder):
    edit_meta(folder, format=FORMAT + 1, library="9.9")
    with pytest.raises(StorageError, match=rf"format {FORMAT + 1}, written by vitalrank 9\.9"):
        read_folder(folder)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"format": "1"}', '{"format": 1}', '{"format": 1, "digests": {}}']
)
def test_a_broken_meta_is_a_storage_error(folder, text):
    (folder / META).write_text(text)
    with pytest.raises(StorageError, match=META):
        read_folder(folder)


def test_meta_may_not_point_outside_the_folder(folder):
    meta = json.loads((folder / META).read_text())
    edit_meta(folder, digests=meta["digests"] | {"../../secret": "0"})
    with pytest.raises(StorageError, match="does not have"):
        read_folder(folder)


@pytest.mark.parametrize("name", [TENSORS, IDS])
def test_truncation_tampering_and_absence_are_told(folder, name):
    content = (folder / name).read_bytes()
    changed = bytearray(content)
    changed[-1] ^= 1
    for broken in (content[:-1], bytes(changed), b""):
        (folder / name).write_bytes(broken)
        with pytest.raises(StorageError, match="truncated or changed"):
            read_folder(folder)
    (folder / name).unlink()
    with pytest.raises(StorageError, match="missing"):
        read_folder(folder)


class Trap:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was executed",))


@pytest.mark.parametrize("name", [TENSORS, IDS])
@pytest.mark.parametrize("digest", ["old", "matching"])
def test_a_pickle_under_the_right_name_is_never_loaded(folder, name, digest):
    (folder / name).write_bytes(pickle.dumps(Trap()))
    if digest == "matching":
        meta = json.loads((folder / META).read_text())
        edit_meta(folder, digests=meta["digests"] | {name: writing._digest(folder / name)})
    with pytest.raises(StorageError, match=name):
        read_folder(folder)


def matching_digests(folder, **changes):
    """As an attacker would: digests are no signature."""
    meta = {**json.loads((folder / META).read_text()), **changes}
    caller = {key: value for key, value in meta.items() if key not in ("format", "library", "digests")}
    digests = {name: writing._digest(folder / name) for name in (TENSORS, IDS)}
    meta["digests"] = digests | {META: hashlib.sha256(json.dumps(caller, sort_keys=True).encode()).hexdigest()}
    (folder / META).write_text(json.dumps(meta))


def list_column(values, offsets=None):
    flat = pa.array(values)
    flat = flat.cast(pa.large_string()) if flat.type == pa.string() else flat
    return pa.LargeListArray.from_arrays(pa.array(offsets or [0, len(flat)], pa.int64()), flat)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"users": [3, 10, 3], "items": ["a", "b"]}, "ids of users repeat"),
        ({"users": [3, None], "items": ["a", "b"]}, "ids of users are missing"),
        ({"users": [0.5, 1.5], "items": ["a", "b"]}, "does not hold a list of users"),
        ({"users": [3, 10]}, "does not hold a list of users"),
    ],
)
def test_ids_that_are_none_are_refused(folder, columns, words):
    table = pa.table({name: list_column(values) for name, values in columns.items()})
    with pa.OSFile(str(folder / IDS), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    matching_digests(folder)
    with pytest.raises(StorageError, match=rf"ids\.arrow: not a file of this kind \(.*{words}"):
        read_folder(folder)


def test_compressed_ids_are_refused_before_they_expand(folder):
    table = pa.table({"users": list_column([0] * 1_000_000), "items": list_column(["a"])})
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.OSFile(str(folder / IDS), "wb") as sink, pa.ipc.new_file(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    matching_digests(folder)
    with pytest.raises(StorageError, match="plain record batches"):
        read_folder(folder)


def test_an_offset_outside_the_text_is_refused(folder):
    content = bytearray((folder / IDS).read_bytes())
    offsets = np.array([0, 1, 3, 11], np.int64).tobytes()  # of "a", "\u00fc", "\u65e5\u672c x"
    position = content.index(offsets)
    content[position + 24 : position + 32] = np.array([2**40], np.int64).tobytes()
    (folder / IDS).write_bytes(content)
    matching_digests(folder)
    with pytest.raises(StorageError, match=r"ids\.arrow: not a file of this kind"):
        read_folder(folder)


def test_a_deeply_nested_meta_is_refused(folder):
    (folder / META).write_text('{"a":' * 100_000 + "1" + "}" * 100_000)
    with pytest.raises(StorageError, match="nested too deeply"):
        read_folder(folder)


def test_readers_see_the_old_or_the_new_folder_while_a_writer_replaces_it(folder):
    code = f"""
import numpy as np
from vitalrank.checkpoint import write_folder
for number in range(300):
    ids = (np.arange(number + 1), np.arange(3)) if number % 2 else None
    write_folder({str(folder)!r}, {{"number": number}}, {{"table": np.full(50 + number, number)}}, ids)
"""
    with subprocess.Popen([sys.executable, "-c", code]) as writer:
        seen = set()
        while writer.poll() is None:
            assert is_saved(folder)
            saved = read_folder(folder)
            number = saved.meta.get("number")
            seen.add(number)
            if number is not None:
                assert (saved.tensors["table"] == number).all()
                assert (saved.ids is None) == (number % 2 == 0)
        assert writer.returncode == 0
    assert len(seen) > 3
    assert read_folder(folder).meta["number"] == 299


def test_a_folder_whose_name_is_no_utf8_holds_a_model(tmp_path):
    """As after a file system of another encoding; it used to fail at the end of the training."""
    log = vr.Interactions.from_arrays(["a", "a", "b"], ["x", "y", "x"])
    folder = tmp_path / "mod\udce8le"
    try:
        folder.mkdir()
    except (OSError, UnicodeError):
        pytest.skip("this file system takes only UTF-8")
    model = vr.MF(dim=2).fit(log, vr.Uniform(), epochs=1, checkpoint=folder, progress=False)
    assert vr.load(folder).train.fingerprint == log.fingerprint
    model.export(folder / "vectors", "parquet")
    recommend_all(model, folder / "recs.parquet")
