"""Each metric against ten lines of plain Python, and against cases worked by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitalrank.metrics import ADDITIVE, METRICS, coverage


def plain_precision(hits, relevant):
    return sum(hits) / len(hits)


def plain_recall(hits, relevant):
    return sum(hits) / relevant


def plain_f1(hits, relevant):
    p, r = plain_precision(hits, relevant), plain_recall(hits, relevant)
    return 0.0 if p + r == 0 else 2 * p * r / (p + r)


def plain_ndcg(hits, relevant):
    gain = sum(1 / math.log2(place + 1) for place, hit in enumerate(hits, 1) if hit)
    ideal = sum(1 / math.log2(place + 1) for place in range(1, min(len(hits), relevant) + 1))
    return gain / ideal


def plain_hit_rate(hits, relevant):
    return 1.0 if True in hits else 0.0


def plain_map(hits, relevant):
    total = sum(sum(hits[:place]) / place for place, hit in enumerate(hits, 1) if hit)
    return total / min(len(hits), relevant)


def plain_mrr(hits, relevant):
    return next((1 / place for place, hit in enumerate(hits, 1) if hit), 0.0)


PLAIN = {
    "precision": plain_precision,
    "recall": plain_recall,
    "f1": plain_f1,
    "ndcg": plain_ndcg,
    "hit_rate": plain_hit_rate,
    "map": plain_map,
    "mrr": plain_mrr,
}


@st.composite
def hit_lists(draw):
    """Hits of some users and their numbers of relevant items, at least as many as hits."""
    length = draw(st.integers(1, 12))
    hits = draw(st.lists(st.lists(st.booleans(), min_size=length, max_size=length), min_size=1, max_size=6))
    relevant = [max(1, sum(row)) + draw(st.integers(0, 20)) for row in hits]
    return hits, relevant


def test_every_metric_has_a_plain_reference():
    assert set(PLAIN) == set(METRICS)


@pytest.mark.parametrize("name", METRICS)
@given(case=hit_lists())
def test_metric_equals_its_plain_reference(name, case):
    hits, relevant = case
    expected = [PLAIN[name](row, count) for row, count in zip(hits, relevant, strict=True)]
    np.testing.assert_allclose(METRICS[name](hits, relevant), expected, rtol=1e-12)


@pytest.mark.parametrize("name", METRICS)
@given(case=hit_lists())
def test_metric_stays_between_zero_and_one(name, case):
    values = METRICS[name](*case)
    assert (values >= 0).all()
    assert (values <= 1 + 1e-12).all()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # Places 2 and 4 of five hit; the user has three test items.
        ("precision", 2 / 5),
        ("recall", 2 / 3),
        ("f1", 1 / 2),
        ("ndcg", (1 / math.log2(3) + 1 / math.log2(5)) / (1 + 1 / math.log2(3) + 1 / 2)),
        ("hit_rate", 1.0),
        ("map", (1 / 2 + 2 / 4) / 3),
        ("mrr", 1 / 2),
    ],
)
def test_case_worked_by_hand(name, expected):
    hits = [[False, True, False, True, False]]
    assert METRICS[name](hits, [3])[0] == pytest.approx(expected)


@pytest.mark.parametrize("name", ["ndcg", "map", "mrr", "hit_rate", "precision"])
def test_full_list_is_perfect_even_with_more_relevant_items(name):
    assert METRICS[name]([[True, True]], [7])[0] == pytest.approx(1.0)


def test_precision_divides_by_the_length_of_the_list():
    assert METRICS["precision"]([[True] + [False] * 9], [1])[0] == pytest.approx(0.1)


@given(case=hit_lists())
def test_additive_metrics_split_into_parts(case):
    hits, relevant = np.array(case[0]), case[1]
    left = hits & (np.arange(hits.shape[1]) % 2 == 0)
    for name in ADDITIVE:
        metric = METRICS[name]
        np.testing.assert_allclose(metric(left, relevant) + metric(hits & ~left, relevant), metric(hits, relevant))


def test_coverage_counts_each_item_once_and_no_empty_places():
    assert coverage([[3, 1, 3], [1, -1, -1]], n_items=8) == pytest.approx(2 / 8)
