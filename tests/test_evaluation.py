"""Evaluation against a dense, plain computation, with ties, exclusion and odd block sizes."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import vitalrank as vr
from fixed_vectors import FixedVectors
from vitalrank.evaluation import popularity_band
from vitalrank.evaluation.significance import TESTS, percentile_interval, resampled_means
from vitalrank.kernels.cpu.ranking.top_n import PANEL
from vitalrank.metrics import METRICS
from vitalrank.models.base import Recommender
from vitalrank.ranking import rankers
from vitalrank.ranking.top_n import top_items


def as_tiles(model):
    class Opaque(Recommender):
        fit = history_scores = similarities = settings = tensors = restore = None

        def scores(self, users, start, stop):
            return model.scores(users, start, stop)

    opaque = Opaque()
    opaque.train = model.train
    return opaque


def random_log(rng, n_users, n_items, rows):
    """A log in which every user and every item occurs; user 0 has seen everything."""
    users = np.concatenate([np.zeros(n_items, int), np.arange(n_users), rng.integers(0, n_users, rows)])
    items = np.concatenate([np.arange(n_items), rng.integers(0, n_items, n_users + rows)])
    return vr.Interactions.from_arrays(users, items, np.arange(len(users)))


def tied_model(rng, train, dim):
    """Small whole numbers: sums are exact in any order, and ties are everywhere."""
    tables = (rng.integers(-2, 3, (count, dim)).astype(np.float32) for count in (train.n_users, train.n_items))
    return FixedVectors(train, *tables)


def plain_top(model, users, n, exclude=()):
    scores = model.scores(users, 0, model.train.n_items).astype(float)
    for log in (model.train, *exclude):
        scores[log.csr[users].toarray() > 0] = -np.inf
    order = np.argsort(-scores, axis=1, kind="stable")[:, :n]
    best = np.take_along_axis(scores, order, axis=1)
    return np.where(best == -np.inf, -1, order), best


@pytest.fixture(scope="module")
def split():
    rng = np.random.default_rng(5)
    return random_log(rng, 61, 700, 1500).split_last(0.2, valid=0.1)


@pytest.mark.parametrize("kind", [lambda model: model, as_tiles], ids=["dot", "tiles"])
@pytest.mark.parametrize(
    ("n_users", "n_items", "dim", "n"),
    [(1, 1, 1, 1), (9, 40, 3, 7), (130, PANEL, 8, 3), (37, 1300, 5, 25), (6, 30, 2, 30)],
)
def test_top_items_equal_a_stable_sort(kind, n_users, n_items, dim, n):
    rng = np.random.default_rng(n_users)
    train = random_log(rng, n_users, n_items, 2 * n_users)
    model = tied_model(rng, train, dim)
    users = rng.permutation(n_users)
    items, scores = top_items(kind(model), users, n)
    expected_items, expected_scores = plain_top(model, users, n)
    np.testing.assert_array_equal(items, expected_items)
    np.testing.assert_array_equal(scores, expected_scores)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), n_users=st.integers(1, 30), n_items=st.integers(1, 60), n=st.integers(1, 70))
def test_top_items_of_any_shape_equal_a_stable_sort(seed, n_users, n_items, n):
    rng = np.random.default_rng(seed)
    model = tied_model(rng, random_log(rng, n_users, n_items, 3 * n_users), dim=2)
    items, _ = top_items(model, np.arange(n_users), n)
    expected, _ = plain_top(model, np.arange(n_users), n)
    np.testing.assert_array_equal(items[:, : expected.shape[1]], expected)
    assert (items[:, expected.shape[1] :] == -1).all()


def test_blocks_and_threads_do_not_change_a_bit(split, monkeypatch):
    rng = np.random.default_rng(1)
    train = split[0]
    model = FixedVectors(train, *(rng.standard_normal((count, 13)).astype(np.float32) for count in (61, train.n_items)))
    users = np.arange(train.n_users)
    expected = top_items(model, users, 10)
    for size in (1, 7, 60):
        monkeypatch.setattr(rankers, "_USERS", size)
        for threads in (1, 2):
            found = top_items(model, users, 10, threads=threads)
            np.testing.assert_array_equal(found[0], expected[0])
            np.testing.assert_array_equal(found[1], expected[1])


def test_tiles_of_any_size_give_the_same_lists(split, monkeypatch):
    model = as_tiles(tied_model(np.random.default_rng(2), split[0], 4))
    users = np.arange(split[0].n_users)
    expected = top_items(model, users, 10)[0]
    for cells in (1, 700 * 3 + 1):
        monkeypatch.setattr(rankers, "_CELLS", cells)
        np.testing.assert_array_equal(top_items(model, users, 10)[0], expected)


@pytest.mark.parametrize("with_valid", [False, True])
def test_averages_equal_a_dense_computation(split, with_valid):
    train, valid, test = split
    model = tied_model(np.random.default_rng(3), train, 4)
    result = vr.evaluate(model, test, at=(5, 20), exclude=valid if with_valid else None)
    wanted = test.csr.toarray() > 0
    users = np.flatnonzero(wanted.any(axis=1))
    top, _ = plain_top(model, users, 20, [valid] if with_valid else [])
    hits = np.take_along_axis(wanted[users], top, axis=1) & (top >= 0)
    assert result.users.tolist() == users.tolist()
    for n in (5, 20):
        for name in set(METRICS) - {"f1"}:
            values = METRICS[name](hits[:, :n], wanted[users].sum(axis=1))
            np.testing.assert_allclose(result.per_user[f"{name}@{n}"], values)
            assert result[f"{name}@{n}"] == pytest.approx(values.mean())
        p, r = result[f"precision@{n}"], result[f"recall@{n}"]
        assert result[f"f1@{n}"] == pytest.approx(2 * p * r / (p + r))
        assert result[f"coverage@{n}"] == pytest.approx(len(set(top[:, :n].ravel()) - {-1}) / test.n_items)


def test_constant_model_recommends_the_lowest_unseen_ids():
    train = vr.Interactions.from_arrays([0, 0, 1, 1, 1], [0, 3, 1, 2, 4])
    model = FixedVectors(train, np.zeros((2, 1), np.float32), np.zeros((5, 1), np.float32))
    assert top_items(model, np.array([0, 1]), 3)[0].tolist() == [[1, 2, 4], [0, 3, -1]]


def test_users_without_test_items_are_left_out():
    log = vr.Interactions.from_arrays([0, 1, 1, 2, 2, 2], [0, 0, 1, 0, 1, 2])
    train, test = log.split_last(0.2)
    result = vr.evaluate(vr.MostPopular().fit(train), test, at=1)
    assert result.users.tolist() == [1, 2]


def test_a_list_longer_than_the_catalogue_counts_its_empty_places(split):
    train, _, test = split
    model = tied_model(np.random.default_rng(3), train, 4)
    result = vr.evaluate(model, test, at=(5, 1000), by="popularity")
    wanted = test.csr.toarray() > 0
    users = np.flatnonzero(wanted.any(axis=1))
    top, _ = plain_top(model, users, train.n_items)
    hits = np.zeros((len(users), 1000), bool)
    hits[:, : train.n_items] = np.take_along_axis(wanted[users], top, axis=1) & (top >= 0)
    for n in (5, 1000):
        for name, metric in METRICS.items():
            values = metric(hits[:, :n], wanted[users].sum(axis=1))
            np.testing.assert_allclose(result.per_user[f"{name}@{n}"], values, rtol=1e-12)
    assert result["recall@1000"] == pytest.approx(1.0)
    parts = [result.groups[band]["precision@1000"] for band in ("head", "middle", "tail")]
    assert sum(parts) == pytest.approx(result["precision@1000"])


def test_a_list_of_any_length_needs_no_more_than_the_catalogue(split):
    train, _, test = split
    result = vr.evaluate(vr.MostPopular().fit(train), test, at=10**15)
    assert result[f"recall@{10**15}"] == pytest.approx(1.0)
    assert result[f"precision@{10**15}"] == pytest.approx(np.diff(test.indptr)[result.users].mean() / 10**15)


def test_degree_groups_average_back_to_the_whole(split):
    train, _, test = split
    result = vr.evaluate(tied_model(np.random.default_rng(4), train, 4), test, at=10, by="degree")
    users = sum(group["users"] for group in result.groups.values())
    assert users == len(result.users)
    total = sum(group["users"] * group["ndcg@10"] for group in result.groups.values())
    assert total / users == pytest.approx(result["ndcg@10"])
    degree = np.diff(train.indptr)[result.users]
    assert result.groups["20-50"]["users"] == np.count_nonzero((degree >= 20) & (degree < 50))


def test_popularity_groups_add_up_to_the_whole(split):
    train, _, test = split
    result = vr.evaluate(vr.ItemKNN().fit(train), test, at=(5, 20), by="popularity")
    assert list(result.groups) == ["head", "middle", "tail"]
    for name in ("precision@5", "recall@20", "ndcg@20"):
        assert sum(group[name] for group in result.groups.values()) == pytest.approx(result[name])
    assert result["recall@20"] > 0


def test_popularity_band_holds_a_third_of_the_interactions():
    # Degrees 4, 3, 2, 1, 1, 1: before each item lie 0, 4, 7, 9, 10, 11 of 12 interactions.
    items = [0] * 4 + [1] * 3 + [2] * 2 + [3, 4, 5]
    users = [0, 1, 2, 3, 0, 1, 2, 0, 1, 0, 1, 2]
    assert popularity_band(vr.Interactions.from_arrays(users, items)).tolist() == [0, 1, 1, 2, 2, 2]


def test_lengths_may_be_numbers_of_numpy(split):
    train, _, test = split
    model = vr.MostPopular().fit(train)
    assert dict(vr.evaluate(model, test, at=np.int64(10))) == dict(vr.evaluate(model, test, at=10))
    assert list(vr.evaluate(model, test, at=np.array([20, 5]))) == list(vr.evaluate(model, test, at=(5, 20)))


def test_bootstrap_interval_of_many_users_is_the_normal_one():
    values = np.random.default_rng(0).normal(1, 2, (500, 1))
    low, high = percentile_interval(resampled_means(values, rounds=4000, seed=0))
    error = values.std() / np.sqrt(500)
    assert low == pytest.approx(values.mean() - 1.96 * error, abs=0.15 * error)
    assert high == pytest.approx(values.mean() + 1.96 * error, abs=0.15 * error)


def test_bootstrap_intervals_hold_the_averages_and_are_seeded(split):
    train, _, test = split
    model = vr.ItemKNN().fit(train)
    result = vr.evaluate(model, test, at=20, bootstrap=200)
    assert set(result.intervals) == set(result) - {"coverage@20"}
    for name, (low, high) in result.intervals.items():
        assert low < result[name] < high
    assert vr.evaluate(model, test, at=20, bootstrap=200).intervals == result.intervals
    assert vr.evaluate(model, test, at=20, bootstrap=200, seed=1).intervals != result.intervals


def test_result_reads_like_a_dict_and_prints_a_table(split):
    result = vr.evaluate(vr.MostPopular().fit(split[0]), split[2], at=(5, 10), by="popularity")
    assert set(result) == set(dict(result))
    assert {"precision@5", "recall@10", "f1@5", "ndcg@10", "hit_rate@5", "map@5", "mrr@5", "coverage@10"} <= set(result)
    assert f"{result['ndcg@10']:.4f}" in repr(result)
    assert "ndcg, tail" in repr(result)
    assert result._repr_html_().count("<tr>") == len(repr(result).splitlines())
    with pytest.raises(KeyError, match="ndcg@7: not computed"):
        result["ndcg@7"]


# ---------------------------------------------------------------------------------------------------- compare


@pytest.fixture(scope="module")
def two_results(split):
    train, _, test = split
    models = vr.ItemKNN().fit(train), tied_model(np.random.default_rng(9), train, 3)
    return [vr.evaluate(model, test, at=20) for model in models]


def test_rows_that_were_trained_on_are_reported(split):
    train, _, test = split
    model = vr.MostPopular().fit(train)
    with pytest.warns(UserWarning, match=r"[\d,]+ of [\d,]+ test rows are in the training log") as told:
        assert vr.evaluate(model, train, at=5)["hit_rate@5"] == 0.0
    assert told[0].filename == __file__  # the caller's line
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vr.evaluate(model, test, at=5)


def test_swapped_arguments_and_endless_bootstraps_are_refused(split):
    train, _, test = split
    model = vr.MostPopular().fit(train)
    with pytest.raises(vr.SettingError, match=r"model is a path; load it first: evaluate\(vr.load\('runs/a'\), test\)"):
        vr.evaluate("runs/a", test)
    with pytest.raises(vr.SettingError, match=r"model is of type Interactions; give the model first"):
        vr.evaluate(test, model)
    with pytest.raises(vr.SettingError, match="at most 1,000,000"):
        vr.evaluate(model, test, bootstrap=99999999999999999999)


def test_compare_is_the_former_name_of_significance(two_results):
    with pytest.warns(DeprecationWarning, match="vr.significance"):
        assert vr.evaluation.compare(*two_results, "ndcg@20") == vr.significance(*two_results, "ndcg@20")


def test_paired_t_equals_scipy(two_results):
    a, b = two_results
    outcome = vr.significance(a, b, "recall@20")
    expected = stats.ttest_rel(a.per_user["recall@20"], b.per_user["recall@20"])
    assert outcome.p_value == pytest.approx(expected.pvalue)
    interval = expected.confidence_interval()
    assert (outcome.low, outcome.high) == pytest.approx((interval.low, interval.high))
    assert outcome.difference == pytest.approx(a["recall@20"] - b["recall@20"])
    assert "recall@20" in repr(outcome)


def test_differences_that_are_all_the_same():
    def result(value):
        return SimpleNamespace(users=np.arange(6), relevant=np.ones(6), per_user={"ndcg@5": np.full(6, value)})

    assert vr.significance(result(0.5), result(0.25), "ndcg@5").p_value == 0.0
    exact = 2 / 2**6  # all signs as they are, or all turned
    outcome = vr.significance(result(0.5), result(0.25), "ndcg@5", test="sign-flip", rounds=20_000)
    assert outcome.p_value == pytest.approx(exact, abs=0.01)


def test_sign_flip_p_value_equals_the_exact_one():
    rng = np.random.default_rng(0)
    difference = rng.normal(0.4, 1, 12)
    signs = 1 - 2 * ((np.arange(2**12)[:, None] >> np.arange(12)) & 1)
    exact = np.mean(np.abs(signs @ difference) >= abs(difference.sum()) - 1e-12)
    assert TESTS["sign-flip"](difference, 20_000, 0) == pytest.approx(exact, abs=0.015)


def test_a_model_does_not_differ_from_itself(two_results):
    for test in ("t", "sign-flip"):
        assert vr.significance(two_results[0], two_results[0], "ndcg@20", test=test).p_value == 1.0


def test_results_of_other_users_cannot_be_compared(split, two_results):
    train, valid, _ = split
    other = vr.evaluate(vr.MostPopular().fit(train), valid, at=20)
    with pytest.raises(vr.DataError, match="same test log"):
        vr.significance(two_results[0], other, "ndcg@20")


def test_only_metrics_and_tests_that_exist_can_be_compared(two_results):
    with pytest.raises(vr.SettingError, match=r"metric='ndcg@7': choose one of .*ndcg@20"):
        vr.significance(*two_results, "ndcg@7")
    with pytest.raises(vr.SettingError, match="test='z': choose one of t, sign-flip"):
        vr.significance(*two_results, "ndcg@20", test="z")


# ---------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"at": 0}, "at=0"),
        ({"at": ()}, r"at=\(\)"),
        ({"by": "age"}, "by='age'.*degree, popularity"),
        ({"metrics": ["auc"]}, "unknown metric 'auc'"),
        ({"threads": 0}, "threads is 0"),
        ({"at": "10"}, "at='10'"),
        ({"at": (5.5,)}, r"at=\(5.5,\)"),
        ({"at": True}, "at=True"),
        ({"bootstrap": 1}, "bootstrap=1"),
        ({"bootstrap": 2.5}, r"bootstrap=2\.5"),
        ({"threads": 1.5}, r"threads is 1\.5"),
    ],
)
def test_wrong_settings_are_named(split, arguments, message):
    with pytest.raises(vr.SettingError, match=message):
        vr.evaluate(vr.MostPopular().fit(split[0]), split[2], **arguments)


def test_a_log_with_other_ids_is_refused(split):
    model = vr.MostPopular().fit(split[0])
    other = vr.Interactions.from_arrays([1, 2], [1, 2])
    with pytest.raises(vr.DataError, match="test has other user_ids"):
        vr.evaluate(model, other)
    with pytest.raises(vr.DataError, match="exclude has other user_ids"):
        vr.evaluate(model, split[2], exclude=[split[1], other])


def test_a_model_that_is_not_fitted_or_not_finite_is_refused(split):
    train, _, test = split
    with pytest.raises(vr.SettingError, match="not fitted"):
        vr.evaluate(vr.MostPopular(), test)
    model = tied_model(np.random.default_rng(0), train, 2)
    model._items[3, 1] = np.nan
    with pytest.raises(vr.TrainingError, match="not finite"):
        vr.evaluate(model, test)
    with pytest.raises(vr.TrainingError, match="not numbers"):
        vr.evaluate(as_tiles(model), test)
