"""Comparisons: one split for all, finished runs are not run again, the ranking is what the runs say."""

from __future__ import annotations

import csv
import functools
import io
import json

import numpy as np
import pytest
from scipy import stats

import vitalrank as vr
from vitalrank import comparing
from vitalrank.comparing import outcomes, results, tables

LOG = vr.datasets.synthetic(users=80, items=60, interactions=1500, seed=0)
SAMPLERS = {"uni": vr.Uniform(), "vins": vr.VINS()}
CONFIG = vr.TrainConfig(epochs=3, lr=0.01)


def small_mf():
    return vr.MF(dim=8)


def run(out=None, samplers=SAMPLERS, models=None, seeds=2, **more):
    settings = {"config": CONFIG, "baselines": (), **more}
    return vr.compare(LOG, samplers, models or {"mf": small_mf}, seeds=seeds, out=out, **settings)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cmp")
    return folder, run(folder)


def made(label, values, seed=0, metric="ndcg@10", **more):
    """An outcome with the per-user values a test wants."""
    plain = {"model": "M", "sampler": "S", "bands": {}, "records": [], "best_epoch": None, "seconds": 1.0}
    metrics = {metric: float(np.mean(values))}
    return comparing.Outcome(
        label=label, seed=seed, metrics=metrics, inspection={}, per_user=np.asarray(values), **{**plain, **more}
    )


# ---------------------------------------------------------------------------------------------------- running


def test_a_run_is_what_fit_and_evaluate_give(done):
    _, found = done
    train, valid, test = LOG.split_last(0.2, valid=0.1)
    model = vr.MF(dim=8).fit(train, vr.VINS(), epochs=3, lr=0.01, valid=valid, seed=1, progress=False)
    expected = vr.evaluate(model, test, at=10, exclude=valid)
    outcome = next(one for one in found.outcomes if (one.label, one.seed) == ("vins", 1))
    assert outcome.metrics == dict(expected)
    np.testing.assert_array_equal(outcome.per_user, expected.per_user["ndcg@10"])
    assert sum(outcome.bands.values()) == pytest.approx(expected["ndcg@10"])
    assert outcome.best_epoch == model.history.best_epoch
    assert "imbalance" in outcome.records[-1]


def test_every_sampler_runs_with_every_seed(done):
    _, found = done
    assert [(one.label, one.seed) for one in found.outcomes] == [("uni", 0), ("uni", 1), ("vins", 0), ("vins", 1)]
    assert [one.projection is not None for one in found.outcomes] == [True, False, True, False]


def test_finished_runs_are_read_not_run(done):
    folder, found = done
    epochs = []
    again = run(folder, callback=lambda entry, seed, news: epochs.append(news) if isinstance(news, dict) else None)
    assert epochs == []
    assert [one.metrics for one in again.outcomes] == [one.metrics for one in found.outcomes]
    assert [row.p_value for row in again.rows] == [row.p_value for row in found.rows]


def test_a_killed_comparison_goes_on_inside_the_run(tmp_path, done):
    def stop(entry, seed, news):
        if entry.label == "vins" and seed == 0 and isinstance(news, dict) and news["epoch"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match="2 of 4 runs are finished"):
        run(tmp_path, callback=stop)
    epochs = []
    found = run(tmp_path, callback=lambda entry, seed, news: epochs.append((entry.label, seed, news)))
    trained = [(label, seed, news["epoch"]) for label, seed, news in epochs if isinstance(news, dict)]
    assert trained == [("vins", 0, 3), ("vins", 1, 1), ("vins", 1, 2), ("vins", 1, 3)]
    assert [one.metrics for one in found.outcomes] == [one.metrics for one in done[1].outcomes]


def test_more_samplers_join_a_finished_comparison(tmp_path):
    run(tmp_path, {"uni": vr.Uniform()}, seeds=1)
    found = run(tmp_path, SAMPLERS, seeds=1)
    assert {row.label for row in found.rows} == {"uni", "vins"}


def test_models_without_a_sampler_run_once():
    found = run(models={"mf": small_mf, "popular": vr.MostPopular}, samplers={"uni": vr.Uniform()})
    assert [(one.label, one.seed) for one in found.outcomes] == [("mf uni", 0), ("mf uni", 1), ("popular", 0)]
    popular = next(row for row in found.rows if row.label == "popular")
    assert (popular.spread, popular.tries, popular.epochs) == (None, None, 0)


def test_models_are_kept_on_request(tmp_path):
    run(tmp_path / "a", seeds=1)
    run(tmp_path / "b", seeds=1, keep_models=True, models={"mf": small_mf, "popular": vr.MostPopular})
    assert not (tmp_path / "a/runs/uni-seed0").exists()
    model = vr.load(tmp_path / "b/runs/mf-vins-seed0")
    assert set(model.held_out) == {"valid", "test"}
    assert vr.load(tmp_path / "b/runs/popular-seed0")


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"config": vr.TrainConfig(epochs=3, lr=0.02)}, "lr 0.01, not 0.02"),
        ({"test": 0.3}, "test 0.2, not 0.3"),
        ({"samplers": {"vins": vr.VINS(beta=1.0)}}, "beta=1.0"),
        ({"seeds": 0}, "at least one"),
        ({"seeds": [1, 1]}, "each once"),
        ({"valid": 0.0}, "needs that part"),
        ({"samplers": {}}, "nothing to compare"),
        ({"samplers": {"a b": vr.Uniform(), "a-b": vr.Uniform()}}, "share the name"),
    ],
)
def test_what_does_not_fit_is_one_line(done, change, word):
    with pytest.raises(vr.SettingError, match=word):
        run(done[0], **change)


def test_half_a_result_is_told(tmp_path):
    run(tmp_path, {"uni": vr.Uniform()}, seeds=1)
    (tmp_path / "runs/uni-seed0.safetensors").write_bytes(b"")
    with pytest.raises(vr.StorageError, match="remove it to run it again"):
        run(tmp_path, {"uni": vr.Uniform()}, seeds=1)


def test_a_result_that_was_edited_is_no_result(tmp_path):
    run(tmp_path, {"uni": vr.Uniform()}, seeds=1)
    path = tmp_path / "runs/uni-seed0.json"
    found = json.loads(path.read_text())
    found["outcome"]["metrics"]["ndcg@10"] = 0.99
    path.write_text(json.dumps(found))
    with pytest.raises(vr.StorageError, match="changed since it was written"):
        run(tmp_path, {"uni": vr.Uniform()}, seeds=1)


@pytest.mark.parametrize("label", ["\ud800", 3])
def test_a_result_whose_label_no_table_can_hold_is_one_sentence(tmp_path, label):
    run(tmp_path, {"uni": vr.Uniform()}, seeds=1)
    path = tmp_path / "runs/uni-seed0.json"
    plain = json.loads(path.read_text())["outcome"]
    path.write_text(json.dumps({**plain, "label": label}))  # without a digest, as version 0.1 wrote it
    with pytest.raises(vr.StorageError, match="label is not text"):
        outcomes.read_outcome(path, {})


@pytest.mark.parametrize("text", ["[" * 100_000, "[1]", "{", '{"label": 3}', '{"format": 9, "outcome": {}}'])
def test_what_is_no_result_is_one_sentence(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(vr.StorageError, match="remove it"):
        outcomes.read_outcome(tmp_path / "a.json", {})


@pytest.mark.parametrize("text", ["[" * 100_000, "[1]", '{"log": [1]}', "9" * 5000])
def test_a_broken_plan_is_one_sentence(tmp_path, text):
    (tmp_path / "comparison.json").write_text(text)
    with pytest.raises(vr.StorageError, match=r"comparison\.json"):
        run(tmp_path, seeds=1)


def test_results_of_version_0_1_are_read(tmp_path):
    run(tmp_path, {"uni": vr.Uniform()}, seeds=1)
    path = tmp_path / "runs/uni-seed0.json"
    found = json.loads(path.read_text())["outcome"]
    found["picture"] = found.pop("projection")
    del found["training"]
    path.write_text(json.dumps(found))
    (outcome,) = run(tmp_path, {"uni": vr.Uniform()}, seeds=1).outcomes
    assert outcome.projection is not None


def test_an_unwritable_folder_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(vr.StorageError, match="cannot be written"):
        run(tmp_path / "file", seeds=1)


def test_outcomes_survive_the_disk(tmp_path):
    outcome = made("a", [0.1, 0.7])
    outcomes.write_outcome(outcome, tmp_path / "a.json")
    again = outcomes.read_outcome(tmp_path / "a.json", outcome.identity)
    np.testing.assert_array_equal(again.per_user, [0.1, 0.7])
    assert again.metrics == outcome.metrics


# ---------------------------------------------------------------------------------------------------- ranking


def test_rows_are_ranked_by_their_mean_over_seeds():
    low, high = [0.1, 0.2, 0.3], [0.3, 0.5, 0.4]
    rows = results.rank([made("low", low), made("high", high, 0), made("high", low, 1)], "ndcg@10")
    assert [row.label for row in rows] == ["high", "low"]
    assert rows[0].mean["ndcg@10"] == pytest.approx(0.3)
    assert rows[0].spread["ndcg@10"] == pytest.approx(np.std([0.4, 0.2], ddof=1))
    assert rows[1].spread is None
    assert (rows[0].other, rows[1].other) == ("low", "high")
    assert rows[0].difference == pytest.approx(-rows[1].difference) == pytest.approx(0.1)


def test_significance_is_paired_by_user_over_the_mean_of_seeds():
    rng = np.random.default_rng(0)
    a, b, c = (rng.random(30) + shift for shift in (0.3, 0.2, 0.0))
    rows = results.rank([made("a", a), made("b", b, 0), made("b", b[::-1], 1), made("c", c)], "ndcg@10")
    p_b = stats.ttest_rel(a, (b + b[::-1]) / 2).pvalue
    p_c = stats.ttest_rel(a, c).pvalue
    expected = results.holm([p_b, p_c])
    assert [row.p_value for row in rows] == pytest.approx([expected[0], *expected])


def test_equal_rows_do_not_differ():
    rows = results.rank([made("a", [0.1, 0.2]), made("b", [0.1, 0.2])], "ndcg@10")
    assert [row.p_value for row in rows] == [1.0, 1.0]


def test_a_single_row_has_no_other():
    (row,) = results.rank([made("a", [0.1, 0.2])], "ndcg@10")
    assert (row.other, row.difference, row.p_value) == (None, None, None)


# ---------------------------------------------------------------------------------------------------- tables


def test_tables_hold_the_ranking(done, tmp_path):
    _, found = done
    comparing.write_tables(found, tmp_path)
    lines = list(csv.DictReader(io.StringIO((tmp_path / "results.csv").read_text())))
    assert [line["label"] for line in lines] == [row.label for row in found.rows]
    assert float(lines[0]["ndcg@10"]) == found.rows[0].mean["ndcg@10"]
    assert float(lines[0]["ndcg@10 sd"]) == found.rows[0].spread["ndcg@10"]
    whole = json.loads((tmp_path / "results.json").read_text())
    assert len(whole["runs"]) == 4
    assert whole["log"]["fingerprint"] == LOG.fingerprint
    assert whole["ranking"][0]["label"] == found.rows[0].label
    table, *notes = (tmp_path / "results.md").read_text().split("\n\n")
    markdown = table.splitlines()
    assert len({line.count("|") for line in markdown}) == 1
    assert [note.split(" ")[0] for note in notes] == ["p:", "Settings"]
    assert repr(found) == (tmp_path / "results.md").read_text()


def test_latex_marks_the_best_and_escapes():
    found = comparing.Results("hit_rate@10", (made("a_1 & b", [0.2, 0.4], metric="hit_rate@10"),), {})
    text = tables.to_latex(found)
    assert r"a\_1 \& b & \textbf{0.3000}" in text
    assert r"hit\_rate@10" in text
    assert text.count(r"\\") == 2


def test_markdown_escapes_the_bar():
    found = comparing.Results("ndcg@10", (made("a|b", [0.2, 0.4]),), {})
    assert r"a\|b" in tables.to_markdown(found)


# ---------------------------------------------------------------------------------------------------- settings


def test_a_model_keeps_its_own_defaults_where_nothing_else_is_asked():
    own = {"loss": "hinge", "reg": 0.0}
    assert vr.TrainConfig().with_defaults(own) == vr.TrainConfig(loss="hinge", reg=0.0)
    assert vr.TrainConfig(reg=0.5).with_defaults(own).reg == 0.5
    assert vr.TrainConfig().with_defaults(own, fixed=["loss"]) == vr.TrainConfig(reg=0.0)
    assert CONFIG.with_defaults(small_mf().defaults) == CONFIG


def test_settings_that_are_a_models_own_are_told():
    pytest.importorskip("torch")
    log = vr.datasets.synthetic(users=40, items=30, interactions=500, seed=0)
    samplers, models = {"vins": vr.VINS()}, {"mf": small_mf, "marank": lambda: vr.MARank(dim=4)}
    found = vr.compare(log, samplers, models, baselines=(), seeds=1, config=CONFIG, fixed=["lr"])
    assert found.metadata["own_training"].keys() == {"marank vins"}
    assert "reg" in found.metadata["own_training"]["marank vins"]
    assert "lr" not in found.metadata["own_training"]["marank vins"]


def test_a_method_may_have_training_settings_of_its_own(tmp_path):
    found = run(tmp_path, seeds=1, settings={"uni": {"reg": 0.5}})
    assert found.metadata["own_training"] == {"uni": {"reg": 0.5}}
    assert {one.label: one.training["reg"] for one in found.outcomes} == {"uni": 0.5, "vins": CONFIG.reg}
    with pytest.raises(vr.SettingError, match="choose another folder"):
        run(tmp_path, seeds=1)
    with pytest.raises(vr.SettingError, match="no training setting 'seed' of its own"):
        run(seeds=1, settings={"uni": {"seed": 1}})
    with pytest.raises(vr.SettingError, match="'pop', which is not compared"):
        run(seeds=1, settings={"pop": {"reg": 0.5}})


# ---------------------------------------------------------------------------------------------------- baselines


def test_baselines_are_added_unless_they_are_compared_already():
    found = run(models={"mf": small_mf}, samplers={"uni": vr.Uniform()}, seeds=1, baselines=None)
    assert {row.label for row in found.rows} >= {"uni", "mostpopular", "itemknn"}
    found = run(models={"mostpopular": vr.MostPopular}, samplers={}, seeds=1, baselines=["mostpopular", "itemknn"])
    assert sorted(row.label for row in found.rows) == ["itemknn", "mostpopular"]
    popular = {"models": {"mostpopular": vr.MostPopular}, "samplers": {}, "seeds": 1}
    found = run(**popular, baselines={"ease 9": lambda: vr.EASE(reg=9)})
    assert sorted(row.label for row in found.rows) == ["ease 9", "mostpopular"]
    with pytest.raises(vr.SettingError, match="share the name"):
        run(**popular, baselines={"MostPopular": vr.ItemKNN})
    for models in ({"small": small_mf}, {"mf": small_mf}):
        with pytest.raises(vr.SettingError, match="no baseline"):
            run(models=models, seeds=1, baselines=["mf"])


def test_a_large_catalogue_is_compared_with_the_sparse_form_of_ease(monkeypatch):
    monkeypatch.setattr("vitalrank.comparing.planning._MOST_EASE_ITEMS", 5)
    found = run(models={"mostpopular": vr.MostPopular}, samplers={}, seeds=1, baselines=None)
    assert sorted(row.label for row in found.rows) == ["itemknn", "mostpopular", "sparse ease"]


def test_names_stand_for_themselves():
    found = vr.compare(LOG, ["uni"], ["mf"], seeds=1, config=CONFIG, baselines=())
    assert [row.label for row in found.rows] == ["uni"]


# ---------------------------------------------------------------------------------------------------- tuning


def test_each_method_is_tuned_by_as_many_trials(tmp_path):
    pytest.importorskip("optuna")
    from vitalrank.tuning import Tuned

    searches = []

    def note(method, seed, news):
        if isinstance(news, Tuned):
            searches.append((method.label, len(news.trials)))
            first = news.trials[0].settings  # the defaults
            assert first.sampler == {name: getattr(method.sampler, name) for name in first.sampler}
            assert first.training == ({"reg": vr.TrainConfig.reg, "lr": CONFIG.lr} if first.sampler else {})

    samplers = {"pop": vr.Popularity(), "vins": vr.VINS(kappa=16)}
    models = {"mf": functools.partial(vr.MF, dim=8)}
    options = {"seeds": 2, "tune": 3, "baselines": ["mostpopular"], "callback": note}
    found = run(tmp_path, samplers, models, **options)
    assert searches == [("pop", 3), ("vins", 3)]
    tuned = found.metadata["tuning"]
    assert tuned["trials"] == 3
    assert set(tuned["settings"]["vins"]) == {"reg", "lr", "beta", "margin", "weight"}  # dim and kappa were chosen
    assert tuned["settings"]["mostpopular"] == {}
    assert {one.training["reg"] for one in found.outcomes if one.label == "vins"} == {tuned["settings"]["vins"]["reg"]}
    assert "best of 3 trials" in repr(found)
    again = run(tmp_path, samplers, models, **options)
    assert [one.metrics for one in again.outcomes] == [one.metrics for one in found.outcomes]
    with pytest.raises(vr.SettingError, match="trials 3, not 4"):
        run(tmp_path, samplers, models, **{**options, "tune": 4})


# ---------------------------------------------------------------------------------------------------- former names


def test_the_paired_test_keeps_its_former_name_for_a_release():
    train, test = LOG.split_last(0.2)
    result = vr.evaluate(vr.MostPopular().fit(train), test, at=5)
    with pytest.warns(DeprecationWarning, match=r"vr\.significance"):
        assert vr.compare(result, result, "ndcg@5").p_value == 1.0


def test_run_comparison_keeps_its_name_for_a_release():
    with pytest.warns(DeprecationWarning, match=r"vr\.compare"):
        found = comparing.run_comparison(LOG, {"uni": vr.Uniform()}, seeds=1, config=CONFIG)
    assert [row.label for row in found.rows] == ["uni"]
