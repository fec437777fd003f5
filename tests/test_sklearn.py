"""Models in scikit-learn's loops: clone, get_params, set_params, score."""

from __future__ import annotations

import pytest

import vitalrank as vr
from vitalrank.errors import SettingError
from vitalrank.models import model_class

base = pytest.importorskip("sklearn.base")
ParameterGrid = pytest.importorskip("sklearn.model_selection").ParameterGrid

MODELS = {"mf": {"dim": 8}, "itemknn": {"neighbours": 7}, "mostpopular": {}, "fpmc": {"dim": 8}, "cml": {"dim": 8},
          "als": {"alpha": 2.0}, "ease": {"reg": 7.0},
          "marank": {"length": 3}, "sasrec": {"length": 3}, "lightgcn": {"layers": 1},
          "irgan": {"warm": 1}}  # fmt: skip


@pytest.fixture(scope="module")
def parts():
    return vr.datasets.synthetic(users=60, items=50, interactions=900, seed=0).split_last(0.2, valid=0.1)


@pytest.mark.parametrize("name", MODELS)
def test_a_clone_is_unfitted_and_the_same(name):
    if name not in ("mf", "als", "ease", "itemknn", "mostpopular"):
        pytest.importorskip("torch")
    model = model_class(name)(**MODELS[name])
    copy = base.clone(model)
    assert type(copy) is type(model)
    assert copy is not model
    assert copy.get_params() == model.get_params()
    assert copy.get_params().items() >= MODELS[name].items()


def test_a_search_over_a_grid(parts):
    train, valid, test = parts
    fitted = vr.MF(dim=4).fit(train, epochs=1, threads=1)
    best, chosen = -1.0, None
    for settings in ParameterGrid({"dim": [2, 8], "bias": [False, True]}):
        model = base.clone(fitted).set_params(**settings).fit(train, vr.VINS(), epochs=2, threads=1, seed=0)
        assert model.get_params() == {**fitted.get_params(), **settings}
        score = model.score(valid)
        assert score == vr.evaluate(model, valid, at=10)["ndcg@10"]
        if score > best:
            best, chosen = score, settings
    assert chosen is not None
    assert model.score(test, "recall@5") == vr.evaluate(model, test, at=5)["recall@5"]


def test_set_params_forgets_what_was_learnt(parts):
    model = vr.MF(dim=4).fit(parts[0], epochs=1, threads=1)
    assert model.set_params() is model
    assert model.train is parts[0]
    assert model.set_params(dim=8).dim == 8
    with pytest.raises(SettingError, match="not fitted"):
        model.recommend(["u"])


@pytest.mark.parametrize(("settings", "part"), [({"width": 8}, "no setting 'width'"), ({"dim": 0}, "dim is 0")])
def test_wrong_settings(settings, part):
    model = vr.MF(dim=4)
    with pytest.raises(SettingError, match=part):
        model.set_params(**settings)
    assert model.dim == 4


@pytest.mark.parametrize("metric", ["ndcg", "@10", "ndcg@ten", "ndcg@0"])
def test_a_score_needs_a_metric_and_a_length(parts, metric):
    model = vr.MostPopular().fit(parts[0])
    with pytest.raises(SettingError, match="write it like 'ndcg@10'"):
        model.score(parts[1], metric)
