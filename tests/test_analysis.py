"""The analysis: each number against its definition on logs small enough to count by hand."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vitalrank as vr
from fixed_vectors import FixedVectors
from vitalrank import analysis
from vitalrank.analysis.advising import TO_HALF, TO_ONE, Evidence

LOG = vr.datasets.synthetic(users=80, items=60, interactions=1500, seed=0)


class Given(FixedVectors):
    """A model with the item vectors that a test wants."""

    def __init__(self, train, items):
        super().__init__(train, np.ones((train.n_users, np.shape(items)[1])), items)


# ---------------------------------------------------------------------------------------------------- imbalance


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0])
def test_imbalance_is_the_papers_formula(beta):
    degree = LOG.item_degree
    pi = [max(d, 1) ** beta for d in degree]
    expected = [d / (p / sum(pi) * (len(LOG) - d)) for d, p in zip(degree, pi, strict=True)]
    np.testing.assert_allclose(analysis.imbalance(LOG, beta), expected, rtol=1e-5)


def test_imbalance_grows_with_the_degree():
    order = np.argsort(LOG.item_degree, kind="stable")
    values = analysis.imbalance(LOG, 0.75)[order]
    assert (np.diff(values) >= -1e-9).all()


def test_an_item_in_every_interaction_is_never_a_negative():
    log = vr.Interactions.from_arrays([1, 2], ["x", "x"])
    assert np.isinf(analysis.imbalance(log)).all()


def test_counted_imbalance_meets_the_formula_where_few_items_are_seen():
    log = vr.datasets.synthetic(users=200, items=500, interactions=1000, seed=0)
    bound = analysis.Counted(vr.Uniform()).bind(log, seed=0)
    for step in range(200):
        bound(users=log.users, positives=log.items, step=step)
    found = analysis.counted_imbalance(bound.counts)
    np.testing.assert_allclose(found, analysis.imbalance(log)[log.item_degree > 0], rtol=0.2)


def test_counting_changes_nothing_and_each_epoch_is_its_own():
    plain = vr.MF(dim=4).fit(LOG, vr.VINS(), epochs=3, progress=False)
    sampler = analysis.Counted(vr.VINS())
    seen = []

    def look(record, model):
        seen.append(dict(record["imbalance"]))

    counted = vr.MF(dim=4).fit(LOG, sampler, epochs=3, progress=False, callbacks=[sampler.on_epoch, look])
    np.testing.assert_array_equal(plain.item_table, counted.item_table)
    assert repr(sampler) == repr(vr.VINS())
    assert [record["imbalance"] for record in counted.history] == seen
    assert all(one["min"] <= one["median"] <= one["max"] < len(LOG) for one in seen)
    json.dumps(counted.history.records, allow_nan=False)
    record = {}
    sampler.bind(LOG)
    with pytest.warns(DeprecationWarning, match="on_epoch"):
        sampler.follow(record, counted)
    assert "imbalance" in record


def test_popular_draws_even_out_the_imbalance():
    def widest(sampler):
        counted = analysis.Counted(sampler)
        model = vr.MF(dim=4).fit(LOG, counted, epochs=1, progress=False, callbacks=[counted.on_epoch])
        return model.history[-1]["imbalance"]["max"]

    assert widest(vr.Popularity(beta=1.0)) < widest(vr.Uniform())


# ---------------------------------------------------------------------------------------------------- ranks


@given(st.floats(0.01, 1.0))
@settings(max_examples=50, deadline=None)
def test_rank_bias_is_its_series(share):
    np.testing.assert_allclose(analysis.rank_bias(share, 1.0), analysis.rank_bias_series(share, 1.0), atol=1e-6)


def test_rank_bias_falls_and_is_what_trials_find():
    ranks = np.array([2, 10, 50, 100])
    exact = analysis.rank_bias(ranks, 100)
    assert (np.diff(exact) < 0).all()
    assert exact[-1] == 0
    np.testing.assert_allclose(analysis.rank_bias_simulated(ranks, 100, rounds=200_000), exact, rtol=0.05, atol=0.01)


def test_a_short_search_guesses_the_rank_higher():
    free, cut = (analysis.rank_bias_simulated(1, 1000, kappa=kappa)[0] for kappa in (None, 16))
    assert cut > free


def test_a_first_hit_is_certain_at_the_last_rank():
    assert analysis.rank_bias_simulated(7, 7).tolist() == [0.0]


@pytest.mark.parametrize("rank", [0, -1, 101, float("nan")])
def test_ranks_outside_the_catalogue_are_refused(rank):
    with pytest.raises(vr.SettingError, match="above 0"):
        analysis.rank_bias(rank, 100)


# ---------------------------------------------------------------------------------------------------- embeddings


def test_degree_classes_are_quarters_of_the_items():
    band = analysis.degree_class(LOG)
    assert np.bincount(band).tolist() == [15, 30, 15]
    degree = LOG.item_degree
    assert degree[band == 0].min() >= degree[band == 1].max() >= degree[band == 1].min() >= degree[band == 2].max()


def test_norms_against_degree():
    vectors = np.outer(LOG.item_degree, [3, 4])
    norms = analysis.item_norms(Given(LOG, vectors))
    np.testing.assert_allclose(norms.norm, 5 * LOG.item_degree)
    assert norms.correlation == pytest.approx(1.0)
    assert analysis.item_norms(Given(LOG, -1.0 * np.ones((60, 2)))).correlation == 0.0


def test_clustering_is_one_for_clusters_and_about_zero_for_noise():
    band = analysis.degree_class(LOG)
    noise = np.random.default_rng(0).normal(size=(60, 2))
    apart = noise + 100.0 * band[:, None]
    assert analysis.frequency_clustering(Given(LOG, apart), 5).score == pytest.approx(1.0)
    wide = vr.datasets.synthetic(users=300, items=1000, interactions=6000, seed=0)
    noise = np.random.default_rng(0).normal(size=(1000, 8))
    assert abs(analysis.frequency_clustering(Given(wide, noise)).score) < 0.1


def test_clustering_does_not_ask_the_item_itself():
    band = analysis.degree_class(LOG)
    middle = np.flatnonzero(band == 1)
    vectors = np.arange(60.0)[:, None] * 1000
    vectors[np.flatnonzero(band == 0)] = vectors[middle[:15]] + 1  # each top item lies beside a middle one
    assert analysis.frequency_clustering(Given(LOG, np.c_[vectors, vectors]), 1).accuracy < 0.7


def test_clustering_of_a_sample_and_of_too_few_items():
    model = Given(LOG, np.random.default_rng(0).normal(size=(60, 4)))
    assert analysis.frequency_clustering(model, sample=20).items == 20
    with pytest.raises(vr.SettingError, match="too few"):
        analysis.frequency_clustering(model, neighbours=60)


def test_a_picture_by_pca_keeps_what_differs_most():
    line = np.outer(np.arange(60.0), [0, 3, 4])
    shown = analysis.project(Given(LOG, line), method="pca")
    assert shown.method == "PCA"
    np.testing.assert_allclose(np.abs(np.diff(shown.points[:, 0])), 5.0)
    np.testing.assert_allclose(shown.points[:, 1], 0.0, atol=1e-9)
    again = analysis.project(Given(LOG, line), sample=10, method="pca")
    assert len(again.items) == 10
    np.testing.assert_array_equal(again.degree, LOG.item_degree[again.items])


def test_a_picture_by_tsne():
    pytest.importorskip("sklearn")
    shown = analysis.project(Given(LOG, np.random.default_rng(0).normal(size=(60, 4))), method="tsne")
    assert shown.method == "t-SNE"
    assert np.isfinite(shown.points).all()


def test_models_without_vectors_are_told_so():
    with pytest.raises(vr.SettingError, match="no item vectors"):
        analysis.project(vr.MostPopular().fit(LOG))
    with pytest.raises(vr.SettingError, match="choose one of"):
        analysis.project(Given(LOG, np.ones((60, 2))), method="umap")


# ---------------------------------------------------------------------------------------------------- exposure


def test_exposure_counts_the_lists():
    model = vr.MostPopular().fit(LOG)
    shown = analysis.exposure(model, n=5)
    items, _ = model.recommend(LOG.user_ids, n=5)
    index = LOG.item_index(items.ravel().tolist())
    assert shown.mean_degree == pytest.approx(LOG.item_degree[index].mean())
    assert shown.coverage == pytest.approx(len(np.unique(index)) / 60)
    assert shown.head + shown.middle + shown.tail == pytest.approx(1.0)
    assert shown.users == 80


def test_exposure_of_one_item_for_all_is_as_unequal_as_can_be():
    train = vr.Interactions.from_arrays(list(range(20)) * 2, [0] * 20 + [1 + user // 2 for user in range(20)])
    model = Given(train, np.eye(train.n_items, 2, 0) * [0, 0])
    model._items[10] = 1.0  # an item of the last two users, so all others are shown it
    shown = analysis.exposure(model, n=1, sample=18)
    assert shown.gini > 0.8


def test_a_log_copied_by_the_lists_has_a_third_in_each_band():
    shown = analysis.exposure(vr.MostPopular().fit(LOG), n=60)  # everything unseen
    assert shown.coverage == 1.0


# ---------------------------------------------------------------------------------------------------- advice


def record(epoch=1, **more):
    return {"epoch": epoch, "loss": 0.5, "tries": 1.0, "vanished": 0.0, "unviolated": None, "skipped": 0, **more}


@pytest.mark.parametrize(
    ("history", "word"),
    [
        ([record(unviolated=0.6)], "raise kappa, which makes searches longer, or raise margin"),
        ([record(vanished=0.9)], "harder negatives"),
        ([record(vanished=0.9, unviolated=0.0)], "lower margin"),
        ([record(e, **{"ndcg@10": e / 10}) for e in (1, 2, 3)], "more epochs"),
        ([record(e, **{"ndcg@10": 0.1 / e}) for e in (1, 2, 3)], "fell by 67 % after epoch 1"),
        ([record(e, loss=float(e)) for e in (1, 2, 3)], "lower lr"),
        ([record(skipped=12)], "12 positives were skipped"),
    ],
)
def test_advice_names_the_setting(history, word):
    (sentence,) = analysis.advice(history)
    assert word in sentence


def test_advice_when_the_head_crowds_the_lists():
    crowd = analysis.Exposure(10, 5, 9.0, 3.0, 0.9, 0.1, 0.0, 0.05, 0.9)
    tight = analysis.Clustering(0.9, 1 / 3, 0.85, 10, 100)
    said = analysis.advice([record()], exposure=crowd, clustering=tight)
    assert ["beta" in sentence for sentence in said] == [True, False], "the remedy is said once"
    assert "90 %" in said[0]


def test_advice_stops_at_the_limit_of_beta_and_states_the_price():
    crowd = analysis.Exposure(10, 5, 9.0, 3.0, 0.9, 0.1, 0.0, 0.05, 0.9)
    history = vr.History([record()])
    history.sampler = repr(vr.VINS(beta=1.0))
    assert "at its limit" in analysis.advice(history, exposure=crowd)[0]
    assert "raise" not in analysis.advice(history, exposure=crowd)[0]
    history.sampler = repr(vr.VINS(beta=0.5))
    assert "if quality may pay for it, raise beta above 0.5" in analysis.advice(history, exposure=crowd)[0]
    assert "NDCG@10 fell by 0 to 5 %" in analysis.advice(history, exposure=crowd)[0]
    history.sampler = repr(vr.VINS(beta=0.25))
    assert "raise beta to 0.5" in analysis.advice(history, exposure=crowd)[0]
    history.sampler = repr(vr.Uniform())
    assert "vins or pop, beta 0.5" in analysis.advice(history, exposure=crowd)[0]
    for name, value in (("1e-05", 1e-05), ("0.5", 0.5), ("-1.0", -1.0)):
        assert Evidence({}, [], None, None, None, f"VINS(beta={name})").setting("beta") == value


def test_the_prices_are_those_that_were_measured(monkeypatch):
    folder = Path(__file__).parents[1] / "benchmarks"
    monkeypatch.syspath_prepend(str(folder))
    measured = runpy.run_path(str(folder / "advice.py"))
    assert measured["ranges"](0.0, 0.5) == TO_HALF
    assert measured["ranges"](0.5, 1.0) == TO_ONE
    assert measured["table"]() in (folder.parent / "docs/diagnose.md").read_text(encoding="utf-8")


def test_advice_to_lower_the_margin_stops_at_zero():
    history = vr.History([record(vanished=0.9, unviolated=0.0)])
    history.sampler = repr(vr.VINS(margin=0.0))
    (sentence,) = analysis.advice(history)
    assert "margin" not in sentence
    assert "raise reg" in sentence


def test_the_loss_is_not_blamed_where_quality_rose():
    history = [record(e, loss=0.5 + e / 10, **{"ndcg@10": value}) for e, value in ((1, 0.1), (2, 0.3), (3, 0.29))]
    assert "Nothing stands out" in analysis.advice(history)[0]


def test_advice_is_not_what_rising_quality_contradicts():
    history = [record(e, vanished=0.9, unviolated=0.6, **{"ndcg@10": e / 10}) for e in (1, 2, 3)]
    crowd = analysis.Exposure(10, 5, 9.0, 3.0, 0.9, 0.1, 0.0, 0.05, 0.9)
    tight = analysis.Clustering(0.9, 1 / 3, 0.85, 10, 100)
    (sentence,) = analysis.advice(history, exposure=crowd, clustering=tight)
    assert "more epochs" in sentence


def test_advice_on_a_healthy_run():
    (sentence,) = analysis.advice([record()])
    assert "Nothing stands out" in sentence


# ---------------------------------------------------------------------------------------------------- all together


def test_inspection_of_a_trained_model_is_plain_json():
    model = vr.MF(dim=4).fit(LOG, vr.VINS(), epochs=2, progress=False)
    found = analysis.inspect_model(model, n=5)
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["epochs"] == 2
    assert found.advice
    assert found.imbalance_counted is None
    assert found.imbalance_by_beta[0.0]["max"] > found.imbalance_by_beta[1.0]["max"]


def test_inspection_of_a_model_without_vectors_or_history():
    found = analysis.inspect_model(vr.MostPopular().fit(LOG))
    assert (found.epochs, found.clustering, found.norm_correlation, found.advice) == (0, None, None, [])
