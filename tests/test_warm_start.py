"""A warm start: known rows keep their vectors, new ones are placed, and the training is as exact as any other."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

import vitalrank as vr
from vitalrank.training.placing import place_rows

QUICK = {"epochs": 2, "progress": False, "seed": 3}


def part_of(log, users, items):
    """The rows of some users and items, with their original ids."""
    user, item = log.user_ids[log.users], log.item_ids[log.items]
    keep = np.isin(user, users) & np.isin(item, items)
    return vr.Interactions.from_arrays(user[keep], item[keep], times=log.times[keep])


@pytest.fixture(scope="module")
def logs():
    """A log, and the same with new users, new items and new rows of known ones."""
    whole = vr.datasets.synthetic(users=90, items=70, interactions=1800, seed=1)
    rows = np.arange(len(whole))
    user, item = whole.user_ids[whole.users], whole.item_ids[whole.items]
    whole = vr.Interactions.from_arrays(user, item, times=rows)
    old = part_of(whole, whole.user_ids[:80], whole.item_ids[:60])
    return old, old.extend(whole)


@pytest.fixture(scope="module")
def earlier(logs):
    return vr.MF(dim=8, bias=True).fit(logs[0], **QUICK)


def arrays_equal(first, second):
    one, other = first.tensors(), second.tensors()
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def started(model, start, log, **options):
    """The vectors before the first step: a learning rate of next to nothing."""
    return model.fit(log, start=start, **{"lr": 1e-30, "optimizer": "sgd", "epochs": 1, "progress": False, **options})


def test_known_rows_keep_their_vectors_and_new_ones_are_placed(logs, earlier):
    old, grown = logs
    model = started(vr.MF(dim=8, bias=True), earlier, grown)
    for side, known in (("users", old.n_users), ("items", old.n_items)):
        before, after = earlier.tensors()[side], model.tensors()[side]
        assert np.array_equal(after[:known], before)
        assert len(after) > known
        lengths = np.linalg.norm(after[:, :8], axis=1)
        assert 0.2 < lengths[known:].mean() / lengths[:known].mean() < 5
    assert (model.tensors()["users"][:, 8] == 1).all()  # the constant beside the item's bias


def test_a_placed_user_likes_what_they_have(logs):
    old, grown = logs
    earlier = vr.MF(dim=8).fit(old, epochs=40, progress=False)
    model = started(vr.MF(dim=8), earlier, grown)
    new = np.arange(old.n_users, grown.n_users)
    scores = model.scores(new, 0, old.n_items)
    seen = grown.csr[new, : old.n_items].toarray() > 0
    assert scores[seen].mean() > scores[~seen].mean() + 0.3 * scores.std()


def test_placing_is_the_ridge_regression_it_says():
    rng = np.random.default_rng(0)
    table, fixed = rng.normal(size=(40, 3)).astype(np.float32), rng.normal(size=(30, 4)).astype(np.float32)
    log = (rng.random((46, 33)) < 0.2).astype(np.float32)
    count = log[:, :30].sum(1, keepdims=True)
    sums = log[:, :30] @ fixed
    x = np.hstack([sums / (count + 1), sums / np.sqrt(count + 1), np.log1p(count), np.ones_like(count)])
    normal = x[:40].T @ x[:40]
    weights = np.linalg.solve(normal + 1e-3 * np.trace(normal) / 10 * np.eye(10), x[:40].T @ table)
    known, new = np.arange(40), np.arange(40, 46)
    np.testing.assert_allclose(
        place_rows(table, fixed, csr_matrix(log[:, :30]), known, new), x[40:] @ weights, rtol=1e-3, atol=1e-4
    )


def test_what_was_held_out_is_new(logs):
    """Ids without a training row have vectors that no positive trained."""
    whole = logs[1]
    old = vr.split_like(whole, part_of(whole, whole.user_ids[5:], whole.item_ids[:-5]))
    users, items = np.arange(5), np.arange(whole.n_items - 5, whole.n_items)
    earlier = vr.MF(dim=8, bias=True).fit(old, epochs=20, progress=False)
    model = started(vr.MF(dim=8, bias=True), earlier, whole)
    for side, new in (("users", users), ("items", items)):
        before, after = earlier.tensors()[side], model.tensors()[side]
        moved = (before != after).any(axis=1)
        assert np.flatnonzero(moved).tolist() == new.tolist()


def test_the_bits_do_not_depend_on_the_threads(logs, earlier):
    one, two = (vr.MF(dim=8, bias=True).fit(logs[1], start=earlier, threads=n, progress=False) for n in (1, 2))
    assert arrays_equal(one, two)


def test_options_are_those_of_the_first_training_for_a_few_epochs(logs, earlier):
    first = vr.MF(dim=8).fit(logs[0], vr.DNS(candidates=4), lr=0.01, **QUICK)
    model = vr.MF(dim=8).fit(logs[1], start=first, progress=False)
    assert model.history.sampler.startswith("DNS(candidates=4")
    assert (model.history.settings["lr"], model.history.settings["seed"]) == (0.01, 3)
    assert len(model.history) == 3
    again = vr.MF(dim=8).fit(logs[1], start=model, progress=False)
    assert again.history.start["updates"] == 2
    assert len(again.refit(logs[1], progress=False).history) == 2  # epochs of the first training


def test_a_model_may_start_from_itself(logs):
    model = vr.MF(dim=8).fit(logs[0], **QUICK)
    other = vr.MF(dim=8).fit(logs[1], start=vr.MF(dim=8).fit(logs[0], **QUICK), progress=False)
    assert arrays_equal(model.fit(logs[1], start=model, progress=False), other)


@pytest.mark.parametrize("make", [lambda: vr.MF(dim=4), lambda: vr.FPMC(dim=4)], ids=["MF", "FPMC"])
def test_a_stopped_update_resumes_exactly(make, logs, tmp_path):
    make().fit(logs[0], checkpoint=tmp_path / "a", **QUICK)
    options = {"start": tmp_path / "a", "epochs": 3, "progress": False}
    whole = make().fit(logs[1], **options)
    stop = {"callbacks": [lambda record, model: record["epoch"] == 1], "checkpoint": tmp_path / "b"}
    make().fit(logs[1], **options, **stop)
    resumed = make().fit(logs[1], **options, checkpoint=tmp_path / "b", resume=True)
    assert len(resumed.history) == 3
    assert arrays_equal(whole, resumed)
    assert vr.load(tmp_path / "b").history.start["updates"] == 1


def test_a_run_folder_also_gives_the_state_of_the_optimizer(logs, tmp_path):
    model = vr.MF(dim=4).fit(logs[0], checkpoint=tmp_path / "a", **QUICK)
    with_state = vr.MF(dim=4).fit(logs[1], start=tmp_path / "a", progress=False)
    without = vr.MF(dim=4).fit(logs[1], start=model, progress=False)
    assert not arrays_equal(with_state, without)


def test_another_start_is_not_resumed(logs, earlier, tmp_path):
    options = {"checkpoint": tmp_path / "b", "progress": False}
    vr.MF(dim=8, bias=True).fit(logs[1], start=earlier, **options)
    other = vr.MF(dim=8, bias=True).fit(logs[0], **{**QUICK, "seed": 9})
    with pytest.raises(vr.SettingError, match="was trained with start="):
        vr.MF(dim=8, bias=True).fit(logs[1], start=other, seed=3, resume=True, **options)


@pytest.mark.parametrize(
    ("make", "tables"),
    [
        (lambda: vr.FPMC(dim=4), {"users": "user", "items": "item", "baskets": "item"}),
        (lambda: vr.MARank(dim=4, length=2), {"users": "user", "items": "item"}),
        (lambda: vr.CML(dim=4), {"users": "user", "items": "item"}),
    ],
    ids=["FPMC", "MARank", "CML"],
)
def test_tables_of_torch_models_grow(make, tables, logs):
    old, grown = logs
    earlier = make().fit(old, **QUICK)
    model = started(make(), earlier, grown)
    for table, side in tables.items():
        before, after = (one.tensors()[f"network.{table}.weight"] for one in (earlier, model))
        known = len(before) // (old.n_users if side == "user" else old.n_items)
        known *= old.n_users if side == "user" else old.n_items
        np.testing.assert_allclose(after[:known], before[:known], atol=1e-6)
        assert np.isfinite(after).all()
    if isinstance(model, vr.FPMC):
        assert not model.tensors()["network.baskets.weight"][-1].any()  # stands for no item
    if isinstance(model, vr.CML):
        points = model.item_table[:, :4]
        np.testing.assert_allclose(model.item_table[:, 4], -0.5 * (points**2).sum(1), atol=1e-6)
        assert (np.linalg.norm(points, axis=1) < 1.001).all()


def test_modules_of_ones_own_grow_by_their_sizes(logs):
    def modules(log):
        torch.manual_seed(0)
        return torch.nn.Embedding(log.n_users, 4), torch.nn.Embedding(log.n_items, 4)

    old, grown = logs
    earlier = vr.TorchRecommender(*modules(old)).fit(old, vr.DNS(), **QUICK)
    model = started(vr.TorchRecommender(*modules(grown)), earlier, grown)
    assert np.array_equal(model.item_table[: old.n_items], earlier.item_table)
    wide = vr.TorchRecommender(torch.nn.Embedding(grown.n_users, 5), torch.nn.Embedding(grown.n_items, 5))
    with pytest.raises(vr.SettingError, match="give a model of the same settings"):
        wide.fit(grown, start=earlier, progress=False)


class Recent(torch.nn.Module):
    """A query from the last items; the row of no item is the first or the last one."""

    def __init__(self, n_items, none):
        super().__init__()
        self.none, self.items = none, torch.nn.Embedding(n_items + 1, 4, padding_idx=none)

    def forward(self, users, context):
        return self.items(context + 1 if self.none == 0 else torch.where(context < 0, self.none, context)).mean(1)


@pytest.mark.parametrize("is_first", [True, False])
def test_a_row_for_no_item_stays_where_it_is(is_first, logs):
    def made(log):
        torch.manual_seed(0)
        encoder = Recent(log.n_items, 0 if is_first else log.n_items)
        return vr.TorchRecommender(encoder, torch.nn.Embedding(log.n_items, 4), length=3)

    old, grown = logs
    earlier = made(old).fit(old, vr.Uniform(), **QUICK)
    name = "network.encoder.items.weight"
    before, after = earlier.tensors()[name], started(made(grown), earlier, grown).tensors()[name]
    known = slice(1, old.n_items + 1) if is_first else slice(old.n_items)
    assert np.array_equal(after[known], before[known])
    assert np.array_equal(after[0 if is_first else -1], before[0 if is_first else -1])
    assert np.isfinite(after).all()


@pytest.mark.parametrize("kind", ["vectors", "score"])
def test_modules_of_ones_own_go_on_from_a_run_folder(kind, logs, tmp_path):
    def made(log):
        torch.manual_seed(0)
        users, items = torch.nn.Embedding(log.n_users, 4), torch.nn.Embedding(log.n_items, 4)
        return vr.TorchRecommender(users, items) if kind == "vectors" else vr.TorchRecommender(score=Dot(users, items))

    old, grown = logs
    made(old).fit(old, vr.Uniform(), checkpoint=tmp_path / "a", **QUICK)
    made(old).fit(old, vr.Uniform(), **QUICK).save(tmp_path / "b")
    models = [started(made(grown), tmp_path / name, grown) for name in "ab"]
    assert arrays_equal(*models)
    assert models[0].history.start["updates"] == 1


class Dot(torch.nn.Module):
    def __init__(self, users, items):
        super().__init__()
        self.users, self.items = users, items

    def forward(self, users, ids):
        return (self.users(users).unsqueeze(1) * self.items(ids)).sum(-1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: vr.MF(dim=4), "give an earlier model of the same settings"),
        (lambda: vr.FPMC(dim=8), "give an earlier model of the same settings"),
    ],
)
def test_a_start_of_other_settings_is_refused(make, message, logs, earlier):
    with pytest.raises(vr.SettingError, match=message):
        make().fit(logs[1], start=earlier, progress=False)


def test_a_start_of_another_log_is_refused(earlier):
    other = vr.datasets.synthetic(users=95, items=75, interactions=900, seed=5)
    with pytest.raises(vr.SettingError, match="extend that log"):
        vr.MF(dim=8, bias=True).fit(vr.Interactions.from_arrays(other.users + 7, other.items), start=earlier)


def test_what_has_no_warm_start_says_so(logs):
    model = vr.IRGAN(dim=4, warm=0).fit(logs[0], epochs=1, progress=False)
    with pytest.raises(vr.SettingError, match="IRGAN has no warm start"):
        vr.IRGAN(dim=4, warm=0).fit(logs[1], start=model, progress=False)
    with pytest.raises(vr.SettingError, match="not fitted yet"):
        vr.MF(dim=4).fit(logs[1], start=vr.MF(dim=4), progress=False)
    with pytest.raises(vr.SettingError, match="give a fitted model or its run folder"):
        vr.MF(dim=4).fit(logs[1], start=7, progress=False)
