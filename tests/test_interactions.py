"""The log: encoding, order, repeats, k-core, chronological split."""

from __future__ import annotations

import math
from collections import Counter
from datetime import datetime
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vitalrank as vr
from vitalrank import Interactions

Row = tuple[int, int, int]
rows_of_any_log = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 6), st.integers(0, 5)), min_size=1, max_size=60)


def build(rows: list[Row]) -> Interactions:
    users, items, times = zip(*rows, strict=True)
    return Interactions.from_arrays(users, items, times)


def rows_of(log: Interactions) -> list[Row]:
    assert log.times is not None
    return list(
        zip(log.user_ids[log.users].tolist(), log.item_ids[log.items].tolist(), log.times.tolist(), strict=True)
    )


def plain_order(rows: list[Row]) -> list[Row]:
    """Sorted by user and time, equal times in input order, the first of each pair."""
    seen: dict[tuple[int, int], Row] = {}
    for row in sorted(rows, key=lambda row: (row[0], row[2])):
        seen.setdefault(row[:2], row)
    return list(seen.values())


def plain_core(rows: list[Row], user: int, item: int) -> list[Row]:
    while True:
        users, items = Counter(row[0] for row in rows), Counter(row[1] for row in rows)
        kept = [row for row in rows if users[row[0]] >= user and items[row[1]] >= item]
        if len(kept) == len(rows):
            return kept
        rows = kept


@given(rows_of_any_log)
def test_rows_are_sorted_and_the_first_of_a_pair_is_kept(rows: list[Row]) -> None:
    log = build(rows)
    assert rows_of(log) == plain_order(rows)
    assert log.repeats == len(rows) - len(log)


@given(rows_of_any_log)
def test_float_and_far_apart_times_sort_like_small_ones(rows: list[Row]) -> None:
    users, items, times = zip(*rows, strict=True)
    expected = build(rows).items.tolist()
    assert Interactions.from_arrays(users, items, [time / 4 for time in times]).items.tolist() == expected
    assert Interactions.from_arrays(users, items, [time * 2**40 for time in times]).items.tolist() == expected


@given(rows_of_any_log, st.integers(0, 4), st.integers(0, 4))
def test_k_core_is_the_plain_definition(rows: list[Row], user: int, item: int) -> None:
    log = build(rows)
    expected = plain_core(rows_of(log), user, item)
    if not expected:
        with pytest.raises(vr.DataError, match="leaves nothing"):
            log.k_core(user=user, item=item)
        return
    core = log.k_core(user=user, item=item)
    assert rows_of(core) == expected
    assert core.user_degree.min() >= max(user, 1)
    assert core.item_degree.min() >= max(item, 1)
    assert core.user_ids.tolist() == sorted({row[0] for row in expected})
    assert core.item_ids.tolist() == sorted({row[1] for row in expected})


@given(rows_of_any_log, st.sampled_from(["0", "0.1", "0.2", "0.5", "0.9"]), st.sampled_from([None, "0", "0.1", "0.4"]))
def test_split_last_is_the_plain_definition(rows: list[Row], fraction: str, valid: str | None) -> None:
    log = build(rows)
    parts = log.split_last(float(fraction), valid=None if valid is None else float(valid))
    expected: list[list[Row]] = [[] for _ in parts]
    for user in log.user_ids.tolist():
        history = [row for row in rows_of(log) if row[0] == user]
        test = min(math.ceil(Fraction(fraction) * len(history)), len(history) - 1)
        rest = len(history) - test
        held = 0
        if valid is not None and Fraction(valid):
            held = min(max(math.floor(Fraction(valid) * rest), 1), rest - 1)
        expected[0] += history[: rest - held]
        expected[-1] += history[rest:]
        if valid is not None:
            expected[1] += history[rest - held : rest]
    assert [rows_of(part) for part in parts] == expected
    assert all(part.user_ids is log.user_ids and part.item_ids is log.item_ids for part in parts)
    assert parts[0].user_degree.min() >= 1


def test_a_share_that_floats_cannot_hold_still_cuts_where_meant() -> None:
    # 0.2 * 35 is 7.000000000000001 in floats.
    train, test = Interactions.from_arrays([1] * 35, range(35)).split_last(0.2)
    assert (len(train), len(test)) == (28, 7)


@pytest.mark.parametrize("fraction", [-0.1, 1.0, float("nan")])
def test_a_share_outside_its_range_is_refused(fraction: float) -> None:
    log = Interactions.from_arrays([1, 1], [1, 2])
    with pytest.raises(vr.SettingError, match="fraction"):
        log.split_last(fraction)
    with pytest.raises(vr.SettingError, match="valid"):
        log.split_last(0.2, valid=fraction)


def test_splitting_a_part_with_empty_users_names_one() -> None:
    _, test = Interactions.from_arrays(["ann", "bob", "bob"], [1, 1, 2]).split_last(0.5)
    with pytest.raises(vr.DataError, match=r"'ann' has no rows.*k_core"):
        test.split_last(0.5)
    assert test.k_core(user=1).user_ids.tolist() == ["bob"]


@pytest.mark.parametrize("least", [-1, 1.5, True])
def test_k_core_refuses_what_is_no_count(least: Any) -> None:
    with pytest.raises(vr.SettingError, match="whole number"):
        Interactions.from_arrays([1], [1]).k_core(user=least)


def test_without_times_the_input_order_holds() -> None:
    log = Interactions.from_arrays([2, 1, 2, 1], [30, 10, 20, 40])
    assert log.times is None
    assert log.item_ids[log.items].tolist() == [10, 40, 30, 20]


@pytest.mark.parametrize("kind", ["int8", "uint16", "int32", "uint64"])
def test_arrays_of_numbers_may_lie_in_any_way(kind: str) -> None:
    wide = np.arange(24, dtype=kind).reshape(8, 3)[::-1]
    plain = Interactions.from_arrays(wide[:, 0].tolist(), wide[:, 1].tolist(), wide[:, 2].tolist())
    assert Interactions.from_arrays(*wide.T).fingerprint == plain.fingerprint
    frozen = wide.copy()
    frozen.flags.writeable = False
    assert Interactions.from_arrays(*frozen.T).fingerprint == plain.fingerprint


def test_csr_is_sorted_and_leaves_the_time_order_alone() -> None:
    log = Interactions.from_arrays([1, 1, 2], [9, 3, 3], [1, 2, 1])
    assert log.csr.toarray().tolist() == [[1, 1], [1, 0]]
    assert log.csr.dtype == np.float32
    assert log.csr.has_sorted_indices
    assert log.items.tolist() == [1, 0, 0]
    assert log.items.dtype == np.int32


def test_the_callers_arrays_are_not_changed() -> None:
    users, items, times = np.array([2, 1, 2]), np.array([1, 2, 2]), np.array([3, 2, 1])
    Interactions.from_arrays(users, items, times)
    assert users.tolist() == [2, 1, 2]
    assert items.tolist() == [1, 2, 2]
    assert times.tolist() == [3, 2, 1]


@pytest.mark.parametrize(
    "ids",
    [
        [5, 3, 5],
        np.array([5, 3, 5], np.uint8),
        np.array([10**15, -4, 10**15]),
        ["b", "a", "b"],
        np.array(["b", "ä", "b"]),
        pd.Series(["b", "a", "b"], dtype="category"),
        pl.Series(["b", "a", "b"]).to_arrow(),
        ("007", "7", "007"),
    ],
)
def test_ids_of_either_kind_come_back_as_they_were(ids: Any) -> None:
    log = Interactions.from_arrays(ids, [1, 2, 3])
    assert log.user_ids.tolist() == sorted(set(list(ids) if not isinstance(ids, pa.Array) else ids.to_pylist()))
    assert log.user_ids.dtype in (np.int64, object)
    assert log.user_degree.sum() == 3


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([1, "1"], "mixed"),
        (np.array([1, "1"], object), "mixed"),
        ([1.5, 2.0], "type double"),
        ([True, False], "type bool"),
        ([1, None], "row 1 is missing"),
        (np.array([2**64 - 1, 1], np.uint64), "64 bits"),
        (np.zeros((2, 2), int), "dimension"),
        ([1, 2, 3], "3 users, 2 items"),
    ],
)
def test_ids_that_cannot_be_numbered_are_refused(ids: Any, message: str) -> None:
    with pytest.raises(vr.DataError, match=message):
        Interactions.from_arrays(ids, [1, 2])


@pytest.mark.parametrize("times", [[1, float("nan")], [1, -1], [1, float("inf")], ["soon", "late"], [1, None]])
def test_times_that_are_none_are_refused(times: list[Any]) -> None:
    with pytest.raises(vr.DataError, match="times"):
        Interactions.from_arrays([1, 2], [1, 2], times)


def test_dates_become_seconds() -> None:
    texts = ["1970-01-02 00:00:00", "1970-01-01 00:00:01"]
    for stamps in (texts, pd.to_datetime(texts), pd.Series(pd.to_datetime(texts, utc=True))):
        log = Interactions.from_arrays([1, 2], [1, 2], stamps)
        assert log.times is not None
        assert log.times.tolist() == [86_400, 1]
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        assert Interactions.from_arrays([1, 2], [1, 2], pa.array(texts, kind)).times.tolist() == [86_400, 1]  # type: ignore[union-attr]
    fine = np.array(["1970-01-01T00:00:00.5"], "datetime64[ms]")
    assert Interactions.from_arrays([1], [1], fine).times.tolist() == [0.5]  # type: ignore[union-attr]


def test_an_empty_log_is_refused() -> None:
    with pytest.raises(vr.DataError, match="no rows"):
        Interactions.from_arrays([], [])


FRAME = {"user_id": [2, 1, 2], "item_id": ["a", "b", "c"], "rating": [5.0, 1.0, 2.0], "timestamp": [3, 2, 1]}


class Relation:
    """Names of columns and a stream of rows, as a query of a data base gives; a column of it is one more query."""

    def __init__(self, data: Any) -> None:
        self._table = pa.table(data)
        self.columns = self._table.column_names

    def __getitem__(self, name: str) -> Relation:
        return Relation(self._table.select([name]))

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


MAKES = [pd.DataFrame, pl.DataFrame, pl.LazyFrame, pa.table, dict, lambda data: pa.table(data).to_reader(), Relation]


@pytest.mark.parametrize("make", MAKES)
def test_frames_of_any_make(make: Any) -> None:
    log = Interactions.from_frame(make(FRAME))
    assert log.user_ids.tolist() == [1, 2]
    assert log.item_ids[log.items].tolist() == ["b", "c", "a"]
    named = Interactions.from_frame(make(FRAME), user="user_id", item="item_id", time=False)
    assert named.times is None


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_dates_in_a_frame_may_be_text(make: Any) -> None:
    log = Interactions.from_frame(make({"user": ["a", "b"], "item": [1, 2], "time": ["1970-01-02", "1970-01-03"]}))
    assert log.times is not None
    assert log.times.tolist() == [86_400, 172_800]


@pytest.mark.parametrize("make", [pd.DataFrame, dict])
def test_columns_may_be_called_by_numbers(make: Any) -> None:
    frame = make({0: ["a", "b"], 1: [7, 8], 2: [2, 1]})
    for name in (str, int):
        log = Interactions.from_frame(frame, user=name(0), item=name(1), time=name(2))
        assert log.item_ids[log.items].tolist() == [7, 8]
        assert log.times is not None


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table, dict, lambda data: pa.table(data).to_reader()])
@pytest.mark.parametrize("name", ["visit_day", "moment"])
def test_a_frame_with_a_time_under_another_name_is_asked_about(make: Any, name: str) -> None:
    data = {"user": [1, 1], "item": [2, 3], "rating": [1.5, 2.0], name: [datetime(2021, 3, 2), datetime(2021, 3, 1)]}
    with pytest.raises(vr.DataError, match=f"'{name}' may be the time; say time='{name}' or time=False"):
        Interactions.from_frame(make(data))
    assert Interactions.from_frame(make(data), time=name).items.tolist() == [1, 0]


def test_columns_of_a_frame_may_be_numbered_and_have_gaps() -> None:
    frame = pd.DataFrame({"user": [1, 2], "item": [1, 2], 0: pd.array([None, 3], "Int64")})
    assert len(Interactions.from_frame(frame)) == 2
    with pytest.raises(vr.DataError, match="row 0 is missing"):
        Interactions.from_frame(frame, user="0")


def test_frame_columns_are_found_or_asked_for() -> None:
    with pytest.raises(vr.DataError, match=r"no column 'who'; it has user_id, item_id"):
        Interactions.from_frame(FRAME, user="who")
    with pytest.raises(vr.DataError, match="user_id and uid could each be"):
        Interactions.from_frame({**FRAME, "uid": [1, 2, 3]})
    with pytest.raises(vr.DataError, match="no known item column"):
        Interactions.from_frame({"user": [1], "thing": [2]})
    with pytest.raises(vr.DataError, match="two roles"):
        Interactions.from_frame(FRAME, user="item_id")
    doubled = pd.DataFrame([[1, 2, 3]], columns=["user", "item", "item"])
    with pytest.raises(vr.DataError, match="'item' occurs 2 times"):
        Interactions.from_frame(doubled)
    with pytest.raises(vr.DataError, match="Cannot read a int"):
        Interactions.from_frame(3)


def test_mixed_types_in_a_frame_are_refused() -> None:
    with pytest.raises(vr.DataError, match="mixed"):
        Interactions.from_frame(pd.DataFrame({"user": [1, "1"], "item": [1, 2]}))


def test_original_ids_find_their_numbers() -> None:
    log = Interactions.from_arrays(["b", "a", "c"], [30, 10, 20])
    assert log.user_index(["c", "a"]).tolist() == [2, 0]
    assert log.item_index(np.array([30, 10])).tolist() == [2, 0]
    assert log.item_index(20).tolist() == [1]


@pytest.mark.parametrize("wanted", [["z"], [1], ["A"], [None]])
def test_unknown_users_are_named(wanted: list[Any]) -> None:
    log = Interactions.from_arrays(["b", "a"], [30, 10])
    with pytest.raises(vr.UnknownIdError, match=f"No user {wanted[0]!r}"):
        log.user_index(wanted)


@pytest.mark.parametrize("wanted", [11, "10", 2**70, True, 10.0])
def test_unknown_items_are_named(wanted: Any) -> None:
    log = Interactions.from_arrays(["b", "a"], [30, 10])
    with pytest.raises(vr.UnknownIdError, match=f"No item {wanted!r}"):
        log.item_index([wanted])


def test_the_fingerprint_follows_content_and_nothing_else() -> None:
    rows: list[Row] = [(1, 1, 1), (1, 2, 2), (2, 1, 3)]
    same = build(rows[::-1])
    assert build(rows).fingerprint == same.fingerprint
    others = [
        build([*rows, (2, 2, 4)]),
        build([(1, 1, 1), (1, 2, 2), (3, 1, 3)]),
        build([(1, 1, 1), (1, 2, 2), (2, 1, 4)]),
        Interactions.from_arrays(["1", "1", "2"], [1, 2, 1], [1, 2, 3]),
        Interactions.from_arrays([1, 1, 2], [1, 2, 1]),
    ]
    prints = {log.fingerprint for log in [same, *others]}
    assert len(prints) == len(others) + 1


def test_statistics_of_a_small_log() -> None:
    shape = Interactions.from_arrays([1, 1, 1, 2, 2, 1], [1, 2, 3, 1, 1, 1]).statistics
    assert (shape.users, shape.items, shape.observations, shape.repeats) == (2, 3, 4, 2)
    assert shape.sparsity == pytest.approx(1 - 4 / 6)
    assert shape.user_degree[0.0] == 1
    assert shape.item_degree[1.0] == 2
    assert shape.item_gini == pytest.approx(1 / 6)  # degrees 1, 1, 2


def test_a_log_shows_itself() -> None:
    log = Interactions.from_arrays(["<b>"], [1])
    assert repr(log) == "Interactions(1 user, 1 item, 1 row)"
    assert "Gini" in log._repr_html_()
    assert "1 repeats" in repr(Interactions.from_arrays([1, 1], [1, 1]))
