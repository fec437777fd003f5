"""Prepared logs: folders of mapped arrays that give the same logs, whole or a rank's users alone."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise

import numpy as np
import pytest

import vitalrank as vr
from vitalrank.prepared import PreparedWriter
from vitalrank.prepared import arrays as prepared_arrays

FIELDS = ("indptr", "items", "times", "weights", "user_ids", "item_ids", "users", "sorted_items", "item_degree")


def a_log(text: bool = True, times: bool = True, weights: bool = True) -> vr.Interactions:
    rng = np.random.default_rng(3)
    users, items = rng.integers(0, 60, 900), rng.zipf(1.6, 900) % 45
    names = ([f"ü{user:03}" for user in users], [f"i{item}" for item in items]) if text else (users * 7, items + 10**12)
    return vr.Interactions.from_arrays(
        *names,
        times=rng.integers(0, 50, 900) if times else None,
        weights=rng.random(900) if weights else None,
    )


def assert_same(log: vr.Interactions, other: vr.Interactions) -> None:
    for name in FIELDS:
        one, two = getattr(log, name), getattr(other, name)
        assert (one is None) == (two is None), name
        if one is not None:
            assert one.dtype == two.dtype, name
            assert np.array_equal(one, two), name
    assert log.fingerprint == other.fingerprint


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("prepared") / "log"
    vr.Prepared.write(place, a_log())
    return place


@pytest.fixture
def copy(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / "copy")


@pytest.mark.parametrize("text", [True, False])
@pytest.mark.parametrize(("times", "weights"), [(True, True), (False, False)])
def test_a_log_comes_back_as_it_was(tmp_path, text, times, weights):
    log = a_log(text, times, weights)
    vr.Prepared.write(tmp_path, log)
    assert_same(vr.read(tmp_path), log)
    fresh = vr.Prepared.open(tmp_path).part()
    computed = vr.Interactions(
        fresh.indptr, fresh.items, fresh.times, fresh.user_ids, fresh.item_ids, weights=fresh.weights
    )
    assert computed.fingerprint == log.fingerprint  # not only as the folder says


@pytest.mark.parametrize("times", [True, False])
def test_parts_come_back_and_make_the_whole_again(tmp_path, times):
    log = a_log(times=times)
    parts = dict(zip(("train", "valid", "test"), log.split_last(0.2, valid=0.1), strict=True))
    prepared = vr.Prepared.write(tmp_path, {"test": parts["test"], "train": parts["train"], "valid": parts["valid"]})
    assert prepared.parts == ("train", "valid", "test")
    for name, part in prepared.split().items():
        assert_same(part, parts[name])
    assert_same(prepared.log(), log)
    assert prepared.log().repeats == log.repeats > 0
    assert prepared.rows() == len(parts["train"])
    assert prepared.fingerprint("test") == parts["test"].fingerprint


@pytest.mark.parametrize("ranks", [1, 2, 3, 7, 100])
def test_shards_are_the_log(folder, ranks):
    prepared, log = vr.Prepared.open(folder), a_log()
    ranges = [prepared.user_range(rank, ranks) for rank in range(ranks)]
    assert ranges[0][0] == 0
    assert ranges[-1][1] == log.n_users
    assert all(last == first for (_, last), (first, _) in pairwise(ranges))
    shards = [prepared.shard(rank, ranks) for rank in range(ranks)]
    for name in ("users", "items", "times", "weights", "sorted_items"):
        assert np.array_equal(np.concatenate([getattr(shard, name) for shard in shards]), getattr(log, name)), name
    for shard, (first, last) in zip(shards, ranges, strict=True):
        assert shard.n_users == log.n_users
        assert not shard.user_degree[:first].any()
        assert not shard.user_degree[last:].any()
        alone = prepared.users_between(first, last)
        assert np.array_equal(alone.users + first, shard.users)
        assert np.array_equal(alone.user_ids, log.user_ids[first:last])
        assert np.array_equal(alone.item_degree, shard.item_degree)


def test_ranges_have_about_as_many_rows(folder):
    prepared, log = vr.Prepared.open(folder), a_log()
    rows = [np.diff(prepared.row_range(*prepared.user_range(rank, 4))).item() for rank in range(4)]
    assert max(rows) - min(rows) <= 2 * log.user_degree.max()


def test_a_shard_reads_its_own_blocks_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(prepared_arrays, "BLOCK", 512)
    vr.Prepared.write(tmp_path, a_log())
    prepared = vr.Prepared.open(tmp_path)
    last = prepared.user_range(3, 4)
    damage(tmp_path, "log.items.npy", at=128)
    assert len(prepared.shard(3, 4)) == np.diff(prepared.row_range(*last))
    with pytest.raises(vr.StorageError, match=r"log\.items\.npy: changed since it was written"):
        prepared.shard(0, 4)


def test_a_view_reads_its_own_blocks_alone_and_knows_the_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(prepared_arrays, "BLOCK", 512)
    log = a_log()
    prepared = vr.Prepared.write(tmp_path, log)
    first, last = prepared.user_range(3, 4)
    damage(tmp_path, "log.items.npy", at=128)
    view = prepared.part(rank=3, ranks=4)
    rows = slice(*prepared.row_range(first, last))
    assert np.array_equal(view.items[rows], log.items[rows])
    assert np.array_equal(view.users[rows], log.users[rows])
    assert (view.fingerprint, len(view), view.own_users) == (log.fingerprint, len(log), (first, last))
    assert np.array_equal(view.item_degree, log.item_degree)
    with pytest.raises(vr.StorageError, match=r"log\.items\.npy: changed since it was written"):
        prepared.part(rank=0, ranks=4)
    with pytest.raises(vr.SettingError, match=r"one rank's view of a prepared log; give the whole: Prepared\.part\(\)"):
        vr.MF(dim=4).fit(view, epochs=1)


@pytest.mark.parametrize(("rank", "ranks"), [(2, 2), (-1, 2), (0, 0), (0, 1.5)])
def test_a_rank_that_there_is_not_is_refused(folder, rank, ranks):
    with pytest.raises(vr.SettingError, match="rank"):
        vr.Prepared.open(folder).shard(rank, ranks)


def test_training_on_a_prepared_log_gives_the_same_bits(folder):
    asked = {"epochs": 2, "seed": 5, "sampler": vr.VINS()}
    one, other = vr.MF(dim=4).fit(a_log(), **asked), vr.MF(dim=4).fit(vr.read(folder), **asked)
    assert np.array_equal(one.item_table, other.item_table)
    assert np.array_equal(one.queries(np.arange(50)), other.queries(np.arange(50)))


def test_a_prepared_log_can_be_split_and_filtered_like_another(folder):
    log, other = a_log(), vr.read(folder)
    assert other.k_core(0, 0) is other
    assert_same(other.k_core(user=5, item=5), log.k_core(user=5, item=5))
    for part, same in zip(other.split_time(share=0.2, valid=0.1), log.split_time(share=0.2, valid=0.1), strict=True):
        assert_same(part, same)


def damage(folder, name, at=-1, cut=False):
    (path,) = folder.glob(f"data-*/{name}")
    content = bytearray(path.read_bytes())
    if cut:
        del content[-3:]
    else:
        content[at] ^= 255
    path.write_bytes(content)


@pytest.mark.parametrize(
    "name", ["log.indptr.npy", "log.sorted_items.npy", "log.times.npy", "users.text.npy", "items.offsets.npy"]
)
@pytest.mark.parametrize("cut", [True, False])
def test_a_damaged_array_is_an_error(copy, name, cut):
    damage(copy, name, cut=cut)
    with pytest.raises(vr.StorageError, match="prepare the log again"):
        vr.read(copy)


def test_a_missing_array_is_an_error(copy):
    next(copy.glob("data-*/log.items.npy")).unlink()
    with pytest.raises(vr.StorageError, match=r"log\.items\.npy: missing; prepare the log again"):
        vr.read(copy)


@pytest.mark.parametrize(
    "change",
    [
        {"format": 9}, {"format": None}, {"users": -1}, {"data": "../elsewhere"}, {"parts": {}}, {"parts": {"x": {}}},
        {"ids": {"users": {}, "items": {}}}, {"items": 10**9}, {"made": 3},
    ],
)  # fmt: skip
def test_a_changed_description_is_an_error(copy, change):
    path = copy / "prepared.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(vr.StorageError, match=r"prepare|vitalrank"):
        vr.Prepared.open(copy)


def test_values_that_kernels_would_follow_are_checked_although_the_digest_is_right(copy, monkeypatch):
    """A folder may come from a stranger."""
    monkeypatch.setattr(prepared_arrays.hashlib, "sha256", lambda data: FakeDigest())
    path = copy / "prepared.json"
    path.write_text(path.read_text().replace('"sha256": [\n', '"sha256": [\n"fake",\n'))
    damage(copy, "log.items.npy", at=-1)
    with pytest.raises(vr.StorageError, match="values that no log has"):
        vr.Prepared.open(copy).part()


def rewrite(folder, name, change):
    """Change an array and what is said of it, digests too."""
    contents = json.loads((folder / "prepared.json").read_text())
    path = folder / contents["data"] / f"{name}.npy"
    array = np.load(path)
    change(array)
    with prepared_arrays.ArrayWriter(path, array.dtype.str) as writer:
        writer.append(array)
    side, field = name.split(".")
    entries = contents["ids"][side] if side in contents["ids"] else contents["parts"][side]["arrays"]
    entries[field]["sha256"] = list(writer.entry().sha256)
    (folder / "prepared.json").write_text(json.dumps(contents))


@pytest.mark.parametrize("block", [128, 1 << 25])
@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("sorted_items", lambda items: np.copyto(items[1:2], items[:1])),  # an item twice
        ("sorted_items", lambda items: np.copyto(items[31:33], items[[32, 31]])),  # over the bound of two blocks
        ("items", lambda items: np.copyto(items[:1], -1)),
        ("times", lambda times: np.copyto(times[:1], 1 << 40)),
        ("times", lambda times: np.copyto(times[-1:], -1)),
        ("weights", lambda weights: np.copyto(weights[5:6], np.nan)),
        ("item_degree", lambda degree: np.copyto(degree[:1], 1 << 40)),
    ],
)
def test_rows_that_no_log_has_are_refused_although_the_digest_is_right(tmp_path, monkeypatch, block, name, change):
    monkeypatch.setattr(prepared_arrays, "BLOCK", block)
    users, items = np.repeat(np.arange(3), 40), np.tile(np.arange(40), 3)
    log = vr.Interactions.from_arrays(users, items, np.arange(120), weights=np.ones(120))
    vr.Prepared.write(tmp_path, log)
    assert len(vr.Prepared.open(tmp_path).part()) == 120
    rewrite(tmp_path, f"log.{name}", change)
    with pytest.raises(vr.StorageError, match="holds values that no log has; prepare the log again"):
        vr.Prepared.open(tmp_path).part()


def test_ids_of_a_prepared_log_are_distinct(tmp_path):
    vr.Prepared.write(tmp_path, vr.Interactions.from_arrays([1, 2, 3], [4, 5, 6]))
    rewrite(tmp_path, "items.ids", lambda ids: np.copyto(ids[:1], ids[1:2]))
    with pytest.raises(vr.StorageError, match=r"items\.ids\.npy: ids repeat; prepare the log again"):
        vr.Prepared.open(tmp_path).part()


def test_a_header_that_python_cannot_parse_is_an_error(copy):
    path = next(copy.glob("data-*/log.items.npy"))
    content = bytearray(path.read_bytes())
    content[20] = 0
    path.write_bytes(content)
    with pytest.raises(vr.StorageError, match="not an array"):
        vr.read(copy)


class FakeDigest:
    def hexdigest(self) -> str:
        return "fake"


def test_a_folder_that_is_no_prepared_log_says_so(tmp_path):
    with pytest.raises(vr.StorageError, match=r"holds no prepared\.json; run data prepare"):
        vr.Prepared.open(tmp_path)


def test_what_an_interrupted_preparation_left_is_no_log_and_is_cleared_away(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        interrupt(tmp_path)
    assert not list(tmp_path.iterdir())
    (tmp_path / "data-0123456789ab").mkdir()  # as after a kill
    with pytest.raises(vr.DataError, match="did not finish; run data prepare again"):
        vr.read(tmp_path)
    with pytest.raises(vr.StorageError, match="did not finish"):
        vr.Prepared.open(tmp_path)
    vr.Prepared.write(tmp_path, a_log())
    assert len(list(tmp_path.iterdir())) == 2
    assert_same(vr.read(tmp_path), a_log())


def interrupt(folder):
    with PreparedWriter(folder) as writer:
        writer.add_ids("users", np.arange(3))
        raise KeyboardInterrupt


def test_a_prepared_log_is_replaced_whole(tmp_path):
    vr.Prepared.write(tmp_path, a_log())
    before = vr.read(tmp_path)
    vr.Prepared.write(tmp_path, a_log(text=False))
    assert_same(vr.read(tmp_path), a_log(text=False))
    assert before.items.sum() == a_log().items.sum()  # who had opened it keeps what was there
    with pytest.raises(KeyboardInterrupt):
        interrupt(tmp_path)
    assert_same(vr.read(tmp_path), a_log(text=False))


def test_a_folder_of_other_things_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(vr.StorageError, match=r"holds other files \(notes\.txt\); give a new folder"):
        vr.Prepared.write(tmp_path, a_log())
    with pytest.raises(vr.StorageError, match="is a file"):
        vr.Prepared.write(tmp_path / "notes.txt", a_log())
    (tmp_path / "mine.json").write_text('{"format": 1}')
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "prepared.json").symlink_to(tmp_path / "mine.json")
    with pytest.raises(vr.StorageError, match="is a link"):
        vr.Prepared.write(tmp_path / "new", a_log())
    assert (tmp_path / "mine.json").read_text() == '{"format": 1}'


def test_options_of_reading_mean_nothing_for_a_prepared_log(folder):
    with pytest.raises(vr.SettingError, match="is a prepared log"):
        vr.read(folder, user="u")
    with pytest.raises(vr.SettingError, match="is a prepared log"):
        vr.read(folder, repeats="last")


def test_parts_that_are_no_split_are_refused(tmp_path):
    log = a_log()
    with pytest.raises(vr.SettingError, match="parts are test"):
        vr.Prepared.write(tmp_path, {"test": log})
    with pytest.raises(vr.DataError, match="other"):
        vr.Prepared.write(tmp_path, {"train": log, "test": a_log(text=False)})
    with pytest.raises(vr.DataError, match="no known negatives"):
        vr.Prepared.write(tmp_path, log.with_negatives(log))
    with pytest.raises(vr.SettingError, match="has no part 'valid'"):
        vr.Prepared.write(tmp_path, log).part("valid")
