"""The metrics beyond accuracy, each against a few lines of plain Python, alone and as ``evaluate`` gives them."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

import vitalrank as vr
from commands import complaint, told
from vitalrank import metrics
from vitalrank.errors import SettingError
from vitalrank.evaluation import popularity_band
from vitalrank.ranking.top_n import top_items

RNG = np.random.default_rng(0)
LOG = vr.datasets.synthetic(users=80, items=60, interactions=1500, seed=0)
TRAIN, VALID, TEST = LOG.split_last(0.2, valid=0.1)
OWNERS = [set(TRAIN.users[TRAIN.items == item].tolist()) for item in range(TRAIN.n_items)]


def random_lists(count, length):
    """Distinct ids, some lists cut short."""
    lists = np.array([RNG.permutation(TRAIN.n_items)[:length] for _ in range(count)])
    for row in range(0, count, 3):
        lists[row, RNG.integers(0, length) :] = -1
    return lists


def plain_novelty(items):
    return sum(-math.log2(max(len(OWNERS[i]), 1) / TRAIN.n_users) for i in items) / max(len(items), 1)


def plain_diversity(items):
    def distance(i, j):
        return 1 - len(OWNERS[i] & OWNERS[j]) / math.sqrt(max(len(OWNERS[i]) * len(OWNERS[j]), 1))

    pairs = list(combinations(items, 2))
    return sum(distance(i, j) for i, j in pairs) / len(pairs) if pairs else 0.0


def plain_calibration(items, history, labels, alpha=0.01):
    def shares(ids):
        found = [label for i in ids for label in [labels[i]] if label != ""]
        return {label: found.count(label) / len(found) for label in found}

    p, q = shares(history), shares(items)
    return sum(share * math.log(share / ((1 - alpha) * q.get(g, 0) + alpha * share)) for g, share in p.items())


def plain_gini(lists, n_items):
    counts = sorted(sum(row.count(i) for row in lists) for i in range(n_items))
    total = sum((2 * k - n_items - 1) * count for k, count in enumerate(counts, 1))
    return total / (n_items * sum(counts))


def without_empty(lists):
    return [[i for i in row if i >= 0] for row in lists.tolist()]


@pytest.mark.parametrize("length", [1, 2, 10])
def test_novelty_and_diversity_equal_their_plain_reference(length, monkeypatch):
    monkeypatch.setattr(metrics.beyond, "_CELLS", 5 * TRAIN.n_users)  # several blocks
    lists = random_lists(40, length)
    expected = [plain_novelty(row) for row in without_empty(lists)]
    np.testing.assert_allclose(metrics.novelty(lists, TRAIN.item_degree, TRAIN.n_users), expected)
    expected = [plain_diversity(row) for row in without_empty(lists)]
    np.testing.assert_allclose(metrics.diversity(lists, TRAIN.csr), expected, atol=1e-12)


def test_an_item_that_nobody_has_is_far_from_all_others():
    seen = np.array([[1, 1, 0], [1, 1, 0]])
    assert metrics.diversity([[0, 2], [0, 1]], seen) == pytest.approx([1.0, 0.0])
    assert metrics.novelty([[2]], [2, 2, 0], 2) == pytest.approx([1.0])


def test_calibration_equals_its_plain_reference():
    labels = ["tea", "mugs", "", "bags"] * 15
    found = evaluate(["calibration"], categories=labels)
    for row, (user, items) in enumerate(lists_of(10)):
        history = TRAIN.items[TRAIN.users == user].tolist()
        assert found.per_user["calibration@10"][row] == pytest.approx(plain_calibration(items, history, labels))


def test_calibration_is_zero_for_a_list_in_the_proportions_of_the_history():
    kinds = np.eye(2)[[0, 0, 1, 1, 1, 1]]
    history = np.array([[1, 0, 1, 1, 0, 0]])
    assert metrics.calibration([[1, 4, 5]], history, kinds) == pytest.approx([0.0])
    assert metrics.calibration([[1, -1, -1]], history, kinds)[0] > 1


def test_serendipity_counts_hits_that_popularity_would_not_have_shown():
    found = evaluate(["serendipity", "precision"])
    wanted = TEST.csr.toarray() > 0
    popular, _ = top_items(vr.MostPopular().fit(TRAIN), found.users, 10, exclude=[VALID])
    for row, (user, items) in enumerate(lists_of(10)):
        useful = [i for i in items if wanted[user, i] and i not in popular[row].tolist()]
        assert found.per_user["serendipity@10"][row] == pytest.approx(len(useful) / 10)
    assert 0 < found["serendipity@10"] < found["precision@10"]
    popular = vr.evaluate(vr.MostPopular().fit(TRAIN), TEST, at=10, exclude=VALID, metrics="serendipity")
    assert popular["serendipity@10"] == 0.0


def test_gini_equals_its_plain_reference():
    lists = random_lists(30, 7)
    expected = plain_gini(without_empty(lists), TRAIN.n_items)
    assert metrics.gini_of_exposure(lists, TRAIN.n_items) == pytest.approx(expected)
    assert metrics.gini_of_exposure([[0, 1], [2, 3]], 4) == 0.0
    assert metrics.gini_of_exposure([[-1]], 4) == 0.0


# ---------------------------------------------------------------------------------------------------- evaluate


MODEL = vr.ItemKNN().fit(TRAIN)


def evaluate(names, **more):
    return vr.evaluate(MODEL, TEST, at=10, exclude=VALID, metrics=names, **more)


def lists_of(n):
    users = np.unique(TEST.users)
    items, _ = top_items(MODEL, users, n, exclude=[VALID])
    return list(zip(users.tolist(), without_empty(items), strict=True))


def test_evaluate_gives_all_by_name():
    found = vr.evaluate(MODEL, TEST, at=(3, 10), exclude=VALID, metrics="all", by="degree", bootstrap=20)
    lists = [items for _, items in lists_of(10)]
    for n in (3, 10):
        assert found[f"novelty@{n}"] == pytest.approx(np.mean([plain_novelty(row[:n]) for row in lists]))
        assert found[f"diversity@{n}"] == pytest.approx(np.mean([plain_diversity(row[:n]) for row in lists]))
        assert found[f"gini@{n}"] == pytest.approx(plain_gini([row[:n] for row in lists], TRAIN.n_items))
        low, high = found.intervals[f"novelty@{n}"]
        assert low < found[f"novelty@{n}"] < high
        assert f"gini@{n}" not in found.intervals
    band = popularity_band(TRAIN).astype(str).tolist()
    assert found["calibration@10"] == pytest.approx(evaluate(["calibration"], categories=band)["calibration@10"])
    groups = next(iter(found.groups.values()))
    assert "novelty@10" in groups
    assert "gini@10" not in groups
    assert len(repr(found).splitlines()) > len(metrics.METRICS) + len(metrics.BEYOND)


def test_the_usual_metrics_are_those_of_accuracy():
    assert list(vr.evaluate(MODEL, TEST, at=10)) == [f"{name}@10" for name in (*metrics.METRICS, "coverage")]


def test_two_models_can_be_tested_on_them():
    other = vr.evaluate(vr.MostPopular().fit(TRAIN), TEST, at=10, exclude=VALID, metrics="novelty")
    found = vr.significance(evaluate("novelty"), other, "novelty@10")
    assert found.difference > 0
    assert found.p_value < 0.01


@pytest.mark.parametrize(
    ("more", "word"),
    [
        ({"metrics": "calibration", "categories": ["a"]}, "1 labels for 60 items"),
        ({"metrics": "calibration", "categories": "genre"}, "one label per item"),
        ({"metrics": "calibration", "categories": [""] * 60}, "names no category"),
        ({"metrics": "ndcg", "categories": ["a"] * 60}, "categories is for calibration"),
        ({"metrics": "ndcg@10"}, "goes to at="),
    ],
)
def test_a_mistake_is_one_sentence(more, word):
    with pytest.raises(SettingError, match=word):
        vr.evaluate(MODEL, TEST, **more)


def test_they_do_not_pick_an_epoch():
    with pytest.raises(SettingError, match="picks no epoch"):
        vr.MF(dim=4).fit(TRAIN, valid=VALID, metric="gini@10", epochs=1, progress=False)


def test_on_the_command_line(tmp_path, capsys):
    MODEL.held_out = {"valid": VALID, "test": TEST}
    run, table = tmp_path / "run", tmp_path / "items.tsv"
    MODEL.save(run)
    kinds = ["tea", "mugs", "bags"] * 20
    rows = zip(TRAIN.item_ids.tolist(), kinds, strict=True)
    table.write_text("item\tkind\n" + "".join(f"{item}\t{kind}\n" for item, kind in rows))
    given = ["--metrics", "calibration, gini", "--names", table, "--category", "kind"]
    found = told(capsys, "evaluate", run, "--at", "10", *given)
    assert found["calibration@10"] == pytest.approx(evaluate("calibration", categories=kinds)["calibration@10"])
    assert found["gini@10"] == pytest.approx(evaluate("gini")["gini@10"])
    assert "go together" in complaint(capsys, "evaluate", run, "--category", "kind")
