"""What a service asks for, in original ids, with everything that can be asked wrongly."""

import importlib.util

import numpy as np
import pyarrow.parquet as pq
import pytest

import vitalrank as vr
from fixed_vectors import FixedVectors
from vitalrank.serving import exporting, solve_query

USERS = ["ann", "ann", "ann", "bob", "bob", "cid", "cid", "cid", "cid", "dot"]
ITEMS = [10, 20, 30, 10, 40, 10, 20, 30, 40, 40]


class Biased(FixedVectors):
    """Two tastes and a bias, as one more column."""

    constant_columns = 1

    def __init__(self, train):
        taste = np.array([[3, 0], [2, 0], [0, 1], [0, 2]], np.float32)
        users = np.array([[1, 0, 1], [0, 1, 1], [1, 1, 1], [0.9, 0.1, 1]], np.float32)
        super().__init__(train, users, np.column_stack([taste, [0.5, 0, 4, 0]]))


@pytest.fixture
def log():
    return vr.Interactions.from_arrays(USERS, ITEMS)


@pytest.fixture
def popular(log):
    return vr.MostPopular().fit(log)


@pytest.fixture
def biased(log):
    return Biased(log)


# ---------------------------------------------------------------------------------------------------- recommend


def test_one_id_gives_one_list_and_several_give_rows(popular):
    ids, scores = popular.recommend("dot", n=2)
    assert ids.tolist() == [10, 20]
    assert scores.tolist() == [3, 2]
    rows, _ = popular.recommend(["bob", "dot"], n=2)
    assert rows.tolist() == [[20, 30], [10, 20]]


def test_more_than_the_catalogue_is_the_whole_catalogue_and_the_rest_is_empty(popular):
    ids, scores = popular.recommend(["ann", "cid"], n=99)
    assert ids.tolist() == [[40, -1, -1, -1], [-1, -1, -1, -1]]
    assert scores[0].tolist() == [3, -np.inf, -np.inf, -np.inf]


def test_empty_places_of_string_ids_are_none(log):
    turned = vr.Interactions.from_arrays(ITEMS, USERS)
    ids, _ = vr.MostPopular().fit(turned).recommend([10], n=4)
    assert ids.tolist() == [["dot", None, None, None]]


def test_an_unknown_user_is_an_error_or_gets_popular_items(popular):
    with pytest.raises(vr.UnknownIdError, match="'eve'"):
        popular.recommend(["ann", "eve"])
    ids, scores = popular.recommend(["eve", "dot"], n=2, unknown="popular")
    assert ids.tolist() == [[10, 40], [10, 20]]
    assert scores[0].tolist() == [3, 3]
    ids, _ = popular.recommend("eve", n=1, unknown="popular")
    assert ids.tolist() == [10]


def test_items_of_more_logs_are_left_out(popular, log):
    users, items = log.user_index(["dot", "bob"]), log.item_index([10, 20])
    bought = vr.Interactions.from_codes(users, items, None, log.user_ids, log.item_ids)
    assert popular.recommend("dot", n=2, exclude=bought)[0].tolist() == [20, 30]
    rows, _ = popular.recommend(["bob", "dot"], n=1, exclude=[bought])
    assert rows.tolist() == [[30], [20]]
    with pytest.raises(vr.DataError, match="exclude has other user_ids"):
        popular.recommend("dot", exclude=vr.Interactions.from_arrays(["dot"], [10]))


def test_no_users_give_no_rows(popular):
    ids, scores = popular.recommend([], n=3)
    assert ids.shape == scores.shape == (0, 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 0}, "n=0"),
        ({"n": 2.5}, r"n=2\.5"),
        ({"unknown": "guess"}, "unknown='guess'"),
        ({"threads": 0}, "threads is 0"),
    ],
)
def test_wrong_settings_are_named(popular, arguments, message):
    with pytest.raises(vr.SettingError, match=message):
        popular.recommend(["ann"], **arguments)


# ---------------------------------------------------------------------------------------------------- similar


def test_similar_items_compare_tastes_and_not_biases(biased):
    ids, scores = biased.similar_items(10, n=1)
    assert ids.tolist() == [20]
    assert scores[0] == pytest.approx(1.0)


def test_similar_users(biased):
    ids, scores = biased.similar_users("ann", n=2)
    assert ids.tolist() == ["dot", "cid"]
    assert scores[1] == pytest.approx(np.sqrt(0.5))


def test_unknown_items_are_named(popular):
    for call in (lambda: popular.similar_items(77), lambda: popular.fold_in([10, 77])):
        with pytest.raises(vr.UnknownIdError, match="77"):
            call()


# ---------------------------------------------------------------------------------------------------- fold in


def test_fold_in_follows_the_history(biased):
    assert biased.fold_in([10], n=3)[0].tolist()[0] in (20, 30)
    query = biased.query_of(biased.train.item_index([10, 20]))
    assert query[0] > query[1]
    assert query[2] == 1


def test_solve_query_is_where_the_gradient_vanishes():
    rng = np.random.default_rng(0)
    table = rng.standard_normal((50, 6)).astype(np.float32)
    history = np.array([3, 8, 9])
    query = solve_query(table, history, reg=0.1, constant_columns=1)
    assert query[-1] == 1
    free = table[:, :5].astype(float)
    weights = np.exp(table.astype(float) @ query)
    pull = 0.1 * np.mean(np.sum(free**2, axis=1))
    gradient = weights @ free / weights.sum() - free[history].mean(axis=0) + pull * query[:5]
    np.testing.assert_allclose(gradient, 0, atol=1e-3)


def test_scaling_the_table_scales_the_query_back():
    rng = np.random.default_rng(1)
    table = rng.standard_normal((40, 4)).astype(np.float32)
    history = np.array([1, 2])
    np.testing.assert_allclose(solve_query(10 * table, history) * 10, solve_query(table, history), atol=2e-2)


@pytest.mark.parametrize("history", [[], "10"])
def test_a_history_must_be_a_list_of_items(popular, history):
    with pytest.raises(vr.SettingError, match="at least one item id"):
        popular.fold_in(history)


# ---------------------------------------------------------------------------------------------------- export


def test_numpy_export_ranks_as_the_model_does(biased, tmp_path):
    biased.export(tmp_path / "out")
    items, users, item_ids, user_ids = (
        np.load(tmp_path / "out" / f"{name}.npy", allow_pickle=False)
        for name in ("items", "users", "item_ids", "user_ids")
    )
    expected = biased.scores(np.arange(4), 0, 4)
    np.testing.assert_array_equal(users @ items.T, expected)
    assert item_ids.tolist() == [10, 20, 30, 40]
    assert user_ids.tolist() == ["ann", "bob", "cid", "dot"]


def test_parquet_export_holds_ids_and_vectors(biased, tmp_path):
    biased.export(tmp_path, format="parquet")
    items, users = (pq.read_table(tmp_path / f"{name}.parquet").to_pydict() for name in ("items", "users"))
    assert items["id"] == [10, 20, 30, 40]
    assert users["id"] == ["ann", "bob", "cid", "dot"]
    np.testing.assert_allclose(
        np.array(users["vector"]) @ np.array(items["vector"]).T, biased.scores(np.arange(4), 0, 4), rtol=1e-6
    )


@pytest.mark.parametrize("module", ["faiss", "hnswlib"])
def test_an_index_library_that_is_absent_is_named(biased, tmp_path, module, monkeypatch):
    if importlib.util.find_spec(module):
        monkeypatch.setitem(__import__("sys").modules, module, None)
    with pytest.raises(vr.SettingError, match=f"needs {module}: pip install"):
        biased.export(tmp_path, format=module)


@pytest.mark.parametrize(("module", "file"), [("faiss", "items.faiss"), ("hnswlib", "items.hnsw")])
def test_an_index_finds_what_the_model_recommends(biased, tmp_path, module, file):
    library = pytest.importorskip(module)
    biased.export(tmp_path, format=module)
    users = np.load(tmp_path / "users.npy")
    if module == "faiss":
        found = library.read_index(str(tmp_path / file)).search(users, 1)[1]
    else:
        index = library.Index(space="ip", dim=users.shape[1])
        index.load_index(str(tmp_path / file))
        found = index.knn_query(users, k=1)[0]
    assert found[:, 0].tolist() == biased.scores(np.arange(4), 0, 4).argmax(axis=1).tolist()


def test_an_export_to_a_file_is_a_storage_error(biased, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(vr.StorageError, match="cannot be written"):
        biased.export(tmp_path / "file")
    assert set(exporting.EXPORTERS) == {"numpy", "parquet", "safetensors", "faiss", "hnswlib"}


def test_what_a_model_cannot_do_is_one_sentence(tmp_path):
    log = vr.Interactions.from_arrays([1, 1, 2], ["x", "y", "x"])
    model = vr.ItemKNN().fit(log)
    with pytest.raises(vr.SettingError, match=r"ItemKNN is no dot product and has no vectors to export; train vr\.MF"):
        model.export(tmp_path / "vectors")
