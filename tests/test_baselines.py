"""EASE, ALS and item neighbours against their formulas, and what each alone promises."""

from __future__ import annotations

import numpy as np
import pytest

import vitalrank as vr
from reference import baselines as plain
from vitalrank._util.threads import limited
from vitalrank.checkpoint import read_folder, write_folder
from vitalrank.errors import SettingError, StorageError, TrainingError
from vitalrank.kernels.cpu.training import als as kernels
from vitalrank.models import ease


@pytest.fixture(scope="module")
def log():
    return vr.datasets.synthetic(users=60, items=45, interactions=900, seed=3)


@pytest.fixture(scope="module")
def seen(log):
    return log.csr.toarray().astype(np.float64)


# ---------------------------------------------------------------------------------------------------- ItemKNN


@pytest.mark.parametrize("neighbours_of", ["predicted", "history"])
@pytest.mark.parametrize("similarity", ["cosine", "tfidf", "bm25"])
@pytest.mark.parametrize(("neighbours", "shrinkage", "k1", "b"), [(4, 0.0, 1.2, 0.2), (100, 3.0, 0.5, 1.0)])
def test_itemknn_equals_the_plain_definition(log, seen, neighbours_of, similarity, neighbours, shrinkage, k1, b):
    model = vr.ItemKNN(neighbours, shrinkage, similarity, k1, b, neighbours_of).fit(log)
    expected = plain.item_knn(plain.similarities(seen, similarity, k1, b, shrinkage), neighbours, neighbours_of)
    np.testing.assert_allclose(model.weights.toarray(), expected, rtol=1e-5)
    users = np.arange(log.n_users)
    np.testing.assert_allclose(model.scores(users, 0, log.n_items), seen @ expected, rtol=1e-4, atol=1e-6)


def test_neighbours_of_users_with_every_item():
    log = vr.Interactions.from_arrays([1, 1, 1, 2, 2, 2, 3], ["a", "b", "c", "a", "b", "c", "a"])
    for similarity in ("cosine", "tfidf", "bm25"):
        weights = vr.ItemKNN(similarity=similarity).fit(log).weights.toarray()
        assert ((weights > 0) == ~np.eye(3, dtype=bool)).all()


def test_a_model_of_version_0_1_is_a_cosine(tmp_path, log):
    model = vr.ItemKNN(neighbours=7, similarity="cosine").fit(log)
    model.save(tmp_path / "new")
    saved = read_folder(tmp_path / "new")
    old = {**saved.meta, "settings": {"neighbours": 7, "shrinkage": 0.0}}
    write_folder(tmp_path / "old", old, saved.tensors, saved.ids)
    loaded = vr.load(tmp_path / "old")
    assert repr(loaded) == repr(model)
    np.testing.assert_array_equal(loaded.weights.toarray(), model.weights.toarray())


# ------------------------------------------------------------------------------------------------------- EASE


@pytest.mark.parametrize(("reg", "kind"), [(1e-3, np.float64), (2.0, np.float32), (200.0, np.float32)])
def test_ease_equals_one_regression_per_item(log, seen, reg, kind):
    model = vr.EASE(reg=reg)
    assert model._precision(log) is kind
    expected = plain.ease(seen, reg)
    weights = model.fit(log).weights
    assert weights.dtype == np.float32
    np.testing.assert_allclose(weights, expected, atol=2e-5 * np.abs(expected).max())
    np.testing.assert_array_equal(weights.diagonal(), 0)
    np.testing.assert_allclose(model.scores(np.arange(9), 0, log.n_items), seen[:9] @ expected, atol=1e-4)


def test_ease_is_computed_in_blocks(log, monkeypatch):
    whole = vr.EASE(reg=3.0).fit(log).weights
    monkeypatch.setattr(ease, "_BLOCK", 12 * log.n_items * 7)
    np.testing.assert_array_equal(vr.EASE(reg=3.0).fit(log).weights, whole)


@pytest.mark.parametrize("dropout", [0.3, 0.75])
def test_ease_with_dropout_is_the_mean_over_rows_with_items_left_out(log, seen, dropout):
    model = vr.EASE(reg=2.0, dropout=dropout).fit(log)
    np.testing.assert_allclose(model.weights, plain.ease(seen, 2.0, dropout), atol=1e-6)
    alike = plain.similarities(seen, "cosine", 0.0, 0.0, 0.0)
    support = {i: plain.nearest(alike, i, 7) for i in range(log.n_items)}
    sparse = vr.EASE(reg=2.0, neighbours=7, dropout=dropout).fit(log)
    np.testing.assert_allclose(sparse.weights.toarray(), plain.regressed(seen, 2.0, support, dropout), atol=1e-6)


def test_the_formula_of_dropout_is_what_dropping_out_gives(seen):
    """A regression on very many rows with items left out, each scaled by what stays."""
    rng, dropout, x = np.random.default_rng(0), 0.4, seen[:20, :4]
    many = np.vstack([x * (rng.random(x.shape) > dropout) / (1 - dropout) for _ in range(20_000)]) / np.sqrt(20_000)
    target = np.tile(seen[:20, 4], 20_000) / np.sqrt(20_000)
    drawn = np.linalg.solve(many.T @ many + 2.0 * np.eye(4), many.T @ target)
    expected = plain.regressed(np.column_stack([x, seen[:20, 4]]), 2.0, {4: [0, 1, 2, 3]}, dropout)[:4, 4]
    np.testing.assert_allclose(drawn, expected, atol=0.01)


@pytest.mark.parametrize("neighbours", [1, 6, 44, 500])
def test_sparse_ease_is_exact_on_its_neighbours(log, seen, neighbours):
    model = vr.EASE(reg=2.0, neighbours=neighbours).fit(log)
    alike = plain.similarities(seen, "cosine", 0.0, 0.0, 0.0)
    support = {i: plain.nearest(alike, i, neighbours) for i in range(log.n_items)}
    np.testing.assert_allclose(model.weights.toarray(), plain.regressed(seen, 2.0, support), atol=1e-6)


def test_sparse_ease_does_not_depend_on_threads(log):
    expected = vr.EASE(reg=2.0, neighbours=9).fit(log).weights
    with limited(1):
        found = vr.EASE(reg=2.0, neighbours=9).fit(log).weights
    np.testing.assert_array_equal(found.toarray(), expected.toarray())


@pytest.mark.parametrize("neighbours", [None, 5])
def test_ease_keeps_items_without_training_rows(neighbours):
    train, _ = vr.Interactions.from_arrays([1, 1, 2, 2], ["a", "b", "a", "c"]).split_last(0.5)
    assert (train.item_degree == 0).any()
    assert np.isfinite(vr.EASE(1.0, neighbours).fit(train).scores(np.arange(2), 0, train.n_items)).all()


def test_ease_on_a_catalogue_of_one_item():
    log = vr.Interactions.from_arrays([1, 2], ["a", "a"])
    for neighbours in (None, 3):
        assert vr.EASE(1.0, neighbours).fit(log).scores(np.arange(2), 0, 1).tolist() == [[0.0], [0.0]]


@pytest.mark.parametrize("neighbours", [None, 30])
def test_ease_says_before_it_starts_that_memory_does_not_suffice(log, monkeypatch, neighbours):
    model = vr.EASE(neighbours=neighbours)
    monkeypatch.setattr(ease, "available_memory", lambda: model.estimate(log).bytes - 1)
    for name in ("_closed_form", "nearest_neighbours"):
        monkeypatch.setattr(ease, name, lambda *given: pytest.fail("it started"))
    less = "neighbours=200" if neighbours is None else "fewer neighbours"
    with pytest.raises(TrainingError, match=rf"on 45 items needs about .* GB of memory, and .* free; give {less}"):
        model.fit(log)
    with pytest.raises(SettingError, match="not fitted"):
        model.recommend(log.user_ids[0])


def test_ease_estimates_what_grows_with_the_catalogue(log):
    larger = vr.datasets.synthetic(users=60, items=400, interactions=2000, seed=3)
    assert vr.EASE().estimate(larger).bytes > 4 * larger.n_items**2 > vr.EASE().estimate(log).bytes
    assert vr.EASE(neighbours=5).estimate(larger).bytes < vr.EASE().estimate(larger).bytes
    more = vr.EASE(reg=1e-9).estimate(log).bytes - vr.EASE().estimate(log).bytes
    assert more == 8 * log.n_items**2  # a matrix in float64, and the weights beside it


def test_a_matrix_that_cannot_be_inverted_is_one_sentence():
    twice = [*range(50), *range(50)]
    log = vr.Interactions.from_arrays(twice, [0] * 50 + [1] * 50)  # two equal items
    with pytest.raises(TrainingError, match="give a larger reg"):
        vr.EASE(reg=1e-300).fit(log)


# ------------------------------------------------------------------------------------------------------ decay


@pytest.fixture(scope="module")
def timed(log):
    """The same in an order of time that is not that of the items."""
    times = np.random.default_rng(0).permutation(len(log))
    return vr.Interactions.from_arrays(log.user_ids[log.users], log.item_ids[log.items], times)


RECENT = [
    pytest.param(lambda decay: vr.ItemKNN(9, decay=decay), id="itemknn"),
    pytest.param(lambda decay: vr.EASE(2.0, decay=decay), id="ease"),
    pytest.param(lambda decay: vr.EASE(2.0, neighbours=9, decay=decay), id="sparse ease"),
]


@pytest.mark.parametrize("make", RECENT)
@pytest.mark.parametrize("decay", [0.5, 0.95])
def test_old_items_say_less(timed, make, decay):
    model, even = make(decay).fit(timed), make(1.0).fit(timed)
    weights = even.weights if isinstance(even.weights, np.ndarray) else even.weights.toarray()
    users = np.arange(timed.n_users)
    histories = [timed.items[timed.indptr[user] : timed.indptr[user + 1]].tolist() for user in users]
    assert any(items != sorted(items) for items in histories)
    expected = plain.decayed_scores(histories, weights.astype(np.float64), decay)
    np.testing.assert_allclose(model.scores(users, 0, timed.n_items), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(model.scores(users[:5], 3, 8), expected[:5, 3:8], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(model.history_scores(np.array(histories[7])), expected[7], rtol=1e-4, atol=1e-5)
    repeated = np.array([*histories[7], histories[7][0]])  # the first of a repeated item counts, as in a log
    np.testing.assert_allclose(model.history_scores(repeated), expected[7], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("make", RECENT)
def test_a_score_with_decay_is_explained(timed, make):
    model = make(0.7).fit(timed)
    user, item = timed.user_ids[3], timed.item_ids[5]
    ids = timed.item_ids[timed.items[timed.indptr[3] : timed.indptr[4]]]
    for why in (model.explain(user, item), vr.serving.explain_history(model, [*ids, ids[0]], item)):
        assert why.rest == 0
        assert why.contributions.sum() == pytest.approx(why.score, rel=1e-5)
        assert sorted(why.items) == sorted(ids)


@pytest.mark.parametrize("make", RECENT)
def test_decay_is_saved_and_an_extreme_one_leaves_the_last_item(timed, make, tmp_path):
    model = make(1e-30).fit(timed)
    model.save(tmp_path / "m")
    loaded = vr.load(tmp_path / "m")
    assert repr(loaded) == repr(model)
    last = timed.items[timed.indptr[1:] - 1]
    users = np.arange(timed.n_users)
    expected = np.stack([model.history_scores(np.array([item])) for item in last])
    np.testing.assert_allclose(loaded.scores(users, 0, timed.n_items), expected, rtol=1e-6, atol=1e-25)


@pytest.mark.parametrize("decay", [0, 1.1, float("nan"), "slow"])
def test_a_decay_that_is_none(decay):
    for kind in (vr.ItemKNN, vr.EASE):
        with pytest.raises(SettingError, match="decay"):
            kind(decay=decay)
    with pytest.raises(SettingError, match="dropout"):
        vr.EASE(dropout=1.0)


# -------------------------------------------------------------------------------------------------------- ALS


@pytest.mark.parametrize(("alpha", "weighted"), [(0.0, False), (4.0, False), (2.0, True)])
def test_als_solves_its_normal_equations(log, seen, alpha, weighted):
    weights = np.linspace(0.5, 3, len(log)) if weighted else None
    model = vr.ALS(dim=6, reg=2.0, alpha=alpha, epochs=40).fit(log, weights=weights)
    confidence = np.ones_like(seen)
    confidence[log.users, log.items] += alpha * (1.0 if weights is None else weights)
    users, items = model.queries(np.arange(log.n_users)), model.item_table
    expected = plain.als_solve(seen, confidence, items.astype(np.float64), 2.0)
    np.testing.assert_allclose(users, expected, atol=2e-3)
    loss = plain.als_loss(seen, confidence, users, items, 2.0) / len(log)
    assert model.history[-1]["loss"] == pytest.approx(loss, rel=1e-4)
    losses = [record["loss"] for record in model.history]
    assert (np.diff(losses) <= 1e-4).all()


def test_als_folds_in_by_solving(log, seen):
    model = vr.ALS(dim=6, reg=2.0, alpha=4.0, epochs=3).fit(log)
    expected = plain.als_solve(seen[:1], 1 + 4 * seen[:1], model.item_table.astype(np.float64), 2.0)[0]
    items = log.csr[0].indices
    np.testing.assert_allclose(model.query_of(items), expected, atol=1e-5)
    np.testing.assert_allclose(model.query_of(np.repeat(items, 2)), expected, atol=1e-5)


def test_als_has_the_same_bits_on_any_number_of_threads(monkeypatch):
    log = vr.datasets.synthetic(users=700, items=300, interactions=9000, seed=1)
    one, two = (vr.ALS(dim=24, epochs=2).fit(log, threads=threads) for threads in (1, 2))
    for name in ("users", "items"):
        np.testing.assert_array_equal(one.tensors()[name], two.tensors()[name])
    assert one.history[-1]["loss"] == two.history[-1]["loss"]
    monkeypatch.setattr(kernels, "threads_for", lambda cost: 7)
    np.testing.assert_array_equal(vr.ALS(dim=24, epochs=2).fit(log).item_table, one.item_table)


def test_als_resumes_with_the_bits_of_a_run_that_was_not_stopped(log, tmp_path):
    whole = vr.ALS(dim=5, epochs=6).fit(log)
    part = vr.ALS(dim=5, epochs=6).fit(log, callbacks=[lambda record, model: record["epoch"] == 2])
    assert (len(part.history), part.history.stopped) == (2, "callback")
    part.save(tmp_path / "als")
    loaded = vr.load(tmp_path / "als").fit(log, resume=True)
    assert [record["loss"] for record in loaded.history] == [record["loss"] for record in whole.history]
    np.testing.assert_array_equal(loaded.item_table, whole.item_table)
    np.testing.assert_array_equal(loaded.queries(np.arange(9)), whole.queries(np.arange(9)))
    assert loaded.history.stopped == "finished"


def test_als_resumes_on_its_own_log_alone(log):
    with pytest.raises(SettingError, match="not fitted yet"):
        vr.ALS().fit(log, resume=True)
    other = vr.datasets.synthetic(users=60, items=45, interactions=900, seed=4)
    with pytest.raises(SettingError, match="this is another"):
        vr.ALS(dim=2, epochs=1).fit(log).fit(other, resume=True)


def test_als_starts_from_its_seed(log):
    first, same, other = (vr.ALS(dim=4, epochs=1, seed=seed).fit(log).item_table for seed in (5, 5, 6))
    np.testing.assert_array_equal(first, same)
    assert (first != other).any()


def test_als_takes_the_weights_of_the_log():
    users, items, weights = [1, 1, 2, 2, 3], [5, 6, 5, 7, 6], [1.0, 3.0, 2.0, 0.5, 4.0]
    bare = vr.Interactions.from_arrays(users, items)
    log = vr.Interactions.from_arrays(users, items, weights=weights)
    own, given = vr.ALS(dim=2, epochs=2).fit(log), vr.ALS(dim=2, epochs=2).fit(bare, weights=log.weights)
    np.testing.assert_array_equal(own.item_table, given.item_table)
    assert (own.item_table != vr.ALS(dim=2, epochs=2).fit(bare).item_table).any()


@pytest.mark.parametrize("weights", [[1.0], "all", np.nan, -1.0])
def test_als_checks_weights(log, weights):
    given = weights if isinstance(weights, list) else np.full(len(log), weights)
    with pytest.raises(SettingError, match="weights"):
        vr.ALS(dim=2).fit(log, weights=given)


def test_als_exports_vectors(log, tmp_path):
    model = vr.ALS(dim=4, epochs=2).fit(log)
    model.export(tmp_path / "vectors")
    assert list((tmp_path / "vectors").iterdir())
    assert len(model.similar_users(log.user_ids[0], n=3)[0]) == 3


# -------------------------------------------------------------------------------------------------- all of them


@pytest.mark.parametrize("make", [vr.EASE, vr.ALS, vr.ItemKNN], ids=str)
def test_a_path_is_no_log(make):
    with pytest.raises(SettingError, match=r"give a log: vr\.read"):
        make().fit("log.tsv")


@pytest.mark.parametrize(
    ("make", "name", "spoil"),
    [
        (lambda: vr.EASE(2.0), "weights", lambda table: table[:-1]),
        (lambda: vr.EASE(2.0), "weights", lambda table: table * np.nan),
        (lambda: vr.EASE(2.0, 4), "indices", lambda rows: rows + 10**6),
        (lambda: vr.EASE(2.0, 4), "values", lambda values: values.astype(np.float64)),
        (lambda: vr.ALS(dim=3, epochs=1), "users", lambda table: table[:, :2]),
        (lambda: vr.ALS(dim=3, epochs=1), "items", lambda table: table * np.inf),
    ],
)
def test_a_spoilt_folder_is_refused(tmp_path, log, make, name, spoil):
    make().fit(log).save(tmp_path / "a")
    saved = read_folder(tmp_path / "a")
    with np.errstate(invalid="ignore"):
        spoilt = {**saved.tensors, name: np.ascontiguousarray(spoil(saved.tensors[name]))}
    write_folder(tmp_path / "a", saved.meta, spoilt, saved.ids)
    with pytest.raises(StorageError, match="does not hold a whole"):
        vr.load(tmp_path / "a")
