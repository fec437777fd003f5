"""One contract for every model in the registry, then what each model alone promises."""

import json

import numpy as np
import pytest
import torch

import vitalrank as vr
from vitalrank._util.threads import limited
from vitalrank.checkpoint import read_folder, write_folder
from vitalrank.models import model_class, model_names
from vitalrank.ranking.top_n import top_items

# How to get a small fitted model of each class. A model in the registry without a factory fails the test below.
FACTORIES = {
    "MostPopular": lambda train: vr.MostPopular().fit(train),
    "ItemKNN": lambda train: vr.ItemKNN(neighbours=20, shrinkage=1.5).fit(train),
    "EASE": lambda train: vr.EASE(reg=5.0).fit(train),
    "ALS": lambda train: vr.ALS(dim=5, epochs=3).fit(train),
    "MF": lambda train: vr.MF(dim=5, bias=True).fit(train, sampler=vr.Uniform(), epochs=3, seed=0),
    "FPMC": lambda train: vr.FPMC(dim=5, length=2).fit(train, sampler=vr.Uniform(), epochs=3, seed=0),
    "MARank": lambda train: vr.MARank(dim=5, length=3).fit(train, sampler=vr.DNS(), epochs=3, seed=0),
    "SASRec": lambda train: vr.SASRec(dim=6, length=5, heads=2).fit(train, vr.DNS(), epochs=3, seed=0),
    "LightGCN": lambda train: vr.LightGCN(dim=5, layers=2).fit(train, vr.DNS(), epochs=3, seed=0),
    "CML": lambda train: vr.CML(dim=5).fit(train, epochs=3, seed=0),
    "IRGAN": lambda train: vr.IRGAN(dim=5, warm=2).fit(train, epochs=2, seed=0),
    "TorchRecommender": lambda train: own_model(train).fit(train, sampler=vr.VINS(), epochs=3, seed=0),
}


def own_model(train):
    torch.manual_seed(0)
    encoder = torch.nn.Sequential(torch.nn.Embedding(train.n_users, 6), torch.nn.Linear(6, 5))
    return vr.TorchRecommender(encoder, torch.nn.Embedding(train.n_items, 5))


@pytest.fixture(scope="module")
def log():
    rng = np.random.default_rng(0)
    users = np.concatenate([np.arange(40), rng.integers(0, 40, 500)])
    items = np.concatenate([np.arange(40) % 25, rng.integers(0, 25, 500) ** 2 // 25])
    return vr.Interactions.from_arrays(
        [f"u{user:02}" for user in users], [f"i{item:02}" for item in items], np.arange(len(users))
    )


@pytest.fixture(scope="module", params=FACTORIES)
def model(request, log):
    return FACTORIES[request.param](log)


def test_every_model_has_a_factory():
    assert set(FACTORIES) == set(model_names())


class TestContract:
    def test_recommendations_do_not_depend_on_who_else_is_asked_for(self, model):
        users = model.train.user_ids
        everyone = model.recommend(users, n=7)
        for row in (0, 1, 17, len(users) - 1):
            alone, pair = model.recommend(users[row : row + 1], n=7), model.recommend(users[[row, 3]], n=7)
            for together, one, two in zip(everyone, alone, pair, strict=True):
                np.testing.assert_array_equal(one[0], together[row])
                np.testing.assert_array_equal(two[0], together[row])

    def test_scores_are_float32_and_blocks_fit_together(self, model):
        users, n = np.array([3, 0, 3]), model.train.n_items
        whole = model.scores(users, 0, n)
        assert whole.dtype == np.float32
        assert whole.shape == (3, n)
        parts = [model.scores(users, start, min(start + 7, n)) for start in range(0, n, 7)]
        np.testing.assert_allclose(np.concatenate(parts, axis=1), whole, rtol=1e-6)
        np.testing.assert_array_equal(whole[0], whole[2])

    def test_recommend_gives_the_best_unseen_items(self, model):
        ids, scores = model.recommend(["u05", "u01"], n=6)
        assert ids.shape == scores.shape == (2, 6)
        for user, row, values in zip(["u05", "u01"], ids, scores, strict=True):
            index = model.train.user_index([user])
            expected = model.scores(index, 0, model.train.n_items)[0]
            seen = model.train.csr[int(index[0])].indices
            expected[seen] = -np.inf
            np.testing.assert_allclose(values, np.sort(expected)[::-1][:6], rtol=1e-5)
            np.testing.assert_allclose(expected[model.train.item_index(row)], values, rtol=1e-5)
            assert not set(model.train.item_index(row)) & set(seen)

    def test_similar_items_leave_the_item_out_and_are_sorted(self, model):
        ids, scores = model.similar_items("i03", n=5)
        assert len(set(ids)) == 5
        assert "i03" not in ids
        assert (np.diff(scores) <= 0).all()

    def test_fold_in_leaves_the_history_out(self, model):
        ids, scores = model.fold_in(["i03", "i10"], n=4)
        assert not {"i03", "i10"} & set(ids)
        assert len(set(ids)) == 4
        assert (np.diff(scores) <= 0).all()

    def test_saved_and_loaded_it_is_the_same_model(self, model, tmp_path):
        model.save(tmp_path / "a")
        loaded = vr.load(tmp_path / "a")
        assert type(loaded) is type(model)
        assert repr(loaded) == repr(model)
        assert loaded.train.fingerprint == model.train.fingerprint
        users = np.arange(model.train.n_users)
        for before, after in zip(top_items(model, users, 10), top_items(loaded, users, 10), strict=True):
            np.testing.assert_array_equal(before, after)
        np.testing.assert_array_equal(loaded.fold_in(["i03"])[0], model.fold_in(["i03"])[0])
        loaded.save(tmp_path / "b")
        for name in ("model.json", "tensors.safetensors", "ids.arrow"):
            assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()

    def test_before_fit_everything_says_so(self, model, tmp_path):
        fresh = type(model)(**model.settings())
        for call in (lambda: fresh.recommend("u01"), lambda: fresh.similar_items("i01"), lambda: fresh.save(tmp_path)):
            with pytest.raises(vr.SettingError, match=r"not fitted yet: call fit\(train\) first"):
                call()


# ---------------------------------------------------------------------------------------------------- registry


def test_classes_are_found_by_any_capitals():
    assert model_class("itemknn") is vr.ItemKNN
    with pytest.raises(vr.SettingError, match="unknown model 'svd'; choose one of MF, FPMC, MARank"):
        model_class("svd")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"class": ["MF"]}, "no model of a known class"),
        ({"class": None}, "no model of a known class"),
        ({"record": {"history": [], "fit": "fine"}}, "does not hold a whole MF"),
        ({"record": []}, "does not hold a whole MF"),
        ({"settings": None}, "does not hold a whole MF"),
    ],
)
def test_load_says_what_is_wrong_with_a_changed_folder(tmp_path, changes, words):
    log = vr.datasets.synthetic(users=20, items=15, interactions=100, seed=0)
    vr.MF(dim=2).fit(log, vr.Uniform(), epochs=1).save(tmp_path / "a")
    saved = read_folder(tmp_path / "a")
    write_folder(tmp_path / "a", {**saved.meta, **changes}, saved.tensors, saved.ids)
    with pytest.raises(vr.StorageError, match=words):
        vr.load(tmp_path / "a")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"log.train.items": -(10**6)}, "items outside 0 to 14"),
        ({"log.train.indptr": 10**8}, "no rows of 20 users"),
    ],
)
def test_arrays_that_lead_out_of_memory_are_refused(tmp_path, changes, words):
    log = vr.datasets.synthetic(users=20, items=15, interactions=100, seed=0)
    vr.MF(dim=2).fit(log, vr.Uniform(), epochs=1).save(tmp_path / "a")
    saved = read_folder(tmp_path / "a")
    for name, value in changes.items():
        saved.tensors[name][5] = value
    write_folder(tmp_path / "a", saved.meta, saved.tensors, saved.ids)
    with pytest.raises(vr.StorageError, match=words):
        vr.load(tmp_path / "a")


def test_a_model_fitted_anew_on_another_log_holds_nothing_of_the_first_out():
    log = vr.datasets.synthetic(users=20, items=15, interactions=100, seed=0)
    train, test = log.split_last(0.2)
    model = vr.MF(dim=2).fit(train, vr.Uniform(), epochs=1)
    model.held_out = {"test": test}
    assert model.fit(train, vr.Uniform(), epochs=1).held_out
    assert not model.fit(log, vr.Uniform(), epochs=1).held_out


def test_load_refuses_a_folder_of_something_else(tmp_path):
    write_folder(tmp_path / "a", {"class": "Wizard"}, {"x": np.zeros(1)})
    with pytest.raises(vr.StorageError, match="no model of a known class"):
        vr.load(tmp_path / "a")
    write_folder(tmp_path / "b", {"class": "ItemKNN", "settings": {}, "record": {}}, {"x": np.zeros(1)})
    with pytest.raises(vr.StorageError, match="does not hold a whole ItemKNN"):
        vr.load(tmp_path / "b")


# ---------------------------------------------------------------------------------------------------- MostPopular


def test_most_popular_counts_users():
    log = vr.Interactions.from_arrays([1, 2, 3, 1, 2, 4], [7, 7, 7, 8, 8, 9])
    ids, scores = vr.MostPopular().fit(log).recommend(4, n=2)
    assert ids.tolist() == [7, 8]
    assert scores.tolist() == [3, 2]


# ---------------------------------------------------------------------------------------------------- ItemKNN


def test_itemknn_does_not_depend_on_threads(log):
    expected = vr.ItemKNN(neighbours=4).fit(log).weights
    with limited(1):
        found = vr.ItemKNN(neighbours=4).fit(log).weights
    np.testing.assert_array_equal(found.toarray(), expected.toarray())


def test_itemknn_folds_a_history_in_as_it_scores_a_user(log):
    model = vr.ItemKNN(neighbours=5).fit(log)
    history = log.csr[7].indices
    np.testing.assert_allclose(model.history_scores(history), model.scores(np.array([7]), 0, log.n_items)[0], rtol=1e-6)
    np.testing.assert_array_equal(model.history_scores(np.array([1, 1])), model.history_scores(np.array([1])))


def test_itemknn_keeps_items_without_training_rows():
    train, _ = vr.Interactions.from_arrays([1, 1, 2, 2], ["a", "b", "a", "c"]).split_last(0.5)
    assert (train.item_degree == 0).any()
    assert np.isfinite(vr.ItemKNN().fit(train).scores(np.arange(2), 0, train.n_items)).all()


WRONG = [
    ("ItemKNN", {"neighbours": 0}), ("ItemKNN", {"neighbours": 2.7}), ("ItemKNN", {"neighbours": "many"}),
    ("ItemKNN", {"neighbours": True}), ("ItemKNN", {"shrinkage": -1.0}), ("ItemKNN", {"shrinkage": float("nan")}),
    ("ItemKNN", {"shrinkage": "lots"}), ("ItemKNN", {"similarity": "jaccard"}), ("ItemKNN", {"k1": -1}),
    ("ItemKNN", {"b": 1.5}), ("EASE", {"reg": 0}), ("EASE", {"neighbours": 0}), ("EASE", {"reg": "much"}),
    ("ALS", {"dim": 0}), ("ALS", {"reg": -1}), ("ALS", {"alpha": -1}), ("ALS", {"epochs": 0}), ("ALS", {"seed": -1}),
    ("MF", {"bias": "no"}), ("MF", {"bias": 0}), ("MF", {"dim": "wide"}),
    ("MARank", {"dropout": "much"}), ("MARank", {"dropout": 1.0}), ("MARank", {"dropout": -0.1}),
    ("SASRec", {"dropout": 1.0}), ("SASRec", {"heads": 0}), ("SASRec", {"layers": 0}),
    ("CML", {"covariance": "much"}), ("CML", {"covariance": -1.0}), ("FPMC", {"length": 1.5}),
    ("IRGAN", {"role": [1]}), ("IRGAN", {"warm": "long"}), ("TorchRecommender", {"clip": "hard"}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "settings"), WRONG, ids=str)
def test_settings_are_checked(name, settings):
    if name not in ("ItemKNN", "EASE", "ALS", "MF"):
        pytest.importorskip("torch")
    with pytest.raises(vr.SettingError, match=next(iter(settings))):
        getattr(vr, name)(**settings)


def test_settings_may_be_numbers_of_numpy():
    model = vr.ItemKNN(neighbours=np.int64(3), shrinkage=np.float32(0.5))
    assert json.dumps(model.settings()) == (
        '{"neighbours": 3, "shrinkage": 0.5, "similarity": "bm25", "k1": 1.2, "b": 0.3, "neighbours_of": "predicted", '
        '"decay": 1.0}'
    )
