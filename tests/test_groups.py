"""Places of a batch grouped by row, and the groups cut into parts of about the same work."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from vitalrank.kernels.cpu.training.coalescing import group_places, new_groups, share_of

TABLE = 40
touches = st.lists(st.integers(-1, TABLE - 1), max_size=80)


def grouped(touched):
    groups = new_groups(TABLE, max(len(touched), 1))
    groups.touched[: len(touched)] = touched
    return groups, group_places(groups, len(touched))


@settings(deadline=None)  # the first call compiles
@given(touches)
def test_each_row_has_its_places_in_order(touched):
    groups, found = grouped(touched)
    rows = groups.rows[:found].tolist()
    assert rows == list(dict.fromkeys(row for row in touched if row >= 0))
    for number, row in enumerate(rows):
        places = groups.order[groups.starts[number] : groups.starts[number + 1]].tolist()
        assert places == [place for place, other in enumerate(touched) if other == row]
    assert (groups.slot == -1).all()


@njit
def shares(starts, found, parts):
    return [share_of(starts, found, part, parts) for part in range(parts)]


@settings(deadline=None)  # the first call compiles
@given(touches, st.integers(1, 4))
def test_parts_hold_every_group_once_and_about_the_same_work(touched, parts):
    groups, found = grouped(touched)
    cuts = shares(groups.starts, found, parts)
    assert [group for begin, end in cuts for group in range(begin, end)] == list(range(found))
    cost = 1 + np.diff(groups.starts[: found + 1])
    most = cost.max(initial=1)
    for begin, end in cuts:
        assert abs(cost[begin:end].sum() - cost.sum() / parts) <= most + 1
