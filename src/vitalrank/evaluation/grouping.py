"""Breakdowns of an evaluation by the degree of users and by the popularity of items."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.checks import parse_metric
from vitalrank.evaluation.results import Evaluation, Groups, Lists, PerUser, mean_of
from vitalrank.interactions import Interactions
from vitalrank.metrics import ADDITIVE, TOGETHER

DEGREE_BANDS = {"<10": 0, "10-20": 10, "20-50": 20, "50-100": 50, ">=100": 100}  # name -> lowest degree
POPULARITY_BANDS = ("head", "middle", "tail")


def _by_degree(result: Evaluation, train: Interactions) -> Groups:
    degree = np.diff(train.indptr)[result.users]  # (U,)
    band = np.searchsorted(list(DEGREE_BANDS.values()), degree, side="right") - 1
    names = [name for name in result if parse_metric(name)[0] not in TOGETHER]
    groups: Groups = {}
    for number, label in enumerate(DEGREE_BANDS):
        rows = np.flatnonzero(band == number)
        if len(rows):
            groups[label] = {
                "users": float(len(rows)),
                **{name: mean_of(result.per_user, name, rows) for name in names},
            }
    return groups


def popularity_band(train: Interactions) -> NDArray[np.int8]:
    """0 (head), 1 (middle) or 2 (tail) of each item, as ``evaluate(by="popularity")`` says."""  # (I,)
    order = np.argsort(-train.item_degree, kind="stable")
    degree = train.item_degree[order]
    before = np.cumsum(degree) - degree  # interactions of the items before each
    band = np.empty(train.n_items, np.int8)
    band[order] = np.minimum(3 * before // max(1, len(train)), 2)
    return band


def _by_popularity(result: Evaluation, train: Interactions) -> Groups:
    lists = result.lists
    band = popularity_band(train)
    names = [name for name in result if parse_metric(name)[0] in ADDITIVE]
    groups: Groups = {}
    for number, label in enumerate(POPULARITY_BANDS):
        hits = np.zeros_like(lists.hits)
        hits[lists.hits] = band[lists.items] == number  # the items hit are kept row by row
        part = PerUser(Lists(lists.users, lists.relevant, hits, lists.items, lists.coverage))
        values = {name: float(part[name].mean()) for name in names}
        groups[label] = {"items": float(np.count_nonzero(band == number)), **values}
    return groups


GROUPINGS = {"degree": _by_degree, "popularity": _by_popularity}
