"""Splits by each user's last rows, by time, at random, rolling folds, and a test log of one's own."""

from __future__ import annotations

import logging
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vitalrank as vr

Row = tuple[int, int, int]
rows = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 9), st.integers(0, 20)), min_size=2, max_size=60)


def log_of(rows: list[Row], weighted: bool = False) -> vr.Interactions:
    users, items, times = zip(*rows, strict=True)
    return vr.Interactions.from_arrays(users, items, times, [1 + t for t in times] if weighted else None)


def triples(log: vr.Interactions) -> set[Row]:
    assert log.times is not None
    return set(zip(log.user_ids[log.users].tolist(), log.item_ids[log.items].tolist(), log.times.tolist(), strict=True))


@settings(deadline=None)
@given(rows, st.integers(1, 4), st.none() | st.integers(0, 3))
def test_a_count_is_held_out_of_every_user_who_has_more(rows: list[Row], count: int, valid: int | None) -> None:
    log = log_of(rows)
    train, *others = log.split_last(count=count, valid=valid)
    assert (train.user_degree >= 1).all()
    assert others[-1].user_degree.tolist() == np.minimum(count, log.user_degree - 1).tolist()
    assert sum(map(len, (train, *others))) == len(log)
    for later in others:
        assert all(
            train.times[train.indptr[u + 1] - 1] <= later.times[later.indptr[u]]
            for u in np.flatnonzero(later.user_degree)
        )


@settings(deadline=None)
@given(rows, st.integers(0, 20), st.sampled_from(["keep", "drop"]))
def test_nothing_from_the_cutoff_on_is_trained_on(rows: list[Row], cutoff: int, unseen: str) -> None:
    log = log_of(rows, weighted=True)
    if not log.times.min() < cutoff <= log.times.max():
        with pytest.raises(vr.DataError, match=f"cutoff='{cutoff}' lies"):
            log.split_time(cutoff)
        return
    train, test = log.split_time(cutoff, unseen=unseen)
    assert triples(train) == {row for row in triples(log) if row[2] < cutoff}
    after = {row for row in triples(log) if row[2] >= cutoff}
    users, items = {row[0] for row in triples(train)}, {row[1] for row in triples(train)}
    strange = {row for row in after if row[0] not in users or row[1] not in items}
    assert triples(test) == (after if unseen == "keep" else after - strange)
    for part in (train, test):
        assert part.weights.tolist() == (part.times + 1).tolist()
    if unseen == "keep":
        found = train.unseen_in(test)
        assert found == (len({r[0] for r in after} - users), len({r[1] for r in after} - items), len(strange))


@settings(deadline=None)
@given(rows, st.sampled_from([0.1, 0.25, 0.5]), st.none() | st.sampled_from([0.0, 0.2]))
def test_a_share_of_the_latest_rows_is_held_out(rows: list[Row], share: float, valid: float | None) -> None:
    log = log_of(rows)
    try:
        train, *others = log.split_time(share=share, valid=valid)
    except vr.DataError as error:
        assert "first time of the log" in str(error)  # noqa: PT017
        return
    assert len(others[-1]) >= np.ceil(len(log) * share - 1e-9)
    assert sum(map(len, (train, *others))) == len(log)
    parts = [part for part in (train, *others) if len(part)]
    assert all(a.times.max() < b.times.min() for a, b in pairwise(parts))


@settings(deadline=None)
@given(rows, st.integers(0, 2**64 - 1))
def test_a_random_split_is_as_large_as_the_last_and_the_same_for_a_seed(rows: list[Row], seed: int) -> None:
    log = log_of(rows)
    parts, last = log.split_random(0.3, valid=0.2, seed=seed), log.split_last(0.3, valid=0.2)
    assert [part.user_degree.tolist() for part in parts] == [part.user_degree.tolist() for part in last]
    assert set.union(*map(triples, parts)) == triples(log)
    again = log.split_random(0.3, valid=0.2, seed=seed)
    assert [part.fingerprint for part in parts] == [part.fingerprint for part in again]


def test_seeds_of_a_random_split_differ() -> None:
    log = vr.Interactions.from_arrays([1] * 100, range(100))
    first, second = (log.split_random(0.5, seed=seed)[0] for seed in (0, 1))
    assert first.fingerprint != second.fingerprint
    held = np.mean([np.mean(log.split_random(0.5, seed=seed)[1].items) for seed in range(30)])
    assert 45 < held < 54  # of 0 to 99: early rows are drawn as often as late ones


def test_folds_roll_forward() -> None:
    log = vr.Interactions.from_arrays([1, 2] * 10, range(20), times=range(20))
    sizes = [(len(train), len(test)) for train, test in log.rolling_folds(5, share=0.5)]
    assert sizes == [(10, 2), (12, 2), (14, 2), (16, 2), (18, 2)]
    for train, test in log.rolling_folds(cutoffs=[5, 10]):
        assert train.times.max() < test.times.min()
    assert len(test) == 10


def test_dates_cut_logs_of_any_unit() -> None:
    for unit in (1, 1000):
        times = np.array([1_704_067_200, 1_706_745_600]) * unit  # the first of January and of February 2024
        train, test = vr.Interactions.from_arrays([1, 1], [5, 6], times).split_time("2024-01-15")
        assert train.items.tolist() == [0]
        assert test.items.tolist() == [1]


def test_known_negatives_of_the_future_are_not_trained_on() -> None:
    log = vr.Interactions.from_arrays([1, 1, 1], [5, 6, 7], [1, 2, 3])
    log = log.with_negatives(vr.Interactions.from_arrays([1, 1], [6, 7], [1, 2]))
    assert log.negatives.nnz == 0  # both are positives as well
    train, _ = log.split_time(2)
    assert train.negatives.toarray().tolist() == [[0, 1, 0]]


@pytest.mark.parametrize(
    ("split", "message"),
    [
        (lambda log: log.split_time(1), "not after the first row"),
        (lambda log: log.split_time(31), "after the last row"),
        (lambda log: log.split_time("soon"), "give a number or an ISO date"),
        (lambda log: log.split_time("2024-01-01"), "no unix times"),
        (lambda log: log.split_time(), "either cutoff= or share="),
        (lambda log: log.split_time(3, share=0.2), "either cutoff= or share="),
        (lambda log: log.split_time(share=0.99), "nothing is left before it"),
        (lambda log: log.split_time(share=1.0), "from 0 to below 1"),
        (lambda log: log.split_time(2, unseen="hide"), "unseen"),
        (lambda log: log.split_last(), "either a fraction or count="),
        (lambda log: log.split_last(count=0), "count"),
        (lambda log: log.split_last(count=1, valid=0.5), "number of rows"),
        (lambda log: log.split_random(0.2, seed=-1), "seed"),
        (lambda log: list(log.rolling_folds(9)), "Two folds"),
        (lambda log: list(log.rolling_folds(0)), "folds"),
        (lambda log: list(log.rolling_folds(cutoffs=[20, 10])), "Two folds"),
        (lambda log: log.decayed("3 moons"), "30d"),
        (lambda log: log.decayed("3d"), "no unix times"),
        (lambda log: log.decayed(10, now=3), "before the last row"),
    ],
)
def test_what_cannot_be_split_is_refused_in_one_sentence(split: Any, message: str) -> None:
    log = vr.Interactions.from_arrays([1, 1, 1, 1], [5, 6, 7, 8], [1, 10, 20, 30])
    with pytest.raises((vr.DataError, vr.SettingError), match=message) as caught:
        split(log)
    assert "\n" not in str(caught.value)


def test_a_log_without_times_has_no_split_by_time() -> None:
    log = vr.Interactions.from_arrays([1, 1], [5, 6])
    with pytest.raises(vr.DataError, match="needs times and this log has none"):
        log.split_time(share=0.5)
    with pytest.raises(vr.DataError, match="needs times and this log has none"):
        log.decayed("3d")


def test_a_test_log_of_ones_own_takes_the_ids_of_the_training_log(caplog: pytest.LogCaptureFixture) -> None:
    train = vr.Interactions.from_arrays(["b", "a", "b"], [7, 7, 8])
    with caplog.at_level(logging.INFO, "vitalrank"):
        test = vr.split_like(train, vr.Interactions.from_arrays(["c", "a", "b"], [7, 8, 9], weights=[1, 2, 3]))
    assert test.user_ids is train.user_ids
    assert (test.users.tolist(), test.items.tolist(), test.weights.tolist()) == ([0], [1], [2.0])
    assert "2 rows left out, of 1 users and 1 items" in caplog.text
    model = vr.MostPopular().fit(train)
    assert vr.evaluate(model, test)["recall@5"] == 1.0


def test_a_test_log_of_other_ids_is_refused() -> None:
    train = vr.Interactions.from_arrays(["1", "2"], [7, 8])
    with pytest.raises(vr.DataError, match="user ids of test_log are integers, and those of the log are strings"):
        vr.split_like(train, vr.Interactions.from_arrays([1, 2], [7, 8]))
    with pytest.raises(vr.DataError, match="shares no row"):
        vr.split_like(train, vr.Interactions.from_arrays(["3"], [7]))
    with pytest.raises(vr.DataError, match="of type str"):
        vr.split_like(train, "test.tsv")  # type: ignore[arg-type]
