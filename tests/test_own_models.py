"""Modules of the caller's: trained by any sampler, saved, loaded, attached again."""

import numpy as np
import pytest
import torch
from torch import nn

import vitalrank as vr
from vitalrank.errors import SettingError

pytestmark = pytest.mark.usefixtures("one_torch_thread")


@pytest.fixture(scope="module")
def log():
    return vr.datasets.synthetic(users=60, items=40, interactions=900, seed=1, sequence=0.5)


class LastItem(nn.Module):
    """A query from the user and the last item before."""

    def __init__(self, n_users, n_items, dim=6):
        super().__init__()
        self.users, self.items = nn.Embedding(n_users, dim), nn.Embedding(n_items + 1, dim)

    def forward(self, users, context):
        return self.users(users) + self.items(context[:, 0] + 1)


class Features(nn.Module):
    """Item vectors from features of theirs."""

    def __init__(self, n_items, dim=6):
        super().__init__()
        self.register_buffer("known", torch.eye(n_items))
        self.linear = nn.Linear(n_items, dim)

    def forward(self, ids):
        return self.linear(self.known[ids])


class Perceptron(nn.Module):
    """Scores that are no dot product."""

    def __init__(self, n_users, n_items, dim=6):
        super().__init__()
        self.users, self.items = nn.Embedding(n_users, dim), nn.Embedding(n_items, dim)
        self.out = nn.Sequential(nn.Linear(2 * dim, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 1))

    def forward(self, users, ids):
        vectors = self.items(ids)  # (B, C, d)
        return self.out(torch.cat([self.users(users).unsqueeze(1).expand_as(vectors), vectors], -1)).squeeze(-1)


def encoder(log):
    return nn.Sequential(nn.Embedding(log.n_users, 6), nn.BatchNorm1d(6), nn.Linear(6, 6), nn.Dropout(0.1))


MODELS = {
    "embedding": lambda log: vr.TorchRecommender(encoder(log), nn.Embedding(log.n_items, 6)),
    "parameter": lambda log: vr.TorchRecommender(encoder(log), nn.Parameter(0.1 * torch.randn(log.n_items, 6))),
    "module": lambda log: vr.TorchRecommender(encoder(log), Features(log.n_items)),
    "context": lambda log: vr.TorchRecommender(
        LastItem(log.n_users, log.n_items), nn.Embedding(log.n_items, 6), length=1
    ),
    "score": lambda log: vr.TorchRecommender(score=Perceptron(log.n_users, log.n_items)),
}


def made(name, log):
    torch.manual_seed(0)
    return MODELS[name](log)


@pytest.mark.parametrize("sampler", [vr.Uniform(), vr.VINS(), vr.SA(candidates=3), vr.PRIS(clusters=0)], ids=repr)
@pytest.mark.parametrize("name", MODELS)
def test_any_module_learns_with_any_sampler(name, log, sampler):
    model = made(name, log).fit(log, sampler, epochs=10, lr=0.02, batch=128)
    assert model.history[-1]["loss"] < model.history[0]["loss"]
    ids, _ = model.recommend(log.user_ids[:3], n=4)
    assert ids.shape == (3, 4)


@pytest.mark.parametrize("name", MODELS)
def test_early_stopping_checkpoints_and_exact_resume(name, log, tmp_path):
    train, valid = log.split_last(0.2)
    options = {"valid": valid, "epochs": 5, "lr": 0.01, "batch": 128, "patience": None}
    whole = made(name, train).fit(train, vr.DNS(), **options)
    stop = [lambda record, model: record["epoch"] == 2]
    made(name, train).fit(train, vr.DNS(), checkpoint=tmp_path / "run", callbacks=stop, **options)
    parts = made(name, train).fit(train, vr.DNS(), checkpoint=tmp_path / "run", resume=True, **options)
    users = np.arange(train.n_users)
    np.testing.assert_array_equal(parts.scores(users, 0, 40), whole.scores(users, 0, 40))
    best = max(record["ndcg@10"] for record in whole.history)
    assert vr.evaluate(whole, valid, at=10)["ndcg@10"] == pytest.approx(best)


def modules_of(name, log):
    network = made(name, log).network
    return {"score": network.scorer} if name == "score" else {"encoder": network.encoder, "item_table": network.items}


@pytest.mark.parametrize("name", MODELS)
def test_modules_are_attached_to_what_was_saved(name, log, tmp_path):
    model = made(name, log).fit(log, vr.Uniform(), epochs=2)
    model.save(tmp_path / "model")
    again = vr.load(tmp_path / "model").attach(**modules_of(name, log))
    assert type(again) is type(model)
    users = np.arange(log.n_users)
    np.testing.assert_array_equal(again.scores(users, 0, 40), model.scores(users, 0, 40))
    assert again.history.records == model.history.records
    again.fit(log, vr.Uniform(), epochs=1)


def test_a_loaded_model_serves_its_vectors_without_the_modules(log, tmp_path):
    model = made("context", log).fit(log, vr.Uniform(), epochs=2)
    model.save(tmp_path / "model")
    loaded = vr.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.recommend(log.user_ids)[0], model.recommend(log.user_ids)[0])
    with pytest.raises(SettingError, match=r"give the modules to attach\(\) first"):
        loaded.fit(log, vr.Uniform(), epochs=1)


def test_a_loaded_scorer_asks_for_its_module(log, tmp_path):
    made("score", log).fit(log, vr.Uniform(), epochs=1).save(tmp_path / "model")
    with pytest.raises(SettingError, match=r"give the modules to attach\(\) first"):
        vr.load(tmp_path / "model").recommend(log.user_ids[0])


def test_a_model_without_modules_asks_for_some(log):
    with pytest.raises(SettingError, match="takes modules of your own"):
        vr.TorchRecommender().fit(log, vr.Uniform(), epochs=1)


def test_other_modules_are_refused(log, tmp_path):
    made("embedding", log).fit(log, vr.Uniform(), epochs=1).save(tmp_path / "model")
    with pytest.raises(SettingError, match="not the modules that were saved"):
        vr.load(tmp_path / "model").attach(LastItem(60, 40), nn.Embedding(40, 6))
    with pytest.raises(SettingError, match="not the modules that were saved"):
        vr.load(tmp_path / "model").attach(nn.Embedding(60, 6), nn.Embedding(40, 6))


def test_a_run_is_not_resumed_with_other_modules(log, tmp_path):
    made("embedding", log).fit(log, vr.Uniform(), epochs=1, checkpoint=tmp_path / "run")
    other = vr.TorchRecommender(nn.Embedding(60, 6), nn.Embedding(40, 6))
    with pytest.raises(SettingError, match="was trained with model='TorchRecommender"):
        other.fit(log, vr.Uniform(), epochs=2, checkpoint=tmp_path / "run", resume=True)


def test_a_parameter_is_trained_in_place_and_tables_are_given_back_as_they_were(log):
    vectors = nn.Parameter(0.1 * torch.randn(log.n_items, 6))
    before = vectors.detach().clone()
    users = nn.Embedding(log.n_users, 6)
    model = vr.TorchRecommender(users, vectors).fit(log, vr.Uniform(), epochs=1)
    assert not torch.equal(vectors, before)
    assert np.shares_memory(model.item_table, vectors.detach().numpy())
    assert not users.sparse
    assert users.weight.grad is None
    assert not users._forward_hooks


def test_only_touched_rows_of_an_embedding_move(log):
    class Half(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(log.n_users, 6)

        def forward(self, users):
            return self.table(users // 2)

    half = Half()
    before = half.table.weight.detach().clone()
    vr.TorchRecommender(half, nn.Embedding(log.n_items, 6)).fit(log, vr.Uniform(), epochs=3, reg=0.1)
    assert torch.equal(half.table.weight[30:], before[30:])
    assert not torch.equal(half.table.weight[:30], before[:30])


def test_shapes_that_do_not_fit_the_log_are_named(log):
    with pytest.raises(SettingError, match=r"item_table is \(39, 6\) and the encoder makes \(2, 6\) of two users"):
        vr.TorchRecommender(encoder(log), nn.Embedding(39, 6)).fit(log)
    with pytest.raises(SettingError, match=r"\(40, 5\) and the encoder makes \(2, 6\)"):
        vr.TorchRecommender(encoder(log), nn.Embedding(40, 5)).fit(log)
    with pytest.raises(SettingError, match="both an encoder and an item_table"):
        vr.TorchRecommender(encoder(log))
    with pytest.raises(SettingError, match="score= takes the place"):
        vr.TorchRecommender(encoder(log), score=Perceptron(1, 1))
    with pytest.raises(SettingError, match=r"'encoder\.weight' must be contiguous float32"):
        vr.TorchRecommender(nn.Embedding(60, 6).double(), nn.Embedding(40, 6)).fit(log, vr.Uniform())


MISTAKES = [
    (lambda: vr.TorchRecommender(lambda users: users, nn.Embedding(40, 6)), "encoder is of type function"),
    (lambda: vr.TorchRecommender(nn.Embedding(60, 6), torch.zeros(40, 6)), "item_table is of type Tensor; it must be"),
    (lambda: vr.TorchRecommender(score=lambda users, ids: ids), "score is of type function"),
    (lambda: vr.TorchRecommender(nn.Embedding(50, 6), nn.Embedding(40, 6)), "encoder fails on user ids 0 and 59"),
    (
        lambda: vr.TorchRecommender(nn.Embedding(60, 6), nn.Sequential(nn.Embedding(30, 6))),
        "item_table fails on item ids 0 to 39",
    ),
    (lambda: vr.TorchRecommender(nn.Embedding(60, 6), nn.Embedding(40, 6), length=3), "encoder fails on .* contexts"),
    (lambda: vr.TorchRecommender(score=nn.Embedding(60, 6)), "score module fails on user ids"),
    (
        lambda: vr.TorchRecommender(
            nn.Embedding(60, 6).requires_grad_(False), nn.Embedding(40, 6).requires_grad_(False)
        ),
        "nothing to train",
    ),
]


@pytest.mark.parametrize(("make", "said"), MISTAKES, ids=[said for _, said in MISTAKES])
def test_a_mistake_is_told_before_training(make, said, log):
    with pytest.raises(SettingError, match=said):
        make().fit(log, vr.DNS(), epochs=1)


class Unit(nn.Embedding):
    """A table that gives its rows at length 1."""

    def forward(self, ids):
        return nn.functional.normalize(super().forward(ids), dim=-1)


@pytest.mark.parametrize("table", [Unit(40, 6), nn.Embedding(40, 6, max_norm=0.5)], ids=["normalized", "max_norm"])
def test_what_is_served_is_what_the_item_module_gives(table, log):
    users = nn.Embedding(60, 6)
    model = vr.TorchRecommender(users, table).fit(log, vr.DNS(), epochs=3, lr=0.05, reg=0.0)
    with torch.no_grad():
        wanted = users.weight @ table(torch.arange(40)).T
    np.testing.assert_allclose(model.scores(np.arange(60), 0, 40), wanted.numpy(), rtol=1e-5, atol=1e-6)


def test_a_table_whose_weight_is_computed_trains(log):
    users = torch.nn.utils.parametrizations.weight_norm(nn.Embedding(60, 6))
    before = users.weight.detach().clone()
    vr.TorchRecommender(users, nn.Embedding(40, 6)).fit(log, vr.VINS(), epochs=1)
    assert not torch.equal(before, users.weight)


def test_modules_keep_their_modes(log):
    resting = nn.BatchNorm1d(6).eval()
    users = nn.Sequential(nn.Embedding(60, 6), resting, nn.Dropout(0.5))
    model = vr.TorchRecommender(users, nn.Embedding(40, 6)).fit(log, vr.Uniform(), epochs=1)
    assert not resting.running_mean.any()
    assert [part.training for part in users] == [True, False, True]
    served = [model.queries(np.arange(60)) for _ in range(2)]
    np.testing.assert_array_equal(*served)  # nothing is dropped


class Recent(nn.Module):
    """A query from the last items alone."""

    def __init__(self, n_items, dim=6):
        super().__init__()
        self.items = nn.Embedding(n_items + 1, dim)

    def forward(self, users, context):
        return self.items(context + 1).mean(1)


def test_an_encoder_of_contexts_reads_the_history_of_someone_new(log):
    model = vr.TorchRecommender(Recent(log.n_items), nn.Embedding(log.n_items, 6), length=3)
    model.fit(log, vr.Uniform(), epochs=1)
    known = log.user_ids[:2]
    histories = [log.item_ids[log.items[log.indptr[u] : log.indptr[u + 1]]] for u in range(2)]
    folded = model.fold_in(histories, n=5)[0]
    np.testing.assert_array_equal(folded, model.recommend(known, n=5)[0])


def test_an_encoder_of_users_and_contexts_solves_for_the_query(log):
    model = made("context", log).fit(log, vr.Uniform(), epochs=1)
    items = np.array([3, 5])
    np.testing.assert_array_equal(model.query_of(items), vr.serving.solve_query(model.item_table, items))
    assert model.fold_in(log.item_ids[:2], n=4)[0].shape == (4,)


def test_a_run_of_other_modules_of_one_size_is_not_resumed(log, tmp_path):
    def fit(items, **options):
        model = vr.TorchRecommender(nn.Embedding(60, 6), items)
        return model.fit(log, vr.Uniform(), checkpoint=tmp_path / "run", **options)

    fit(nn.Embedding(40, 6), epochs=1)
    for items in (nn.Sequential(nn.Embedding(40, 6)), nn.Sequential(nn.Embedding(40, 3), nn.Linear(3, 6))):
        with pytest.raises(SettingError, match=r"holds other arrays than this model has|was trained with model"):
            fit(items, epochs=2, resume=True)


def test_a_scorer_folds_in_by_users_with_like_items(log):
    model = made("score", log).fit(log, vr.Uniform(), epochs=1)
    history = np.array([1, 4, 9])
    sets = [set(log.items[log.indptr[u] : log.indptr[u + 1]].tolist()) for u in range(log.n_users)]
    likeness = np.array([len(one & set(history.tolist())) / np.sqrt(3 * len(one)) for one in sets])
    nearest = np.argsort(-likeness, kind="stable")[:32]
    wanted = likeness[nearest] @ model.scores(nearest, 0, log.n_items) / likeness[nearest].sum()
    np.testing.assert_allclose(model.history_scores(history), wanted, rtol=1e-4, atol=1e-6)
    ids, _ = model.fold_in([log.item_ids[history], [log.item_ids[0], 10**6]], n=4, unknown="skip")
    assert ids.shape == (2, 4)
    assert not set(ids[0]) & set(log.item_ids[history])
    why = model.explain(log.user_ids[0], ids[0, 0])
    assert why.contributions.sum() + why.rest == pytest.approx(why.score)


def test_a_scorer_says_what_it_cannot_do(log):
    model = made("score", log).fit(log, vr.Uniform(), epochs=1)
    with pytest.raises(SettingError, match="no item vectors"):
        model.similar_items(log.item_ids[0])


class Shaped(nn.Module):
    """Scores put into another shape."""

    def __init__(self, log, shape):
        super().__init__()
        self.inner, self.shape = Perceptron(log.n_users, log.n_items), shape

    def forward(self, users, ids):
        return self.shape(self.inner(users, ids))


@pytest.mark.parametrize("sampler", [vr.Uniform(), vr.Popularity(), vr.VINS()], ids=repr)
@pytest.mark.parametrize("shape", [lambda x: x.unsqueeze(-1), lambda x: x[:, :1], lambda x: x.mean(1)])
def test_scores_that_are_not_one_for_each_id_are_refused(log, sampler, shape):
    with pytest.raises(SettingError, match=r"the score module makes .* of ids \(\d+, \d+\); it must give one score"):
        vr.TorchRecommender(score=Shaped(log, shape)).fit(log, sampler, epochs=1)


def test_a_scorer_that_flattens_its_ids_trains_and_serves(log):
    class Flat(nn.Module):
        def __init__(self):
            super().__init__()
            self.users, self.items = nn.Embedding(log.n_users, 1), nn.Embedding(log.n_items, 1)

        def forward(self, users, ids):
            return self.users(users) + self.items(ids.view(-1)).view(ids.shape)

    model = vr.TorchRecommender(score=Flat()).fit(log, vr.DNS(), epochs=1)
    assert model.recommend(log.user_ids[:3], n=4)[0].shape == (3, 4)


def test_a_fit_that_fails_leaves_the_tables_as_they_were(log):
    users, items = nn.Embedding(log.n_users, 6), nn.Embedding(39, 6)
    with pytest.raises(SettingError, match="for this log"):
        vr.TorchRecommender(users, items).fit(log)
    assert not users.sparse
    assert not items.sparse


def test_a_model_with_a_scorer_is_one_of_its_class_and_has_no_vectors(log):
    model = vr.TorchRecommender(score=Perceptron(log.n_users, log.n_items)).fit(log, vr.DNS(), epochs=1)
    assert type(model) is vr.TorchRecommender
    assert not model.has_vectors
    assert vr.TorchRecommender(encoder(log), nn.Embedding(log.n_items, 6)).has_vectors
    for ask in (lambda: model.queries(np.arange(2)), lambda: model.item_table, lambda: model.export("x")):
        with pytest.raises(SettingError, match="given by score= has no vectors"):
            ask()
