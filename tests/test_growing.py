"""A log that grows: internal ids stay, new ones come after, and everything works with ids that are not sorted."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vitalrank as vr

Row = tuple[str, int, int]
rows = st.lists(st.tuples(st.sampled_from("zyxwabc"), st.integers(0, 9), st.integers(0, 20)), min_size=1, max_size=30)


def log_of(rows: list[Row]) -> vr.Interactions:
    return vr.Interactions.from_arrays(*map(list, zip(*rows, strict=True)))


def content(log: vr.Interactions) -> set[Row]:
    return set(zip(log.user_ids[log.users].tolist(), log.item_ids[log.items].tolist(), log.times.tolist(), strict=True))


@settings(deadline=None)
@given(rows, rows, st.sampled_from(["first", "last"]))
def test_extending_is_reading_all_at_once_under_other_numbers(old: list[Row], new: list[Row], repeats: str) -> None:
    first, more = log_of(old), log_of(new)
    log = first.extend(more, repeats=repeats)
    assert log.user_ids[: first.n_users].tolist() == first.user_ids.tolist()
    assert log.item_ids[: first.n_items].tolist() == first.item_ids.tolist()
    parts = [[*zip(one.user_ids[one.users], one.item_ids[one.items], one.times, strict=True)] for one in (first, more)]
    users, items, times = zip(*parts[0], *parts[1], strict=True)
    whole = vr.Interactions.from_arrays(users, items, times, repeats=repeats)
    assert content(log) == content(whole)
    new_users = log.user_ids[first.n_users :].tolist()
    began = {user: min(row[2] for row in new if row[0] == user) for user in new_users}
    assert new_users == sorted(new_users, key=lambda user: (began[user], user))
    for u in range(log.n_users):
        assert (np.diff(log.times[log.indptr[u] : log.indptr[u + 1]]) >= 0).all()
    assert log.user_index(log.user_ids).tolist() == list(range(log.n_users))
    assert log.item_index(log.item_ids).tolist() == list(range(log.n_items))


def test_unknown_ids_of_an_extended_log_are_named() -> None:
    log = vr.Interactions.from_arrays(["m"], [5]).extend(vr.Interactions.from_arrays(["a"], [3]))
    assert log.user_ids.tolist() == ["m", "a"]
    with pytest.raises(vr.UnknownIdError, match="No user 'k'"):
        log.user_index(["a", "k"])


def test_what_is_new_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    log = vr.Interactions.from_arrays([1, 2], [7, 8])
    with caplog.at_level(logging.INFO, "vitalrank"):
        log.extend(vr.Interactions.from_arrays([0, 2, 2], [8, 9, 8]))
    assert "2 rows, 1 users and 1 items are new" in caplog.text


def test_several_days_make_one_log() -> None:
    days = [vr.Interactions.from_arrays([u, 5], [u, 9], [u, u]) for u in (4, 3, 2)]
    log = vr.Interactions.concat(days)
    assert log.user_ids.tolist() == [4, 5, 3, 2]
    assert log.fingerprint == days[0].extend(days[1]).extend(days[2]).fingerprint
    assert log.repeats == 2


def test_weights_add_up(caplog: pytest.LogCaptureFixture) -> None:
    day = vr.Interactions.from_arrays([1, 1, 2], [7, 7, 8], repeats="count")
    assert day.extend(day, repeats="sum").weights.tolist() == [4, 2]
    assert not caplog.messages
    assert day.extend(vr.Interactions.from_arrays([1], [7]), repeats="sum").weights.tolist() == [3, 1]
    assert caplog.messages == ["the log has weights and the new log has none, whose rows count 1 each"]


def test_known_negatives_grow_along() -> None:
    one = vr.Interactions.from_arrays([2, 2], [7, 8]).with_negatives(vr.Interactions.from_arrays([2], [8]))
    two = vr.Interactions.from_arrays([1, 2], [6, 9]).with_negatives(vr.Interactions.from_arrays([2], [6]))
    log = one.extend(two)
    assert log.negative_log is not None
    assert log.item_ids[log.negative_log.items].tolist() == [8, 6]
    assert log.negatives.indices.tolist() == [log.item_index([6])[0]]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (([1], [2]), (["a"], [2]), "user ids of the new log are strings, and those of the log are integers"),
        ((["a"], ["b"]), (["a"], [2]), "item ids of the new log are integers"),
        (([1], [2], [3]), ([1], [2]), "The log has times and the new log has none"),
        (([1], [2]), ([1], [2], [3]), "The new log has times and the log has none"),
        (([1], [2], [1_600_000_000]), ([1], [3], [1_600_000_100_000]), "unix times in different units"),
    ],
)
def test_a_day_of_another_kind_is_refused(old: tuple[list, ...], new: tuple[list, ...], message: str) -> None:
    with pytest.raises(vr.DataError, match=message):
        vr.Interactions.from_arrays(*old).extend(vr.Interactions.from_arrays(*new))


def test_what_is_no_log_cannot_be_added() -> None:
    with pytest.raises(vr.DataError, match="extend takes a log, not a list"):
        vr.Interactions.from_arrays([1], [2]).extend([1])  # type: ignore[arg-type]
    with pytest.raises(vr.DataError, match="concat takes a list of at least one log"):
        vr.Interactions.concat(vr.Interactions.from_arrays([1], [2]))  # type: ignore[arg-type]


def test_counts_cannot_be_counted_again() -> None:
    log = vr.Interactions.from_arrays([1], [2])
    with pytest.raises(vr.SettingError, match="repeats 'count'"):
        log.extend(log, repeats="count")
    with pytest.raises(vr.DataError, match="at least one log"):
        vr.Interactions.concat([])


def test_an_extended_log_can_be_filtered_trained_on_saved_and_read_again(tmp_path: Path) -> None:
    first = vr.datasets.synthetic(users=40, items=30, interactions=400, seed=0)
    ids = [f"{9 - number % 10}{number}" for number in range(40)]
    some = vr.Interactions.from_arrays([ids[u] for u in first.users], first.items, range(len(first)))
    more = vr.Interactions.from_arrays(["0 new"] * 5, range(5), range(1000, 1005))
    log = some.extend(more)
    assert log.user_ids[-1] == "0 new"
    core = log.k_core(user=3, item=3)
    assert core.user_ids[-1] == "0 new"
    train, test = core.split_last(0.2)
    model = vr.MF(dim=4).fit(train, epochs=1, seed=0, progress=False)
    before = model.recommend(["0 new", ids[3]], n=3)[0]
    model.save(tmp_path / "a")
    again = vr.load(tmp_path / "a")
    assert again.train.fingerprint == train.fingerprint
    assert again.recommend(["0 new", ids[3]], n=3)[0].tolist() == before.tolist()
    assert vr.evaluate(again, test) == vr.evaluate(model, test)
    vr.datasets.write_log(log, tmp_path / "log.parquet")
    read = vr.read(tmp_path / "log.parquet")
    assert content(read) == content(log)
    assert read.user_ids.tolist() == sorted(log.user_ids)
