"""Occurrences of a batch grouped by row, and the groups cut into shards of about the same work."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from vitalrank.kernels.cpu.training.coalescing import coalesce, new_coalesced, shard_bounds

TABLE = 40
row_ids = st.lists(st.integers(-1, TABLE - 1), max_size=80)


def coalesced_of(row_of):
    coalesced = new_coalesced(TABLE, max(len(row_of), 1))
    coalesced.row_of[: len(row_of)] = row_of
    return coalesced, coalesce(coalesced, len(row_of))


@settings(deadline=None)  # the first call compiles
@given(row_ids)
def test_each_row_has_its_occurrences_in_order(row_of):
    coalesced, found = coalesced_of(row_of)
    rows = coalesced.rows[:found].tolist()
    assert rows == list(dict.fromkeys(row for row in row_of if row >= 0))
    for number, row in enumerate(rows):
        occurrences = coalesced.order[coalesced.starts[number] : coalesced.starts[number + 1]].tolist()
        assert occurrences == [occurrence for occurrence, other in enumerate(row_of) if other == row]
    assert (coalesced.slot == -1).all()


def test_occurrences_go_by_their_labels_where_there_are_any():
    coalesced = new_coalesced(TABLE, 4, labelled=True)
    coalesced.row_of[:], coalesced.labels[:] = [7, 3, -1, 7], [60, 50, 40, 10]
    assert coalesce(coalesced, 4) == 2
    assert coalesced.order[:3].tolist() == [60, 10, 50]  # in the order of the occurrences, not of the labels


@njit
def all_bounds(starts, found, shards):
    return [shard_bounds(starts, found, shard, shards) for shard in range(shards)]


@settings(deadline=None)  # the first call compiles
@given(row_ids, st.integers(1, 4))
def test_shards_hold_every_group_once_and_about_the_same_work(row_of, shards):
    coalesced, found = coalesced_of(row_of)
    cuts = all_bounds(coalesced.starts, found, shards)
    assert [group for begin, end in cuts for group in range(begin, end)] == list(range(found))
    cost = 1 + np.diff(coalesced.starts[: found + 1])
    most = cost.max(initial=1)
    for begin, end in cuts:
        assert abs(cost[begin:end].sum() - cost.sum() / shards) <= most + 1
